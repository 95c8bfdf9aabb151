from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer.leases import Ledger, Load


def test_a_lease_counts_until_its_outcome() -> None:
    ledger = Ledger(limit=10)
    ledger.open("x", "n", now=0.0, ttl_s=30)
    assert ledger.load("n", 0.0).in_flight == 1
    assert ledger.close("x", 1.0) is not None
    assert ledger.load("n", 1.0).in_flight == 0


def test_closing_twice_or_what_never_was_changes_nothing() -> None:
    ledger = Ledger(limit=10)
    ledger.open("x", "n", now=0.0, ttl_s=30)
    ledger.open("y", "n", now=0.0, ttl_s=30)
    ledger.close("x", 1.0)
    assert ledger.close("x", 1.0) is None
    assert ledger.close("z", 1.0) is None
    assert ledger.load("n", 1.0).in_flight == 1


@pytest.mark.parametrize(("now", "expected"), [(29.9, 1), (30.0, 0), (1e6, 0)])
def test_a_lease_without_outcome_ends_at_its_expiry(now: float, expected: int) -> None:
    ledger = Ledger(limit=10)
    ledger.open("x", "n", now=0.0, ttl_s=30)
    ledger.expire(now)
    assert ledger.load("n", now).in_flight == len(ledger) == expected


def test_the_mean_follows_the_count_with_two_seconds_of_memory() -> None:
    ledger = Ledger(limit=10)
    ledger.open("x", "n", now=0.0, ttl_s=30)
    assert ledger.load("n", 2.0).mean == pytest.approx(1 - exp(-1))
    ledger.close("x", 2.0)
    assert ledger.load("n", 4.0).mean == pytest.approx((1 - exp(-1)) * exp(-1))


def test_past_the_limit_the_next_to_expire_goes() -> None:
    ledger = Ledger(limit=2)
    ledger.open("long", "a", now=0.0, ttl_s=60)
    ledger.open("short", "b", now=0.0, ttl_s=30)
    ledger.open("new", "c", now=1.0, ttl_s=30)
    assert [ledger.load(node, 1.0).in_flight for node in "abc"] == [1, 0, 1]


def test_a_lease_opened_twice_is_a_fault_of_the_caller() -> None:
    ledger = Ledger(limit=2)
    ledger.open("x", "n", now=0.0, ttl_s=30)
    with pytest.raises(ValueError, match="open already"):
        ledger.open("x", "n", now=0.0, ttl_s=30)


def test_b26_nothing_is_kept_of_work_that_ended() -> None:
    ledger = Ledger(limit=1000)
    for i in range(5000):
        ledger.open(str(i), f"n{i % 50}", now=i / 1000, ttl_s=30)
        if i >= 10:
            ledger.close(str(i - 10), i / 1000)
    assert len(ledger) == 10
    assert len(ledger._expiries) <= 100  # of closed leases too
    ledger.expire(100.0)
    ledger.forget_idle(1000.0)
    assert (len(ledger), ledger._expiries, ledger._nodes) == (0, [], {})


steps = st.lists(
    st.tuples(
        st.sampled_from(["open", "close", "expire"]),
        st.integers(0, 20),  # which lease
        st.integers(0, 3),  # which node
        st.floats(0, 20),  # seconds that pass
        st.floats(0.1, 50),  # how long it lasts
    )
)


@given(steps)
def test_leases_balance(history: list[tuple[str, int, int, float, float]]) -> None:
    ledger = Ledger(limit=1000)
    model: dict[str, tuple[str, float]] = {}
    now = 0.0
    for action, lease, node, elapsed, ttl_s in history:
        now += elapsed
        ident = str(lease)
        ledger.expire(now)
        model = {i: kept for i, kept in model.items() if kept[1] > now}
        if action == "open" and ident not in model:
            ledger.open(ident, str(node), now, ttl_s)
            model[ident] = (str(node), now + ttl_s)
        elif action == "close":
            assert (ledger.close(ident, now) is None) == (ident not in model)
            model.pop(ident, None)
        for each in range(4):
            expected = sum(kept[0] == str(each) for kept in model.values())
            assert ledger.load(str(each), now).in_flight == expected
    ledger.expire(now + 100)
    assert len(ledger) == 0
    assert ledger.load("0", now + 1000) == pytest.approx(Load(0, 0.0))
