from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer.bus import Known, Part
from trimtab.balancer.leases import Ledger
from trimtab.balancer.seat import Seat


def seat() -> Seat:
    return Seat("n", Known(), Part())


def test_a_lease_is_open_until_its_outcome() -> None:
    ledger, node = Ledger(limit=10), seat()
    ledger.open("x", node, 40.0, 50.0, ends_at=30.0)
    assert len(ledger) == 1
    closed = ledger.close("x")
    assert closed is not None
    assert (closed.seat, closed.work_ms) == (node, 50.0)
    assert len(ledger) == 0


def test_closing_twice_or_what_never_was_changes_nothing() -> None:
    ledger = Ledger(limit=10)
    ledger.open("x", seat(), 40.0, 50.0, ends_at=30.0)
    ledger.open("y", seat(), 40.0, 50.0, ends_at=30.0)
    ledger.close("x")
    assert ledger.close("x") is None
    assert ledger.close("z") is None
    assert len(ledger) == 1


@pytest.mark.parametrize(
    ("ends_at", "now", "ended"),
    [
        (30.0, 29.9, 0),
        (30.0, 30.0, 1),
        (29.5, 29.9, 0),  # by whole seconds: late, never early
        (29.5, 30.0, 1),
        (30.0, 1e6, 1),
    ],
)
def test_a_lease_without_outcome_ends_within_a_second_of_its_time(
    ends_at: float, now: float, ended: int
) -> None:
    ledger = Ledger(limit=10)
    ledger.open("x", seat(), 40.0, 50.0, ends_at)
    assert len(ledger.due(now)) == ended
    assert len(ledger) == 1 - ended


def test_past_the_limit_the_next_to_expire_goes() -> None:
    ledger, short = Ledger(limit=2), seat()
    ledger.open("long", seat(), 40.0, 50.0, ends_at=60.0)
    ledger.open("short", short, 40.0, 50.0, ends_at=30.0)
    gone = ledger.open("new", seat(), 40.0, 50.0, ends_at=31.0)
    assert gone is not None
    assert gone.seat is short
    assert len(ledger) == 2
    assert ledger.close("short") is None


def test_a_lease_opened_twice_is_a_fault_of_the_caller() -> None:
    ledger = Ledger(limit=2)
    ledger.open("x", seat(), 40.0, 50.0, ends_at=30.0)
    with pytest.raises(ValueError, match="open already"):
        ledger.open("x", seat(), 40.0, 50.0, ends_at=30.0)


def test_b26_nothing_is_kept_of_work_that_ended() -> None:
    ledger, node = Ledger(limit=1000), seat()
    for i in range(5000):
        ledger.open(str(i), node, 40.0, 50.0, ends_at=i / 1000 + 30)
        if i >= 10:
            ledger.close(str(i - 10))
    assert len(ledger) == 10
    assert sum(map(len, ledger._seconds.values())) <= 100  # of closed leases too
    ledger.due(100.0)
    assert (len(ledger), ledger._seconds, ledger._order) == (0, {}, [])


steps = st.lists(
    st.tuples(
        st.sampled_from(["open", "close", "expire"]),
        st.integers(0, 20),  # which lease
        st.floats(0, 20),  # seconds that pass
        st.floats(0.1, 50),  # how long it lasts
    )
)


@given(steps)
def test_leases_balance(history: list[tuple[str, int, float, float]]) -> None:
    ledger, node = Ledger(limit=1000), seat()
    model: dict[str, int] = {}
    now = 0.0
    for action, lease, elapsed, ttl_s in history:
        now += elapsed
        ident = str(lease)
        due = ledger.due(now)
        assert len(due) == sum(end <= now for end in model.values())
        model = {i: end for i, end in model.items() if end > now}
        if action == "open" and ident not in model:
            ledger.open(ident, node, 40.0, 50.0, now + ttl_s)
            model[ident] = ceil(now + ttl_s)
        elif action == "close":
            assert (ledger.close(ident) is None) == (ident not in model)
            model.pop(ident, None)
        assert len(ledger) == len(model)
    ledger.due(now + 100)
    assert len(ledger) == 0
