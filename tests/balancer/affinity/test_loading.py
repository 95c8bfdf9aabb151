import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer.affinity import Item, Shelf, wait_ms, waits_ms
from trimtab.balancer.affinity.loading import eviction_ms, regret_ms

ITEMS = {
    "small": Item(1000, 2000),
    "large": Item(8000, 20_000),
    "busy": Item(4000, 10_000, rate_per_s=5.0),
    "idle": Item(4000, 10_000, rate_per_s=0.0),
}


@pytest.mark.parametrize(
    ("name", "shelf", "expected"),
    [
        ("small", Shelf(9000, ["small"]), 0),
        ("small", Shelf(9000), 2000),
        ("small", Shelf(9000, loading={"small": 700.0}), 700),
        ("small", Shelf(9000, loading={"idle": 700.0}), 2700),  # after that one
        ("large", Shelf(9000, ["idle"]), 20_000),  # nobody misses it
        ("large", Shelf(9000, ["busy"]), 30_000),  # sure to be loaded again
        ("large", Shelf(9000, ["idle", "busy"]), 30_000),
        ("large", Shelf(7000), None),  # never fits
        ("large", Shelf(9000, ["busy"], pinned=frozenset({"busy"})), None),
        ("large", Shelf(9000, loading={"busy": 1.0}), None),
        ("small", Shelf(9000, ["idle", "busy"]), 2000),  # there is room beside
    ],
)
def test_a_wait_is_what_must_happen_first(
    name: str, shelf: Shelf, expected: float | None
) -> None:
    found = wait_ms(name, shelf, ITEMS)
    assert found == (None if expected is None else pytest.approx(expected))


def test_the_longest_unused_goes_first_and_no_more_than_must() -> None:
    shelf = Shelf(9000, ["idle", "busy"])
    assert eviction_ms("small", shelf, ITEMS) == 0
    tight = shelf._replace(capacity_mib=8500)
    assert eviction_ms("small", tight, ITEMS) == 0  # only "idle" goes
    swapped = tight._replace(loaded=["busy", "idle"])
    assert eviction_ms("small", swapped, ITEMS) == pytest.approx(10_000)


def test_nodes_that_hold_it_are_the_only_ones_while_there_is_one() -> None:
    cold, warm, coming = Shelf(9000), Shelf(9000, ["small"]), {"small": 500.0}
    assert waits_ms("small", [cold, cold], ITEMS) == [2000, 2000]
    assert waits_ms("small", [cold, warm], ITEMS) == [None, 0]
    shelves = [cold, Shelf(9000, loading=coming), warm]
    assert waits_ms("small", shelves, ITEMS) == [None, 500, 0]


@given(st.floats(0, 1e5), st.floats(0, 100), st.floats(0, 100))
def test_what_is_asked_for_more_is_missed_more_and_never_above_its_load_time(
    load_ms: float, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    less, more = (regret_ms(Item(1, load_ms, rate)) for rate in (low, high))
    assert 0 <= less <= more <= load_ms


def test_an_item_that_nobody_described_is_an_error() -> None:
    with pytest.raises(KeyError):
        wait_ms("unheard of", Shelf(9000), ITEMS)
