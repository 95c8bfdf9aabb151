from collections.abc import Iterator
from itertools import pairwise
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer.paths import WINDOW, fitting, within
from trimtab.balancer.paths import Path as Measured

from .recorded import Event, events, probes


def by_the_book(seen: list[Event], now_ms: float) -> float | None:
    """The 95th percentile by its definition, from everything that happened.

    Of the last 60 answers in order of arrival; those of the last 60 probes that
    are still out count with their waiting time as if they came now, wherever that
    makes it worse.
    """
    answers = [event.at_ms - event.sent_ms for event in seen if event.answer]
    back = {event.sent_ms for event in seen if event.answer}
    out = [event.sent_ms for event in seen if not event.answer][-60:]
    waits = [now_ms - sent_ms for sent_ms in out if sent_ms not in back]
    if not answers:
        return None

    def p95(values: list[float]) -> float:
        last = sorted(values[-60:])
        return last[ceil(0.95 * len(last)) - 1]

    return max(p95(answers), p95(answers + waits))


def followed(run: list[Event]) -> Iterator[tuple[Event, float | None]]:
    """Return what a path says after each event."""
    path = Measured()
    for event in run:
        if event.answer:
            path.answered(event.sent_ms, event.at_ms)
        else:
            path.sent(event.at_ms)
        yield event, path.p95_ms(event.at_ms)


def test_a_path_never_answered_is_not_measured() -> None:
    path = Measured()
    assert path.p95_ms(0) is None
    path.sent(0)
    assert path.p95_ms(10_000) is None
    path.answered(0, 10_000)
    assert path.p95_ms(10_000) == 10_000


def test_one_slow_answer_of_twenty_does_not_count_and_two_do() -> None:
    path = Measured()
    for n in range(19):
        path.answered(n, n + 20)
    path.answered(19, 19 + 500)
    assert path.p95_ms(20) == 20
    path.answered(20, 20 + 500)
    assert path.p95_ms(21) == 500


def test_an_outage_is_seen_while_it_lasts() -> None:
    path = Measured()
    for n in range(WINDOW):
        path.answered(n * 50, n * 50 + 20)
    silent = WINDOW * 50
    for n in range(10):
        path.sent(silent + n * 50)
    assert path.p95_ms(silent + 10 * 50) == pytest.approx(400, abs=50)
    assert path.p95_ms(silent + 60_000) == pytest.approx(60_000, abs=500)


def test_a_probe_just_sent_is_no_fast_answer() -> None:
    path = Measured()
    for n in range(WINDOW):
        path.answered(n, n + 200)
    for n in range(WINDOW):
        path.sent(1000 + n)
    assert path.p95_ms(1000 + WINDOW) == 200


@pytest.mark.parametrize(("lost", "breaks"), [(0.02, False), (0.10, True)])
def test_loss_of_more_than_a_twentieth_breaks_every_budget(
    lost: float, breaks: bool
) -> None:
    path = Measured()
    for n in range(2000):
        path.sent(n * 1000)
        if n % round(1 / lost):
            path.answered(n * 1000, n * 1000 + 20)
    p95_ms = path.p95_ms(2_000_000)
    assert p95_ms is not None
    assert (p95_ms > 1_000) is breaks


@given(
    st.lists(
        st.tuples(st.integers(1, 200), st.integers(0, 3000) | st.none()), max_size=200
    )
)
def test_a_path_is_what_the_definition_says(gaps: list[tuple[int, int | None]]) -> None:
    at_ms, run = 0.0, []
    for gap_ms, rtt_ms in gaps:
        at_ms += gap_ms
        run.append(Event(at_ms, False, at_ms))
        if rtt_ms is not None:
            run.append(Event(at_ms + rtt_ms, True, at_ms))
    run.sort()
    for place, (event, p95_ms) in enumerate(followed(run)):
        assert p95_ms == by_the_book(run[: place + 1], event.at_ms)


