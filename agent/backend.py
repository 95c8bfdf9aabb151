"""What reads this host: procfs on Linux, psutil elsewhere."""

import sys

from . import inventory
from .host import Host
from .modes import Mode
from .sampler import Sampler
from .settings import Settings


def uses_psutil(settings: Settings) -> bool:
    """Whether psutil is to be asked in place of procfs."""
    if settings.backend == "auto":
        return sys.platform != "linux"
    return settings.backend == "psutil"


def sampler(settings: Settings, host: Host, mode: Mode | None = None) -> Sampler:
    """Return the sampler of this host, at the pace of a mode.

    Without one every signal is read in each sample. Nothing of psutil is loaded
    for procfs.
    """
    slow, slow_s = (mode.slow, mode.slow_s) if mode else (frozenset[str](), 0.0)
    if not uses_psutil(settings):
        return Sampler(host, slow=slow, slow_s=slow_s)
    from . import portable

    return Sampler(host, portable.probes(), slow=slow, slow_s=slow_s)


def boot_id(settings: Settings, host: Host) -> bytes:
    """Return 16 bytes, other ones after each boot."""
    if not uses_psutil(settings):
        return inventory.boot_id(host)
    from . import portable

    return portable.boot_id()
