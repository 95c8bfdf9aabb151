"""Frames as rows of numbers: the columns of the fleet table.

NaN stands for "no reading" inside the arrays, and only there: it comes in
from a frame's None and goes out as None again.
"""

import math

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

_NAN = math.nan
_NO_LINK = Link(0)


def row(frame: Frame) -> list[float]:
    """Return the frame's values in the order of READINGS, NaN for None."""
    own = frame.links[0] if frame.links and frame.links[0].peer == 0 else _NO_LINK
    cpu, memory = frame.cpu, frame.memory
    values = (
        cpu.stall,
        cpu.run_queue,
        cpu.steal,
        cpu.busy,
        memory.stall_some,
        memory.stall_full,
        memory.available,
        memory.swap_in_bytes_s,
        memory.swap_out_bytes_s,
        memory.major_faults_s,
        own.rtt_us,
        own.rtt_min_us,
        own.rtt_p95_us,
        own.jitter_us,
        own.retransmits,
        *path(frame.links),
        cpu.throttled,
        cpu.throttled_periods,
        cpu.irq_stall,
        memory.refaults_s,
        memory.oom_kills,
        *frame.io,
        *frame.net,
        frame.clock_offset_ms,
    )
    return [_NAN if value is None else value for value in values]


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
