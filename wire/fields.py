"""The numbers of a frame: for each array its fields in order, scale and range.

The one table of what a reading may be on the wire: decode.py reads a frame by
it, and so does whoever reads many frames at once.
"""

from typing import NamedTuple

from .encode import BYTES_SCALE, QUEUE_SCALE, RATE_SCALE, SHARE_SCALE
from .limits import INT32, LINKS, UINT16, UINT32

ENUM_MOST = 127


class Field(NamedTuple):
    """An integer on the wire, least..most, or nil unless it is required."""

    name: str  # as errors and docs/wire.md say it
    most: int
    scale: float | None = None  # number / scale = value; None: as it stands
    least: int = 0
    required: bool = False


def _share(name: str) -> Field:
    return Field(name, SHARE_SCALE, SHARE_SCALE)


def _rate(name: str, most: int = UINT32) -> Field:
    return Field(name, most, RATE_SCALE)


GAPS = Field("gaps", UINT32)
CLOCK_OFFSET = Field("clock_offset_ms", INT32, least=-INT32)

CPU = (
    _share("stall"),
    Field("run_queue", UINT16, QUEUE_SCALE),
    _share("steal"),
    _share("busy"),
    _share("throttled"),
    _share("throttled_periods"),
    _share("irq_stall"),
    Field("scope", ENUM_MOST),
)
MEMORY = (
    _share("stall_some"),
    _share("stall_full"),
    _share("available"),
    Field("swap_in", UINT32, BYTES_SCALE),
    Field("swap_out", UINT32, BYTES_SCALE),
    _rate("major_faults"),
    _rate("refaults"),
    Field("high_events", UINT16),
    Field("max_events", UINT16),
    Field("oom_kills", UINT16),
    Field("scope", ENUM_MOST),
)
IO = (_share("stall_some"), _share("stall_full"))
NET = (
    _share("utilisation"),
    _rate("errors", UINT16),
    _rate("drops", UINT16),
    _rate("softnet_drops", UINT16),
)
LINK = (
    Field("peer", LINKS - 1, required=True),
    Field("method", ENUM_MOST),
    Field("rtt_us", UINT32),
    Field("rtt_min_us", UINT32),
    Field("rtt_p95_us", UINT32),
    Field("jitter_us", UINT32),
    _share("loss"),
    Field("retransmits", UINT16),
    Field("tcp_rtt_us", UINT32),
    Field("tcp_rttvar_us", UINT32),
)
HOLE = (
    Field("signal", ENUM_MOST, required=True),
    Field("state", ENUM_MOST, required=True),
    Field("age_ms", UINT32),
    Field("peer", LINKS - 1),
)
