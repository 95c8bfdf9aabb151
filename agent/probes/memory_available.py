"""Memory available: the share of memory that work can get without swapping.

Source: MemAvailable / MemTotal of procfs meminfo (proc_meminfo(5)), Linux
3.14+. Without that line (old kernels, OpenVZ, WSL 1) it is estimated as
MemFree + Cached - Shmem, never less than MemFree nor more than MemTotal.

Of each control group up the tree with a limit below MemTotal, what its limit
leaves, where inactive file pages can be had back: memory.max, memory.current
and memory.stat (v2), memory.limit_in_bytes and usage_in_bytes (v1). The
smallest share counts. Cost: one read, and two a level.
"""

from collections.abc import Mapping
from typing import NamedTuple

from trimtab.agent.cgroups import Groups, MemoryLevel, parse_limit
from trimtab.agent.errors import Malformed
from trimtab.agent.host import Source
from trimtab.wire import Scope

from .lines import number
from .reading import Answer, Reading

# 52 bits of physical address are the most that x86-64 and arm64 have. Above
# is a wrapped counter, the "16 EB" of other tools.
LIMIT_KIB = 2**42


class Meminfo(NamedTuple):
    """In KiB."""

    total_kib: int
    available_kib: int
    estimated: bool  # the kernel did not say what is available


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
    return Meminfo(total_kib, available_kib, estimated)


def available(memory: Meminfo) -> float:
    """Return the share of memory that is available, 0.0-1.0."""
    return memory.available_kib / memory.total_kib


def left(limit_bytes: int, used_bytes: int, inactive_file_bytes: int) -> float:
    """Return the share of a limit that is not used, or can be had back, 0.0-1.0."""
    if limit_bytes <= 0:
        return 0.0
    free_bytes = limit_bytes - max(0, used_bytes - inactive_file_bytes)
    return max(0.0, free_bytes / limit_bytes)


def read_left(source: Source, level: MemoryLevel, limit_bytes: int) -> float:
    """Return the share of a level's limit that is left; Malformed if unclear."""
    current = "memory.current" if level.version == 2 else "memory.usage_in_bytes"
    used_bytes = parse_limit(source.sys(f"{level.folder}/{current}"))
    if used_bytes is None:
        raise Malformed(f"{level.folder}/{current} can't be a use of memory")
    stat = source.sys(f"{level.folder}/memory.stat")
    inactive_bytes = number(stat, b"total_inactive_file ")  # v1: with those below
    if inactive_bytes is None:
        inactive_bytes = number(stat, b"inactive_file ")
    return left(limit_bytes, used_bytes, inactive_bytes or 0)


def read(source: Source) -> Meminfo:
    """Return what meminfo says now."""
    return parse(source.proc("meminfo"))


class MemoryAvailable:
    """The probe."""

    signals = ("memory.available",)

    def __init__(self, groups: Groups | None = None) -> None:
        self._groups = groups or Groups()

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        """Return the share now, 0.0-1.0, from the first sample on."""
        memory = read(source)
        note = "estimated: meminfo has no MemAvailable" if memory.estimated else ""
        tightest = Reading(available(memory), note)
        for level in self._groups.find(source, now_us).memory:
            limit_bytes = level.limit_bytes
            if limit_bytes is None or limit_bytes > memory.total_kib * 1024:
                continue
            share = read_left(source, level, limit_bytes)
            if share < (tightest.value or 0.0):
                note = f"of {limit_bytes / 2**20:,.0f} MiB, {level.folder}"
                tightest = Reading(share, note, Scope.CONTAINER)
        return {"memory.available": tightest}
