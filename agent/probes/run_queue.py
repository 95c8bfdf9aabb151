"""Run queue: runnable tasks beyond ourselves, per usable CPU.

Source: `procs_running` of procfs stat, else the first half of loadavg's
fourth field, which is the same number; both count the task that reads, hence
minus one. The load averages themselves count tasks waiting for disks and lag
by minutes, so they are left out. Smoothed over a second, as a single look at
so fast a number says little. Control groups have no such number: where one is
watched in place of the host there is no run queue. Cost: none beyond
cpu_busy.py's read of stat.
"""

import math
import re
from collections.abc import Mapping

from trimtab.agent.errors import Malformed, Unsupported
from trimtab.agent.host import Source

from .lines import number
from .reading import Answer, Last, Reading
from .usable_cpus import UsableCpus

TAU_US = 1_000_000

_LOADAVG = re.compile(rb"\S+ \S+ \S+ (\d+)/\d+\b")


def parse_stat(stat: bytes) -> int | None:
    """Return procs_running; None if the file has no such line."""
    # From the end: thousands of interrupt counters may stand before it.
    start = stat.rfind(b"\nprocs_running ")
    return None if start < 0 else number(stat[start + 1 :], b"procs_running ")


def parse_loadavg(text: bytes) -> int:
    """Return the running tasks of loadavg; Malformed if there are none."""
    match = _LOADAVG.match(text)
    if match is None:
        raise Malformed(f"no running/total field in loadavg: {text[:80]!r}")
    return int(match[1])


def smooth(before: float | None, value: float, elapsed_us: int) -> float:
    """Return the moving average, exponential in time (τ = TAU_US).

    The form for irregular intervals: after a long gap the new value alone
    counts. `before` None starts at the value.
    """
    if before is None:
        return value
    return before + (value - before) * -math.expm1(-max(0, elapsed_us) / TAU_US)


def read(source: Source) -> tuple[int, str]:
    """Return the runnable tasks, ourselves among them, and a note if any."""
    try:
        running = parse_stat(source.proc("stat"))
    except Unsupported:
        running = None
    if running is not None:
        return running, ""
    running = parse_loadavg(source.proc("loadavg"))
    return running, "from loadavg: stat has no procs_running"


class RunQueue:
    """The probe."""

    signals = ("cpu.run_queue",)

    def __init__(self, cpus: UsableCpus | None = None) -> None:
        self._last = Last[float]()
        self._excess: float | None = None
        self._cpus = cpus or UsableCpus()

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        """Return tasks per CPU, 0.0 upwards, from the first sample on."""
        if source.cgroup is not None:
            raise Unsupported(
                "runnable tasks are counted for the whole host only, and"
                f" {source.cgroup} is watched in its place"
            )
        running, note = read(source)
        excess = float(max(0, running - 1))
        before = self._last.swap(excess, now_us)
        self._excess = smooth(self._excess, excess, before[1] if before else 0)
        return {
            "cpu.run_queue": Reading(
                self._excess / self._cpus.count(source, now_us), note
            )
        }
