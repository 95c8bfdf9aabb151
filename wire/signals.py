"""The numbered signals, and the states a signal can be in.

Numbers are for ever: a retired signal keeps its number, listed as retired.
"""

from enum import IntEnum

SIGNALS: dict[int, str] = {
    1: "cpu.stall",
    2: "cpu.run_queue",
    3: "cpu.steal",
    4: "cpu.busy",
    16: "memory.stall_some",
    17: "memory.stall_full",
    18: "memory.available",
    19: "memory.swap_in",
    20: "memory.swap_out",
    21: "memory.major_faults",
    32: "link.rtt",
    33: "link.jitter",
    34: "link.loss",
    35: "link.retransmits",
}
NUMBERS: dict[str, int] = {name: number for number, name in SIGNALS.items()}


class State(IntEnum):
    """Why a signal has no value, or an old one. Ok is never sent."""

    OK = 0
    UNSUPPORTED = 1  # this host will never answer
    ERROR = 2  # the source is there and answered nonsense, or not in time
    STALE = 3  # the value is the last good one, of the stated age
