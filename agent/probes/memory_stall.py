"""Memory stall: the share of time some, and every, task waited for memory.

Source: both totals of procfs pressure/memory (psi.py). `full` is time in
which nothing got done at all. Cost: one short read.
"""

from collections.abc import Mapping

from trimtab.agent.errors import Unsupported
from trimtab.agent.host import Source

from . import psi
from .reading import Answer, Last, Reading


class MemoryStall:
    """The probe."""

    signals = ("memory.stall_some", "memory.stall_full")

    def __init__(self) -> None:
        self._some = Last[int]()
        self._full = Last[int]()

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        """Return both shares since the sample before, 0.0-1.0; first time None."""
        now = psi.read(source, "memory")
        return {
            "memory.stall_some": _share(now.some, self._some, now_us, "some"),
            "memory.stall_full": _share(now.full, self._full, now_us, "full"),
        }


def _share(stall: psi.Stall | None, last: Last[int], now_us: int, line: str) -> Answer:
    if stall is None:
        return Unsupported(f"pressure/memory has no '{line}' line")
    before = last.swap(stall.total_us, now_us)
    return Reading(before and psi.pressure(before[0], stall.total_us, before[1]))