def test_memory_is_bounded_when_nothing_is_answered() -> None:
    path = Measured()
    for n in range(10_000):
        path.sent(n)
    assert len(path._waiting) == WINDOW
    path.answered(1, 10_000)  # given up, and yet its answer counts
    assert path.p95_ms(10_000) == 9_999


@pytest.mark.parametrize(
    ("p95_ms", "expected"), [(30.0, True), (30.1, False), (None, None)]
)
def test_a_path_may_take_its_share_of_the_budget(
    p95_ms: float | None, expected: bool | None
) -> None:
    assert within(p95_ms, 100, 0.3) is expected


def test_an_unmeasured_path_fits_only_when_no_measured_one_does_and_says_so() -> None:
    paths = {"near": 20.0, "far": 200.0, "new": None}
    assert fitting(paths, 100, 1.0) == (("near",), True, "")
    found = fitting(paths, 10, 1.0)
    assert found.nodes == ("new",)
    assert not found.measured
    assert found.note == "no measured path is within 10 ms; these are unmeasured"
    none = fitting({"far": 200.0}, 100, 1.0)
    assert none.nodes == ()
    assert none.note == "no path is within 100 ms"
    assert fitting({}, 100, 1.0).nodes == ()


def judged(runs: list[list[Event]], budget_ms: float) -> tuple[int, int, int]:
    """Follow runs; return answers inside and outside a budget, and turns."""
    inside = outside = turns = 0
    for run in runs:
        before: bool | None = None
        for event, p95_ms in followed(run):
            fits = within(p95_ms, budget_ms, 1.0)
            turns += fits != before and before is not None
            before = fits
            inside += event.answer and fits is True
            outside += event.answer and fits is False
    return inside, outside, turns


def test_our_own_outage_is_out_of_budget_until_its_answers_have_left_the_window(
    fixtures: Path,
) -> None:
    (run,) = probes(fixtures / "paths" / "outage.csv")
    states = [
        (event.at_ms, within(p95_ms, 100, 1.0))
        for event, p95_ms in followed(events(run))
    ]
    changes = [
        (at_ms, fits)
        for (_, before), (at_ms, fits) in pairwise(states)
        if fits is not before
    ]
    # Measured, then out while it is silent, then in; one lost probe is no outage.
    assert [fits for _, fits in changes] == [True, False, True]
    assert 5_100 <= changes[1][0] <= 5_400
    assert 7_000 + WINDOW * 50 >= changes[2][0] > 7_000 + 20 * 50


@pytest.mark.parametrize("name", ["rural_n8_v0_v10", "weak_strong_n8_v50"])
def test_a_mobile_path_is_out_of_budget_exactly_while_its_p95_is(
    recordings: Path, name: str
) -> None:
    # The definition is followed from the whole past: every 7th event is enough.
    for run in probes(recordings / "rtt-5g" / f"{name}.csv.gz"):
        seen = events(run)
        for place, (event, p95_ms) in enumerate(followed(seen)):
            if place % 7 == 0:
                # A pause never was longer than 400 probes.
                recent = seen[max(0, place - 1000) : place + 1]
                wanted = by_the_book(recent, event.at_ms)
                assert within(p95_ms, 100, 1.0) is within(wanted, 100, 1.0)


def test_rural_5g_is_mostly_out_of_a_budget_of_100_ms_and_city_5g_hardly_ever(
    recordings: Path,
) -> None:
    def outside(name: str) -> float:
        found = probes(recordings / "rtt-5g" / f"{name}.csv.gz")
        within_budget, without, _ = judged([events(run) for run in found], 100)
        return without / (within_budget + without)

    assert outside("rural_n8_v0_v10") > 0.5
    assert outside("urban_n8_v30") < 0.01  # one burst, until it leaves the window
    assert outside("strong_to_weak_n78_v50") == 0


def test_a_class_of_5_ms_never_goes_over_5g(recordings: Path) -> None:
    for path in (recordings / "rtt-5g").glob("*.csv.gz"):
        for run in probes(path):
            for _, p95_ms in followed(events(run)):
                assert within(p95_ms, 5, 1.0) is not True
