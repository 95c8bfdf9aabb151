"""Which collector is dialled next, and when all were tried in vain."""

from trimtab.agent.failover import Failover
from trimtab.agent.settings import Address

A, B = Address(("a", 1)), Address(("b", 2))


def test_one_collector_failing_is_a_round():
    alone = Failover([A])
    assert alone.failed(good=False)
    assert alone.failed(good=True)
    assert alone.current == A


def test_the_next_is_dialled_at_once_and_a_whole_round_backs_off():
    both = Failover([A, B])
    assert both.current == A
    assert not both.failed(good=False)
    assert both.current == B
    assert both.failed(good=False)
    assert both.current == A


def test_a_good_connection_that_ends_begins_a_new_round():
    both = Failover([A, B])
    assert not both.failed(good=False)  # a fails, b takes over for hours
    assert not both.failed(good=True)  # b ends: a is tried at once
    assert both.failed(good=False)


def test_collectors_that_welcome_and_drop_at_once_still_back_off():
    both = Failover([A, B])
    rounds = [both.failed(good=False) for _ in range(100)]
    assert sum(rounds) == 50
