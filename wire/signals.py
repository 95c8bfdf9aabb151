"""The numbered signals, the states of one, and what can ail a GPU.

Numbers are for ever: a retired one stays, listed as retired.
"""

from enum import IntEnum

SIGNALS: dict[int, str] = {
    1: "cpu.stall",
    2: "cpu.run_queue",
    3: "cpu.steal",
    4: "cpu.busy",
    5: "cpu.throttled",
    6: "cpu.throttled_periods",
    7: "cpu.irq_stall",
    16: "memory.stall_some",
    17: "memory.stall_full",
    18: "memory.available",
    19: "memory.swap_in",
    20: "memory.swap_out",
    21: "memory.major_faults",
    22: "memory.refaults",
    23: "memory.high_events",
    24: "memory.max_events",
    25: "memory.oom_kills",
    32: "link.rtt",
    33: "link.jitter",
    34: "link.loss",
    35: "link.retransmits",
    36: "link.tcp",
    48: "io.stall_some",
    49: "io.stall_full",
    64: "nic.utilisation",
    65: "nic.errors",
    66: "nic.drops",
    67: "nic.softnet_drops",
    80: "clock.offset",
    96: "gpu.memory",
    97: "gpu.busy",
    98: "gpu.effective",
    99: "gpu.power",
    100: "gpu.clock",
    101: "gpu.health",
    102: "gpu.mig",
    103: "gpu.stranding",
}
NUMBERS: dict[str, int] = {name: number for number, name in SIGNALS.items()}


class State(IntEnum):
    """Why a signal has no value, or an old one. Ok is never sent."""

    OK = 0
    UNSUPPORTED = 1  # this host will never answer
    ERROR = 2  # the source is there and answered nonsense, or not in time
    STALE = 3  # the value is the last good one, of the stated age


# Why a GPU's health is not OK: the bits of Gpu.reasons.
GPU_REASONS: dict[int, str] = {
    0: "lost",
    1: "reset required",
    2: "missing",  # a known GPU that is no longer listed
    3: "recovery action",  # the driver asks for a reset or reboot
    4: "remap failed",
    5: "remap pending",
    6: "pages pending",  # pages wait for their retirement
    7: "P2P drain",
    8: "link errors",
    9: "pcie replays",
    10: "xid fatal",
    11: "xid warning",
    12: "throttled",
    13: "query error",
}
