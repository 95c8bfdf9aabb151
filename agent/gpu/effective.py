"""How much of a busy GPU works: effective utilisation, and the pseudo-high flag.

NVML's `busy` is the share of time in which any kernel ran: one warp on one of
132 SMs is 100 %. Effective is, in order of trust: the larger of SM and DRAM
bandwidth utilisation (GPM, Hopper and newer; an upper bound, since one warp
makes an SM active), or power above idle within the limit, at most busy (low
confidence), or nothing. Not multiplied by occupancy: good matrix kernels run
at low occupancy.
"""

from collections.abc import Iterable
from typing import NamedTuple

from trimtab.wire import GpuMethod

from .readings import Gpm

HIGH_BUSY = 0.70
LOW_EFFECTIVE = 0.40
# A verdict, not a blink: so many samples in a row.
SAMPLES = 3


class Effective(NamedTuple):
    """The share of the GPU's capacity at work, and how it was measured."""

    share: float | None  # 0..1; None: no reading
    method: GpuMethod | None  # None where nothing at all is known


def effective(
    busy: float | None,
    gpm: Gpm | None,
    power_mw: int | None,
    idle_mw: int | None,
    limit_mw: int | None,
) -> Effective:
    """Return effective utilisation by the best source there is.

    `gpm` None: the device has none. `idle_mw` None: never seen idle.
    """
    if gpm is not None:
        return Effective(by_gpm(gpm), GpuMethod.GPM)
    if busy is None:
        return Effective(None, None)
    if power_mw is None or idle_mw is None or limit_mw is None or limit_mw <= idle_mw:
        return Effective(None, GpuMethod.BUSY_ONLY)
    above_idle = max(0.0, (power_mw - idle_mw) / (limit_mw - idle_mw))
    return Effective(min(busy, above_idle), GpuMethod.POWER)


def by_gpm(gpm: Gpm) -> float | None:
    """Return the larger of SM and DRAM utilisation, 0..1; None without either."""
    known = [percent for percent in (gpm.sm, gpm.dram) if percent is not None]
    return min(1.0, max(0.0, *known) / 100) if known else None


def of_instances(instances: Iterable[tuple[int, Gpm]]) -> float | None:
    """Return the mean over MIG instances, each by its compute slices.

    None without instances or where one has no reading: a mean of the rest
    would be of another GPU.
    """
    work = slices = 0.0
    for size, gpm in instances:
        share = by_gpm(gpm)
        if share is None:
            return None
        work += size * share
        slices += size
    return work / slices if slices else None


def idle_power(
    lowest_mw: int | None, busy: float | None, power_mw: int | None
) -> int | None:
    """Return the least power seen while nothing ran; None until then."""
    if busy != 0 or power_mw is None:
        return lowest_mw
    return power_mw if lowest_mw is None else min(lowest_mw, power_mw)


def streak(before: int, busy: float | None, share: float | None) -> int | None:
    """Return how many samples in a row were busy to little effect.

    None where one of the two is unknown: no verdict, and a new start.
    """
    if busy is None or share is None:
        return None
    return before + 1 if busy >= HIGH_BUSY and share < LOW_EFFECTIVE else 0
