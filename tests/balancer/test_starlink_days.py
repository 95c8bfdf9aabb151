"""A node behind a satellite link is well: its state must not flap.

Recorded days go through the agent's own window of round trips, the health of a
frame and a row of the fleet table. Where the score says nothing but "healthy" of
a healthy node, nothing can change, and those seconds are passed over.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt
import pytest

from trimtab.agent.probes.round_trips import RoundTrips
from trimtab.collector.fleet import Change, Fleet
from trimtab.collector.health import CURVES, assess
from trimtab.collector.node import Node
from trimtab.collector.readings import COLUMN, WIDTH
from trimtab.collector.states import HEALTHY_ABOVE, State
from trimtab.wire import Hello, Method

from .recorded import Second, starlink_day

DAYS = ("2024-12-12", "2025-01-30", "2025-03-20")
MOST_CHANGES = 3


def readings(day: Sequence[Second], seed: int) -> npt.NDArray[np.float64]:
    """Return a frame's values each second; one ping a second is lost by chance."""
    rng, trips = Random(seed), RoundTrips()
    batch = np.full((len(day), WIDTH), np.nan)
    for second, seen in enumerate(day):
        lost = rng.random() < seen.lost
        rtt_us = None if lost else round(seen.rtt_ms * 1000)
        trips.record(rtt_us, second * 1_000_000)
        link = trips.link(0, Method.ICMP_DATAGRAM)
        for name in ("rtt_us", "rtt_min_us", "rtt_p95_us", "jitter_us"):
            value = getattr(link, name)
            if value is not None:
                batch[second, COLUMN[f"link.{name}"]] = value
        if link.rtt_p95_us is not None and link.rtt_min_us is not None:
            variation_us = link.rtt_p95_us - link.rtt_min_us
            batch[second, COLUMN["path.variation_us"]] = variation_us
        if link.loss is not None:
            batch[second, COLUMN["path.loss"]] = link.loss
    return batch


def on_a_row(score: npt.NDArray[np.float64]) -> Iterator[tuple[int, Change]]:
    """Return the changes of state of a node with these scores, by second."""
    fleet = Fleet()
    hello = Hello(node_id=b"n" * 16, boot_id=b"b" * 16, name="ship", boot_ms=0)
    row = fleet.add(Node(hello, "ship", None, 0.0, 0.0), 0.0, State.JOINING)
    fleet.heard[row] = True
    poor = np.flatnonzero(~(score >= HEALTHY_ABOVE))
    second = 0
    while second < len(score):
        fleet.arrived_at[row] = second
        fleet.frames[row] = second + 1
        fleet.score[row] = score[second]
        for change in fleet.tick(float(second), float(second), 60.0):
            yield second, change
        second += 1
        if fleet.state[row] == State.HEALTHY and second < len(score):
            following = np.searchsorted(poor, second)
            second = int(poor[following]) if following < len(poor) else len(score)


def blame(batch: npt.NDArray[np.float64]) -> str:
    """Return the signal that was the least of the network's, at the worst second."""
    worst = int(np.nanargmin(assess(batch).score))
    alone: dict[str, float] = {}
    for curve in CURVES["network"]:
        if curve.signal in COLUMN:
            only = np.full((1, WIDTH), np.nan)
            only[0, COLUMN[curve.signal]] = batch[worst, COLUMN[curve.signal]]
            alone[curve.signal] = float(assess(only).score[0])
    return min(alone, key=lambda signal: np.nan_to_num(alone[signal], nan=2.0))


@pytest.mark.parametrize("day", DAYS)
def test_a_node_behind_a_satellite_changes_state_at_most_three_times_a_day(
    recordings: Path, day: str
) -> None:
    batch = readings(starlink_day(recordings, day), seed=1)
    changes = [
        (second, change.before.name, change.after.name)
        for second, change in on_a_row(assess(batch).score)
        if change.before != State.JOINING
    ]
    assert len(changes) <= MOST_CHANGES, (blame(batch), changes)


def test_a_link_that_does_break_is_seen(recordings: Path) -> None:
    day = starlink_day(recordings, DAYS[0])[:1000]
    broken = [*day[:500], *(Second(900.0, 0.5) for _ in range(300)), *day[800:]]
    changes = [change for _, change in on_a_row(assess(readings(broken, 1)).score)]
    assert any(change.after > State.HEALTHY for change in changes)
    assert changes[-1].after == State.HEALTHY
