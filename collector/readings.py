"""Frames as rows of numbers: the columns of the fleet table.

NaN stands for "no reading" inside the arrays, and only there: it comes in
from a frame's None and goes out as None again.
"""

import math
from collections.abc import Iterable, Sequence

from trimtab.wire import Frame, Link

# Column order of the table and of every batch. Link columns are those of
# link 0, the connection to the collector itself.
READINGS = (
    "cpu.stall",
    "cpu.run_queue",
    "cpu.steal",
    "cpu.busy",
    "memory.stall_some",
    "memory.stall_full",
    "memory.available",
    "memory.swap_in_bytes_s",
    "memory.swap_out_bytes_s",
    "memory.major_faults_s",
    "link.rtt_us",
    "link.rtt_min_us",
    "link.rtt_p95_us",
    "link.jitter_us",
    "link.retransmits",
    "path.variation_us",
    "path.loss",
    "cpu.throttled",
    "cpu.throttled_periods",
    "cpu.irq_stall",
    "memory.refaults_s",
    "memory.oom_kills",
    "io.stall_some",
    "io.stall_full",
    "nic.utilisation",
    "nic.errors_s",
    "nic.drops_s",
    "nic.softnet_drops_s",
    "clock.offset_ms",
)
COLUMN = {name: i for i, name in enumerate(READINGS)}
WIDTH = len(READINGS)


def _places(section: str, names: Iterable[str | None]) -> tuple[int | None, ...]:
    return tuple(None if n is None else COLUMN[f"{section}.{n}"] for n in names)


# For each array of a frame, the column of each of its fields; None: of no column.
CPU = _places(
    "cpu",
    (
        "stall",
        "run_queue",
        "steal",
        "busy",
        "throttled",
        "throttled_periods",
        "irq_stall",
        None,  # scope
    ),
)
MEMORY = _places(
    "memory",
    (
        "stall_some",
        "stall_full",
        "available",
        "swap_in_bytes_s",
        "swap_out_bytes_s",
        "major_faults_s",
        "refaults_s",
        None,  # high_events
        None,  # max_events
        "oom_kills",
        None,  # scope
    ),
)
IO = _places("io", ("stall_some", "stall_full"))
NET = _places("nic", ("utilisation", "errors_s", "drops_s", "softnet_drops_s"))
LINK = _places(
    "link",
    (
        None,  # peer
        None,  # method
        "rtt_us",
        "rtt_min_us",
        "rtt_p95_us",
        "jitter_us",
        None,  # loss
        "retransmits",
        None,  # tcp_rtt_us
        None,  # tcp_rttvar_us
    ),
)
_PATH = (COLUMN["path.variation_us"], COLUMN["path.loss"])
_CLOCK = (COLUMN["clock.offset_ms"],)


def row(frame: Frame) -> list[float]:
    """Return the frame's values in the order of READINGS, NaN for None."""
    values = [math.nan] * WIDTH
    _put(values, CPU, frame.cpu)
    _put(values, MEMORY, frame.memory)
    if frame.links and frame.links[0].peer == 0:
        _put(values, LINK, frame.links[0])
    _put(values, _PATH, path(frame.links))
    _put(values, IO, frame.io)
    _put(values, NET, frame.net)
    _put(values, _CLOCK, (frame.clock_offset_ms,))
    return values


def _put(
    values: list[float], places: Sequence[int | None], fields: Sequence[float | None]
) -> None:
    for place, value in zip(places, fields, strict=True):
        if place is not None and value is not None:
            values[place] = value


def path(links: tuple[Link, ...]) -> tuple[float | None, float | None]:
    """Return the worst variation (p95 − minimum, µs) and loss over the links.

    A target that answered nothing at all in its window says nothing of this
    node as long as another link answers: the far end may be down.
    """
    answered = [k for k in links if k.rtt_p95_us is not None]
    heard = answered or links
    variations = [
        k.rtt_p95_us - k.rtt_min_us
        for k in heard
        if k.rtt_p95_us is not None and k.rtt_min_us is not None
    ]
    losses = [k.loss for k in heard if k.loss is not None]
    return max(variations, default=None), max(losses, default=None)
