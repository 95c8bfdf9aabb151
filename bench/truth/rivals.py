"""What else could have told: load average, utilisation, pressure alone.

Taken by ourselves over the whole window, which is the best that they could
say: `load1` at its end, the share of processors busy, the share of memory in
use, and the share of time that tasks stalled (PSI) on each resource. Where the
work is in a control group, memory and pressure are the group's.

Beside them stands what no frame has yet, to be looked at and not judged: of
the busiest disk, how long a request takes and how many wait or are served.
"""

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_TOTAL = re.compile(r"^(some|full) .*\btotal=(\d+)$", re.MULTILINE)
RESOURCES = ("cpu", "memory", "io")


class Disk(NamedTuple):
    """What a disk has done (procfs diskstats)."""

    requests: int
    waited_ms: int  # all of them together


class Counters(NamedTuple):
    """What grows, at one moment. Nothing is read where the kernel has no PSI."""

    at_s: float
    busy: int
    ticks: int
    stalled_us: dict[str, int]
    disks: dict[str, Disk]


def counters(groups: Sequence[Path]) -> Counters:
    """Return the counters now; of pressure, those of the group that keeps it."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    ticks = [int(field) for field in fields]
    stalled_us = {}
    for resource in RESOURCES:
        for path in (
            *(group / f"{resource}.pressure" for group in groups),
            Path("/proc/pressure") / resource,
        ):
            if path.exists():
                for line, total in _TOTAL.findall(path.read_text()):
                    stalled_us[f"psi.{resource}.{line}"] = int(total)
                break
    # Idle and waiting for the disk are the 4th and 5th.
    return Counters(
        time.monotonic(),
        sum(ticks) - ticks[3] - ticks[4],
        sum(ticks),
        stalled_us,
        _disks(),
    )


def _disks() -> dict[str, Disk]:
    found = {}
    for line in Path("/proc/diskstats").read_text().splitlines():
        name, *counts = line.split()[2:]
        if (Path("/sys/block") / name).exists():
            reads, _, _, reading_ms, writes, _, _, writing_ms = map(int, counts[:8])
            found[name] = Disk(reads + writes, reading_ms + writing_ms)
    return found


def between(before: Counters, after: Counters) -> dict[str, float]:
    """Return the shares of a window, and the load average at its end."""
    elapsed_us = (after.at_s - before.at_s) * 1e6
    shares = {
        name: (total - before.stalled_us[name]) / elapsed_us
        for name, total in after.stalled_us.items()
        # The host keeps no `full` line for processors: it is always 0 there.
        if name in before.stalled_us
    }
    ticks = max(1, after.ticks - before.ticks)
    return {
        "load1": os.getloadavg()[0],
        "cpu %": (after.busy - before.busy) / ticks,
        **shares,
    }


def disk(before: Counters, after: Counters) -> dict[str, float | None]:
    """Return the time of a request and the queue of the busiest disk."""
    grown = [
        Disk(
            now.requests - before.disks[name].requests,
            now.waited_ms - before.disks[name].waited_ms,
        )
        for name, now in after.disks.items()
        if name in before.disks
    ]
    busiest = max(grown, key=lambda disk: disk.waited_ms, default=Disk(0, 0))
    elapsed_ms = (after.at_s - before.at_s) * 1000
    return {
        "disk.request_ms": busiest.waited_ms / busiest.requests
        if busiest.requests
        else None,
        "disk.queue": busiest.waited_ms / elapsed_ms,
    }


def memory_used(groups: Sequence[Path]) -> float:
    """Return the share of memory in use: of the group's limit, else of the host."""
    for group in groups:
        for use, limit in (
            ("memory.usage_in_bytes", "memory.limit_in_bytes"),
            ("memory.current", "memory.max"),
        ):
            if (group / use).exists():
                most = (group / limit).read_text().strip()
                if most != "max" and int(most) < 2**52:
                    return int((group / use).read_text()) / int(most)
    text = Path("/proc/meminfo").read_text()
    found = {
        name: int(kib)
        for name, kib in re.findall(r"^(\w+): +(\d+) kB$", text, re.MULTILINE)
    }
    return 1 - found["MemAvailable"] / found["MemTotal"]
