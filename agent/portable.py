"""Probes for hosts that are not Linux, through psutil, with what those offer.

macOS and Windows give CPU time, memory, swap and interface counters; stalls,
run queues and control groups are Linux's own, and unsupported here. The same
arithmetic, sampler and frames as on Linux, where none of this is loaded.
"""

import hashlib
from collections.abc import Mapping

import psutil

from .errors import Unsupported
from .host import Source
from .probes.paging import rate
from .probes.reading import Answer, Last, Probe, Reading

MIB = 1024 * 1024
MEND = "measured on Linux only"

# What psutil has no word on. The names are those of the sampler.
LINUX_ONLY = (
    "cpu.stall",
    "cpu.run_queue",
    "cpu.throttled",
    "cpu.throttled_periods",
    "cpu.irq_stall",
    "memory.stall_some",
    "memory.stall_full",
    "memory.major_faults",
    "memory.refaults",
    "memory.high_events",
    "memory.max_events",
    "memory.oom_kills",
    "io.stall_some",
    "io.stall_full",
    "nic.softnet_drops",
)


def probes() -> tuple[Probe, ...]:
    """Return every probe that psutil can serve, and one for what it can't."""
    return (CpuShares(), MemoryShare(), SwapRates(), Interfaces(), LinuxOnly())


def usable_cpus() -> int:
    """Return the CPUs that are online."""
    count = psutil.cpu_count(logical=True)
    if not count:
        raise Unsupported("psutil counts no CPU")
    return int(count)


def memory_mib() -> int:
    """Return the memory of this host."""
    return int(psutil.virtual_memory().total // MIB)


def boot_id() -> bytes:
    """Return 16 bytes, other ones after each boot: from when that was."""
    return hashlib.sha256(f"boot {psutil.boot_time():.0f}".encode()).digest()[:16]


class CpuShares:
    """Busy and stolen time, as shares of all CPU time (psutil.cpu_times)."""

    signals = ("cpu.busy", "cpu.steal")

    def __init__(self) -> None:
        self._last = Last[Mapping[str, float]]()

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        """Return the shares since the sample before; first time None."""
        del source
        after = psutil.cpu_times()._asdict()
        # Inside user and nice already.
        for inside in ("guest", "guest_nice"):
            after.pop(inside, None)
        before = self._last.swap(after, now_us)
        spent = (
            {k: v - before[0].get(k, 0.0) for k, v in after.items()} if before else {}
        )
        whole = sum(spent.values())
        if whole <= 0 or min(spent.values()) < -1.0:  # none yet, or a reset
            return dict.fromkeys(self.signals, Reading(None))
        idle = spent["idle"] + spent.get("iowait", 0.0)
        steal: Answer = Unsupported("psutil knows no steal here", MEND)
        if "steal" in spent:
            steal = Reading(_share(spent["steal"] / whole))
        return {"cpu.busy": Reading(_share(1.0 - idle / whole)), "cpu.steal": steal}


class MemoryShare:
    """Memory that work can get without swapping (psutil.virtual_memory)."""

    signals = ("memory.available",)

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        """Return the share now."""
        del source, now_us
        memory = psutil.virtual_memory()
        return {"memory.available": Reading(_share(memory.available / memory.total))}


class SwapRates:
    """Bytes swapped in and out a second (psutil.swap_memory)."""

    signals = ("memory.swap_in", "memory.swap_out")

    def __init__(self) -> None:
        self._lasts = (Last[int](), Last[int]())

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        """Return bytes/s since the sample before; first time None."""
        del source
        swap = psutil.swap_memory()
        return {
            name: Reading(_rate(last, int(total), now_us))
            for name, last, total in zip(
                self.signals, self._lasts, (swap.sin, swap.sout), strict=True
            )
        }


class Interfaces:
    """Errors, drops and use of the interfaces that are up (psutil.net_…)."""

    signals = ("nic.utilisation", "nic.errors", "nic.drops")

    def __init__(self) -> None:
        self._errors = Last[int]()
        self._drops = Last[int]()
        self._bytes: dict[str, tuple[Last[int], Last[int]]] = {}

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        """Return the share of the busiest, and both rates over all."""
        del source
        stats = {
            name: stat
            for name, stat in psutil.net_if_stats().items()
            if stat.isup and not name.lower().startswith(("lo", "loopback"))
        }
        counters = {
            name: count
            for name, count in psutil.net_io_counters(pernic=True).items()
            if name in stats
        }
        shares = []
        for name, count in counters.items():
            received, sent = self._bytes.setdefault(name, (Last[int](), Last[int]()))
            rates = (
                _rate(received, count.bytes_recv, now_us),
                _rate(sent, count.bytes_sent, now_us),
            )
            limit = stats[name].speed * 1e6 / 8  # Mbit/s; 0: not known
            shares += [r / limit for r in rates if r is not None and limit > 0]
        known = any(stats[name].speed > 0 for name in counters)
        use: Answer = Reading(_share(max(shares)) if shares else None)
        if not known:
            use = Unsupported("no interface tells its speed")
        errors = sum(c.errin + c.errout for c in counters.values())
        drops = sum(c.dropin + c.dropout for c in counters.values())
        return {
            "nic.utilisation": use,
            "nic.errors": Reading(_rate(self._errors, errors, now_us)),
            "nic.drops": Reading(_rate(self._drops, drops, now_us)),
        }


class LinuxOnly:
    """The rest: never answered here."""

    signals = LINUX_ONLY

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        """Raise Unsupported."""
        del source, now_us
        raise Unsupported("psutil does not offer it", MEND)


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))


def _rate(last: Last[int], total: int, now_us: int) -> float | None:
    before = last.swap(total, now_us)
    return None if before is None else rate(before[0], total, before[1])
