"""Memory available: the share of memory that work can get without swapping.

Source: MemAvailable / MemTotal of procfs meminfo (proc_meminfo(5)), Linux
3.14+. Without that line (old kernels, OpenVZ, WSL 1) it is estimated as
MemFree + Cached - Shmem, never less than MemFree nor more than MemTotal.
Limits of control groups are left out. Cost: one read.
"""

from collections.abc import Mapping
from typing import NamedTuple

from trimtab.agent.errors import Malformed
from trimtab.agent.host import Source

from .lines import number
from .reading import Answer, Reading

# 52 bits of physical address are the most that x86-64 and arm64 have. Above
# is a wrapped counter, the "16 EB" of other tools.
LIMIT_KIB = 2**42


class Meminfo(NamedTuple):
    """In KiB; what is unknown, or can't be, is None."""

    total_kib: int
    free_kib: int | None
    available_kib: int
    estimated: bool  # the kernel did not say what is available
    swap_total_kib: int | None
    swap_used_kib: int | None


def parse(text: bytes) -> Meminfo:
    """Return the main values; Malformed if they are absent or can't be."""
    total_kib = number(text, b"MemTotal:")
    if total_kib is None:
        raise Malformed(f"no MemTotal line in meminfo: {text[:80]!r}")
    if not 0 < total_kib <= LIMIT_KIB:
        raise Malformed(f"MemTotal can't be {total_kib} kB")
    free_kib = number(text, b"MemFree:")
    available_kib = number(text, b"MemAvailable:")
    estimated = available_kib is None
    if available_kib is None:
        if free_kib is None:
            raise Malformed(f"no MemAvailable or MemFree line in {text[:80]!r}")
        cached_kib = number(text, b"Cached:") or 0
        shared_kib = number(text, b"Shmem:") or 0
        available_kib = min(total_kib, free_kib + max(0, cached_kib - shared_kib))
    if available_kib > total_kib or (free_kib or 0) > total_kib:
        raise Malformed(
            f"of {total_kib} kB, {available_kib} available and {free_kib} free can't be"
        )
    swap_total_kib = number(text, b"SwapTotal:")
    return Meminfo(
        total_kib,
        free_kib,
        available_kib,
        estimated,
        swap_total_kib,
        _used(swap_total_kib, number(text, b"SwapFree:")),
    )


def _used(total_kib: int | None, free_kib: int | None) -> int | None:
    if total_kib == 0:
        return 0  # whatever lxcfs says of what is free
    if total_kib is None or free_kib is None or free_kib > total_kib:
        return None
    return total_kib - free_kib


def available(memory: Meminfo) -> float:
    """Return the share of memory that is available, 0.0-1.0."""
    return memory.available_kib / memory.total_kib


def read(source: Source) -> Meminfo:
    """Return what meminfo says now."""
    return parse(source.proc("meminfo"))


class MemoryAvailable:
    """The probe."""

    signals = ("memory.available",)

    def sample(self, source: Source, _now_us: int, /) -> Mapping[str, Answer]:
        """Return the share now, 0.0-1.0, from the first sample on."""
        memory = read(source)
        note = "estimated: meminfo has no MemAvailable" if memory.estimated else ""
        return {"memory.available": Reading(available(memory), note)}
