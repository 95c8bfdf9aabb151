"""A GPU's health: may it be given work, and what speaks against it.

Sources: NVML's errors and recovery action; row remapping; Xids as NVIDIA's
health pages and device plugin class them; limits of link errors from NVIDIA's
DCGM (dcgm_gpu_hardware_limits.h). What a device doesn't support is neutral.
Left out: Xids that are the application's own fault (13, 31, 43, 45, 68, 109);
they are told and judge nothing.
"""

from typing import NamedTuple

from trimtab.wire import GpuHealth

from .codes import GONE, GPU_IS_LOST, RESET_REQUIRED
from .rising import Growth

# NVML_GPU_RECOVERY_ACTION_*: 1 reset, 2 reboot, 4 drain and reset, and whatever
# newer drivers ask for (5 IMEX, 6 bus reset, 7 reboot).
RECOVERY_NONE = 0
RECOVERY_DRAIN_P2P = 3

FATAL_XIDS = frozenset({46, 48, 64, 79, 95, 119, 120})
WARNING_XIDS = frozenset({63, 74, 94})

# "8 replays per minute is the maximum recommended by RM"
PCIE_REPLAYS = 8
NVLINK_REPLAYS = 1
# "CRC errors only matter at rates of 100+ per second"
NVLINK_CRC_PER_S = 100.0

# Bits of Gpu.reasons, as trimtab.wire lists them in GPU_REASONS.
LOST = 1 << 0
RESET = 1 << 1
MISSING = 1 << 2
RECOVERY = 1 << 3
REMAP_FAILED = 1 << 4
REMAP_PENDING = 1 << 5
PAGES_PENDING = 1 << 6
P2P_DRAIN = 1 << 7
LINK_ERRORS = 1 << 8
REPLAYS = 1 << 9
XID_FATAL = 1 << 10
XID_WARNING = 1 << 11
THROTTLED = 1 << 12
QUERY_ERROR = 1 << 13

ZERO = LOST | RESET | MISSING | RECOVERY | REMAP_FAILED | XID_FATAL


class Facts(NamedTuple):
    """What is known of one GPU; None or False is unsupported or well."""

    fault: int | None = None  # the code that ended all questions to it
    missing: bool = False
    recovery: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    pages_pending: bool | None = None
    nvlink_crc: Growth | None = None
    nvlink_replays: Growth | None = None
    pcie_replays: Growth | None = None
    throttled: bool | None = None
    xid_fatal: bool = False
    xid_warning: bool = False
    query_error: bool = False


class Verdict(NamedTuple):
    """The health and the bits of what speaks against it."""

    health: GpuHealth | None  # None: it can't be asked, which is no verdict
    reasons: int


def verdict(facts: Facts) -> Verdict:
    """Return the health: zero beats lowered beats unknown beats OK."""
    reasons = 0
    for bit, speaks in (
        (LOST, facts.fault == GPU_IS_LOST),
        (RESET, facts.fault == RESET_REQUIRED),
        (MISSING, facts.missing),
        (RECOVERY, facts.recovery not in (None, RECOVERY_NONE, RECOVERY_DRAIN_P2P)),
        (REMAP_FAILED, facts.remap_failed),
        (REMAP_PENDING, facts.remap_pending),
        (PAGES_PENDING, facts.pages_pending),
        (P2P_DRAIN, facts.recovery == RECOVERY_DRAIN_P2P),
        (LINK_ERRORS, _links_fail(facts)),
        (REPLAYS, _count(facts.pcie_replays) > PCIE_REPLAYS),
        (XID_FATAL, facts.xid_fatal),
        (XID_WARNING, facts.xid_warning),
        (THROTTLED, facts.throttled),
        (QUERY_ERROR, facts.query_error or _unread(facts)),
    ):
        reasons |= bit if speaks else 0
    if reasons & ZERO:
        return Verdict(GpuHealth.ZERO, reasons)
    if _unread(facts):
        return Verdict(None, reasons)
    return Verdict(GpuHealth.LOWERED if reasons else GpuHealth.OK, reasons)


def _unread(facts: Facts) -> bool:
    return facts.fault is not None and facts.fault not in GONE


def _links_fail(facts: Facts) -> bool:
    crc = facts.nvlink_crc
    return _count(facts.nvlink_replays) >= NVLINK_REPLAYS or (
        crc is not None and crc.per_s >= NVLINK_CRC_PER_S
    )


def _count(growth: Growth | None) -> int:
    return 0 if growth is None else growth.errors
