import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from trimtab.agent.probes.round_trips import (
    WINDOW,
    RoundTrips,
    jitter,
    nearest_rank,
)
from trimtab.wire import Hole, Link, Method, State

ICMP = Method.ICMP_DATAGRAM
DEADLINE_US = 2_000_000

outcomes = st.lists(st.none() | st.integers(0, 5_000_000), max_size=150)


def window_of(*rtts_us: int | None) -> RoundTrips:
    trips = RoundTrips()
    for second, rtt_us in enumerate(rtts_us):
        trips.record(rtt_us, second * 1_000_000)
    return trips


def test_nothing_probed_is_no_reading() -> None:
    assert RoundTrips().link(3, ICMP) == Link(3, ICMP)
    assert RoundTrips().holes(3, 0) == ()


def test_the_figures_of_a_window() -> None:
    link = window_of(100, 300, None, 200).link(2, ICMP)
    # Jitter: 200/16 = 12.5, then 12.5 + (100 - 12.5)/16.
    assert link == Link(2, ICMP, 200, 100, 300, round(12.5 + 87.5 / 16), 0.25)


def test_by_echo_loss_is_unknown_and_retransmissions_are_told() -> None:
    link = window_of(100, None).link(0, Method.ECHO, retransmits=4)
    assert link.loss is None
    assert link.retransmits == 4


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [(1, 0.95, 1), (10, 0.95, 10), (20, 0.95, 19), (60, 0.95, 57), (100, 0.95, 95)],
)
def test_the_percentile_is_the_nearest_rank(
    count: int, share: float, expected: int
) -> None:
    assert nearest_rank(list(range(1, count + 1)), share) == expected


def test_jitter_moves_a_sixteenth_of_the_way() -> None:
    assert jitter(0.0, 1000, 2600) == 100.0
    assert jitter(100.0, 2600, 1000) == 193.75


def test_a_probe_within_its_deadline_is_no_loss_and_past_it_is() -> None:
    trips = RoundTrips(DEADLINE_US)
    trips.sent(1, 0)
    trips.expire(DEADLINE_US - 1)
    assert trips.link(0, ICMP).loss is None
    trips.expire(DEADLINE_US)
    assert trips.link(0, ICMP).loss == 1.0


def test_an_answer_after_the_deadline_stays_a_loss() -> None:
    trips = RoundTrips(DEADLINE_US)
    trips.sent(1, 0)
    assert trips.answered(1, DEADLINE_US) is None
    assert trips.link(0, ICMP) == Link(0, ICMP, loss=1.0)


def test_answers_out_of_order_each_find_their_probe() -> None:
    trips = RoundTrips(DEADLINE_US)
    trips.sent(1, 0)
    trips.sent(2, 1000)
    assert trips.answered(2, 1500) == 500
    assert trips.answered(1, 1700) == 1700
    assert trips.link(0, ICMP).loss == 0.0


def test_a_second_or_unasked_answer_counts_for_nothing() -> None:
    trips = RoundTrips(DEADLINE_US)
    trips.sent(1, 0)
    assert trips.answered(1, 10) == 10
    assert trips.answered(1, 20) is None
    assert trips.answered(99, 20) is None
    assert trips.link(0, ICMP).rtt_us == 10


def test_probes_of_an_ended_connection_are_no_losses() -> None:
    trips = RoundTrips(DEADLINE_US)
    trips.sent(1, 0)
    trips.forget_pending()
    trips.expire(DEADLINE_US)
    assert trips.link(0, ICMP) == Link(0, ICMP)


def test_a_round_trip_is_never_negative() -> None:
    """A25: monotonic clocks don't step back; were one to, 0 is the least."""
    trips = RoundTrips(DEADLINE_US)
    trips.sent(1, 500)
    assert trips.answered(1, 400) == 0


def test_figures_after_a_loss_are_stale_and_say_how_old_they_are() -> None:
    trips = window_of(100, 200, None)  # the last answer at 1 s
    assert trips.holes(2, 4_500_000) == (
        Hole("link.rtt", State.STALE, 3500, 2),
        Hole("link.jitter", State.STALE, 3500, 2),
    )
    trips.record(150, 5_000_000)
    assert trips.holes(2, 5_000_000) == ()


def test_a_window_of_losses_is_an_error_without_figures() -> None:
    trips = window_of(100, *[None] * WINDOW)
    assert trips.link(1, ICMP) == Link(1, ICMP, loss=1.0)
    assert trips.holes(1, 10**9) == (Hole("link.rtt", State.ERROR, None, 1),)


@given(outcomes)
def test_the_link_is_the_plain_statistics_of_the_last_60(
    rtts_us: list[int | None],
) -> None:
    link = window_of(*rtts_us).link(1, ICMP)
    last = rtts_us[-WINDOW:]
    answered = sorted(rtt for rtt in last if rtt is not None)
    if not last:
        assert link.loss is None
    else:
        assert link.loss == pytest.approx(1 - len(answered) / len(last))
    if not answered:
        assert link[2:6] == (None,) * 4
        return
    assert link.rtt_min_us == answered[0]
    assert link.rtt_p95_us is not None
    within = sum(rtt <= link.rtt_p95_us for rtt in answered)
    below = sum(rtt < link.rtt_p95_us for rtt in answered)
    assert within >= math.ceil(0.95 * len(answered)) > below
    assert link.rtt_us == [rtt for rtt in last if rtt is not None][-1]


@given(st.lists(st.integers(0, 5_000_000), min_size=2, max_size=100))
def test_jitter_is_within_the_changes_seen(rtts_us: list[int]) -> None:
    found = window_of(*rtts_us).link(1, ICMP).jitter_us
    changes = [abs(b - a) for a, b in pairwise(rtts_us)]
    assert found is not None
    assert 0 <= found <= max(changes)


class Probing(RuleBasedStateMachine):
    """Any order of sending, answering and waiting, against a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.now_us = 0
        self.trips = RoundTrips(DEADLINE_US)
        self.sent_us: list[int] = []
        self.fate: dict[int, int | None] = {}  # in order of ending

    def end_the_late(self) -> None:
        for ident, sent_us in enumerate(self.sent_us):
            if ident not in self.fate and self.now_us - sent_us >= DEADLINE_US:
                self.fate[ident] = None

    @rule()
    def send(self) -> None:
        self.trips.sent(len(self.sent_us), self.now_us)
        self.end_the_late()
        self.sent_us.append(self.now_us)

    @rule(by_us=st.integers(0, DEADLINE_US))
    def wait(self, by_us: int) -> None:
        self.now_us += by_us

    @rule(ident=st.integers(0, 40))
    def answer(self, ident: int) -> None:
        found = self.trips.answered(ident, self.now_us)
        self.end_the_late()
        if ident >= len(self.sent_us) or ident in self.fate:
            assert found is None
        else:
            assert found == self.now_us - self.sent_us[ident]
            self.fate[ident] = found

    @invariant()
    def counts_agree(self) -> None:
        self.trips.expire(self.now_us)
        self.end_the_late()
        ended = list(self.fate.values())[-WINDOW:]
        link = self.trips.link(0, ICMP)
        if ended:
            assert link.loss == pytest.approx(ended.count(None) / len(ended))
        else:
            assert link.loss is None


TestProbing = Probing.TestCase
