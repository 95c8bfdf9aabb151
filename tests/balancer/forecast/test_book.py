"""Many series by name."""

import json

import pytest

from trimtab.balancer.forecast import BadState, Book, Kind

MINUTE = Kind(60.0, counts=True)
NODE, ITEM = ("node", "a"), ("item", "llama")


def test_series_are_apart_and_unknown_ones_foresee_nothing() -> None:
    book = Book(10)
    for step in range(30):
        book.update(NODE, MINUTE, step * 60.0, 5.0)
        book.update(ITEM, MINUTE, step * 60.0, 90.0)
    assert book.forecast(NODE, 1)[0].value == pytest.approx(5.0)
    assert book.forecast(ITEM, 1)[0].value == pytest.approx(90.0)
    assert book.forecast(("class", "batch"), 1) == []
    assert book.get(("class", "batch")) is None


def test_the_series_updated_longest_ago_makes_room() -> None:
    book = Book(2)
    book.update(NODE, MINUTE, 0.0, 1.0)
    book.update(ITEM, MINUTE, 0.0, 1.0)
    book.update(NODE, MINUTE, 60.0, 1.0)
    book.update(("class", "batch"), MINUTE, 60.0, 1.0)
    assert len(book) == 2
    assert book.get(ITEM) is None
    assert book.get(NODE) is not None


def test_a_series_of_another_kind_is_learnt_anew() -> None:
    book = Book(2)
    book.update(NODE, MINUTE, 6000.0, 1.0)
    book.update(NODE, Kind(10.0), 10.0, 3.0)
    assert book.forecast(NODE, 1)[0].at_s == 20.0


def test_a_forgotten_series_is_gone() -> None:
    book = Book(2)
    book.update(NODE, MINUTE, 0.0, 1.0)
    book.forget(NODE)
    book.forget(NODE)
    assert len(book) == 0


def test_a_book_comes_back_from_json_with_the_latest_that_fit() -> None:
    book = Book(5)
    for index in range(5):
        book.update(("node", str(index)), MINUTE, 60.0 * index, float(index))
    back = Book.restore(json.loads(json.dumps(book.state())), limit=3)
    assert len(back) == 3
    assert back.get(("node", "1")) is None
    assert back.forecast(("node", "4"), 3) == book.forecast(("node", "4"), 3)


@pytest.mark.parametrize("state", [{}, {"version": 99, "series": []}])
def test_a_book_of_another_version_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(BadState, match="all series are learnt anew"):
        Book.restore(state, limit=3)


def test_a_book_that_is_not_whole_is_refused() -> None:
    with pytest.raises(BadState, match="learnt anew"):
        Book.restore({"version": 1, "series": [["node"]]}, limit=3)
