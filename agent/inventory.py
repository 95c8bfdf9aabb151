"""What this host is: CPUs, memory, limits on both; which boot of which machine.

Names and addresses are no identity: machines are cloned and renamed. The
machine hash tells two hosts apart without giving the machine id away.
"""

import os
import re
from contextlib import suppress

from .cgroups import locate
from .errors import Malformed, Unsupported
from .host import Source
from .paths import StrPath
from .probes import cpu_time, memory_available

# More CPUs than a frame can say; a longer list is nonsense.
CPU_LIMIT = 65_536
NAME_CHARS = 63

# What sd_id128_get_machine_app_specific(3) calls the application id: made up
# once, for trimtab. `systemd-id128 machine-id --app-specific=` it to compare.
APP_ID = bytes.fromhex("b5868812492f4851ade1fdf171462a96")

_RANGE = re.compile(rb"(\d+)(?:-(\d+))?")
_CPUINFO = re.compile(rb"^processor\s*(?:\d+\s*)?:", re.MULTILINE)  # s390 has "0:"


def parse_cpulist(text: bytes) -> frozenset[int]:
    """Return the CPUs of a list as in `0-3,5`; an empty one is empty."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(b",")):
        match = _RANGE.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if not first <= last < CPU_LIMIT:
            raise Malformed(f"{part[:40]!r} in the CPU list {text[:80]!r}")
        cpus.update(range(first, last + 1))
    return frozenset(cpus)


def parse_cpuinfo(text: bytes) -> int:
    """Return how many CPUs cpuinfo lists; ARM's `Processor` model is none."""
    return len(_CPUINFO.findall(text))


def usable_cpus(source: Source) -> int:
    """Return how many CPUs the scheduler gives to tasks, at least 1.

    Those online without those isolated at boot; without a list of those
    online, the cpu lines of stat, then cpuinfo. Unsupported if none say.
    """
    with suppress(Unsupported, Malformed, OSError):
        online = parse_cpulist(source.sys("devices/system/cpu/online"))
        isolated: frozenset[int] = frozenset()
        with suppress(Unsupported, Malformed, OSError):
            isolated = parse_cpulist(source.sys("devices/system/cpu/isolated"))
        # With every CPU isolated, tasks still run on some.
        if cpus := len(online - isolated) or len(online):
            return cpus
    with suppress(Unsupported, OSError):
        if cpus := cpu_time.count_cpus(source.proc("stat")):
            return cpus
    if cpus := parse_cpuinfo(source.proc("cpuinfo")):
        return cpus
    raise Unsupported("neither sysfs, stat nor cpuinfo lists a CPU")


def memory_mib(source: Source) -> int | None:
    """Return the memory of the host; None if it can't be read."""
    with suppress(Unsupported, Malformed, OSError):
        return memory_available.read(source).total_kib // 1024
    return None


def cpu_quota(source: Source) -> float | None:
    """Return the CPUs that control groups allow; None: no quota, or not known."""
    with suppress(Unsupported, Malformed, OSError):
        return locate(source).quota_cpus()
    return None


def memory_limit_mib(source: Source) -> int | None:
    """Return the memory that control groups allow; None: no limit, or not known.

    A limit above the memory of the host is none.
    """
    with suppress(Unsupported, Malformed, OSError):
        limit_bytes = locate(source).limit_bytes()
        total_mib = memory_mib(source)
        if limit_bytes is not None:
            limit_mib = limit_bytes // 2**20
            return None if total_mib and limit_mib > total_mib else limit_mib
    return None


def boot_id(source: Source) -> bytes:
    """Return 16 bytes, other ones after each boot.

    Random ones, new at each call, where the kernel does not say.
    """
    with suppress(Unsupported, OSError, ValueError):
        text = source.proc("sys/kernel/random/boot_id").decode("ascii")
        ident = bytes.fromhex(text.strip().replace("-", ""))
        if len(ident) == 16:
            return ident
    return os.urandom(16)


def machine_hash(machine_id: StrPath = "/etc/machine-id") -> bytes | None:
    """Return 16 bytes that stand for this machine, to trimtab alone.

    Keyed by the machine id, which it does not reveal: the bytes that
    sd_id128_get_machine_app_specific(3) gives. None without a machine id.
    """
    try:
        with open(machine_id, encoding="ascii") as file:
            key = bytes.fromhex(file.read().strip())
    except (OSError, ValueError):  # absent, or "uninitialized"
        return None
    if len(key) != 16 or not any(key):
        return None
    # Once at the start, and worth a mebibyte to a small host.
    import hmac

    digest = bytearray(hmac.digest(key, APP_ID, "sha256")[:16])
    digest[6] = digest[6] & 0x0F | 0x40  # a random UUID's version and variant
    digest[8] = digest[8] & 0x3F | 0x80
    return bytes(digest)


def node_name(hostname: str) -> str:
    """Return the host name as a node's: 1 to 63 letters, digits, `.`, `_`, `-`."""
    kept = re.sub(r"[^A-Za-z0-9._-]+", "-", hostname)
    return kept.strip("._-")[:NAME_CHARS].rstrip("._-") or "node"
