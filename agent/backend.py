"""What reads this host: procfs on Linux, psutil elsewhere."""

import sys

from . import inventory
from .host import Host
from .sampler import Sampler
from .settings import Settings


def uses_psutil(settings: Settings) -> bool:
    """Whether psutil is to be asked in place of procfs."""
    if settings.backend == "auto":
        return sys.platform != "linux"
    return settings.backend == "psutil"


# Edge mode: how far apart the slow signals are read.
EDGE_SLOW_S = 5.0


def sampler(settings: Settings, host: Host) -> Sampler:
    """Return the sampler of this host. Nothing of psutil is loaded for procfs."""
    slow_s = EDGE_SLOW_S if settings.mode == "edge" else 0.0
    if not uses_psutil(settings):
        return Sampler(host, slow_s=slow_s)
    from . import portable

    return Sampler(host, portable.probes(), slow_s=slow_s)


def boot_id(settings: Settings, host: Host) -> bytes:
    """Return 16 bytes, other ones after each boot."""
    if not uses_psutil(settings):
        return inventory.boot_id(host)
    from . import portable

    return portable.boot_id()
