"""What a process and all its descendants cost: memory, processor time, switches.

Source: procfs PID/smaps_rollup, task/*/status and children, the processor-time
clock of each process (clock_getcpuclockid(3)), and for `pss_alone` pagemap and
kpagecount, which need root.

PSS divides a shared page among all who map it. Beside a benchmark and a
collector that are Python too, an agent is charged for a part of the
interpreter only; `pss_alone` takes every other Python away again, as on a host
where the agent is the only one. The C library stays shared.
"""

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
PAGE = os.sysconf("SC_PAGE_SIZE")
PRESENT = 1 << 63
PFN = (1 << 55) - 1


class Memory(NamedTuple):
    """Of a whole tree, in KiB."""

    pss: int
    uss: int  # mapped by nobody else
    rss: int  # shared pages in full, once a process


def tree(pid: int) -> list[int]:
    """Return a process and its descendants; nothing once it is gone."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        here = waiting.pop()
        with suppress(OSError):
            for task in (PROC / str(here) / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
            found.append(here)
    return found


def memory(pids: Iterable[int]) -> Memory:
    """Return what they hold together."""
    total: Counter[str] = Counter()
    for pid in pids:
        with suppress(OSError):
            text = (PROC / str(pid) / "smaps_rollup").read_text()
            for line in text.splitlines()[1:]:
                name, value = line.split()[:2]
                total[name] += int(value)
    private = total["Private_Clean:"] + total["Private_Dirty:"]
    return Memory(total["Pss:"], private, total["Rss:"])


def cpu_ns(pids: Iterable[int]) -> int:
    """Return the processor time of all their threads, those that ended too."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            # MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of the kernel's headers.
            total += time.clock_gettime_ns((~pid << 3) | 2)
    return total


def switches(pids: Iterable[int]) -> dict[tuple[int, str], int]:
    """Return voluntary and other context switches so far, by thread."""
    counts = {}
    for pid in pids:
        with suppress(OSError):
            for task in (PROC / str(pid) / "task").iterdir():
                lines = (task / "status").read_text().splitlines()
                counts[pid, task.name] = sum(
                    int(line.split()[1]) for line in lines if "ctxt_switches" in line
                )
    return counts


def descriptors(pids: Iterable[int]) -> int:
    """Return how many files they hold open."""
    return sum(_entries(pid, "fd") for pid in pids)


def threads(pids: Iterable[int]) -> int:
    """Return how many threads they have."""
    return sum(_entries(pid, "task") for pid in pids)


def _entries(pid: int, folder: str) -> int:
    return sum(1 for _ in (PROC / str(pid) / folder).iterdir())


def pythons() -> list[int]:
    """Return the processes that run Python."""
    found = []
    for entry in PROC.iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and "python" in (entry / "exe").readlink().name:
                found.append(int(entry.name))
    return found


def pss_alone(pids: Collection[int]) -> int | None:
    """Return the PSS in KiB as if no other process ran Python.

    None without the rights, or the kernel's support, to see page frames.
    """
    others: Counter[int] = Counter()
    try:
        for pid in set(pythons()) - set(pids):
            others.update(_frames(pid))
        pages = 0.0
        with (PROC / "kpagecount").open("rb", buffering=0) as counts:
            for pid in pids:
                for frame in _frames(pid):
                    raw = os.pread(counts.fileno(), 8, frame * 8)
                    sharers = int.from_bytes(raw, "little") - others[frame]
                    pages += 1 / max(1, sharers)
    except OSError:
        return None
    return round(pages * PAGE / 1024)


def _frames(pid: int) -> list[int]:
    """Return the page frames that a process maps; nothing once it is gone."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        maps = (PROC / str(pid) / "maps").read_text().splitlines()
        pagemap = os.open(PROC / str(pid) / "pagemap", os.O_RDONLY)
        try:
            for line in maps:
                if "[vsyscall]" in line or "[vdso]" in line or "[vvar" in line:
                    continue
                first, last = (int(x, 16) for x in line.split()[0].split("-"))
                size = (last - first) // PAGE * 8
                raw = memoryview(os.pread(pagemap, size, first // PAGE * 8))
                entries = raw.cast("Q")
                found += [e & PFN for e in entries if e & PRESENT and e & PFN]
        finally:
            os.close(pagemap)
    return found
