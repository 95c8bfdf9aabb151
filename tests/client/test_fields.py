"""JSON to typed values: what passes, and that nothing else does."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.client.fields import Fields, Unexpected
from trimtab.client.history import parse_history

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(JSON)
def test_a_number_is_finite_or_unexpected(value: object) -> None:
    try:
        number = Fields({"x": value}).number("x")
    except Unexpected:
        return
    assert math.isfinite(number)
    assert not isinstance(value, bool | str | list | dict)


@pytest.mark.parametrize(
    ("value", "arrived"),
    [
        (None, "nothing"),
        ("7", "'7'"),
        (True, "True"),
        ([1], "a list of 1"),
        (10**400, "a number beyond 1e20"),
        (math.inf, "inf"),
        ("x" * 10_000, "'" + "x" * 59),
    ],
)
def test_an_unexpected_field_is_named_with_what_arrived(
    value: object, arrived: str
) -> None:
    with pytest.raises(Unexpected) as caught:
        Fields({"score": value}).number("score")
    assert str(caught.value) == f"answer.score: expected a number, got {arrived}"


def test_absent_is_none_or_empty_where_that_may_be() -> None:
    fields = Fields({"null": None})
    assert fields.maybe_number("null") is None
    assert fields.maybe_text("gone") is None
    assert fields.texts("gone") == ()
    assert fields.readings("gone") == {}


def test_history_of_uneven_columns_is_refused() -> None:
    answer = json.loads(
        '{"node": "n", "step_s": 60, "time": [60], "samples": [1],'
        ' "series": {"score": {"mean": [1.0, 2.0], "min": [1.0], "max": [1.0]}}}'
    )
    with pytest.raises(Unexpected, match="unlike length"):
        parse_history(Fields(answer))
