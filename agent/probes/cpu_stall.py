"""CPU stall: the share of time some runnable task waited for a CPU.

Source: the `some` total of procfs pressure/cpu (psi.py). It nears 1 at two
busy loops a CPU, where run_queue.py goes on ranking; use both.
Cost: one short read.
"""

from collections.abc import Mapping

from trimtab.agent.errors import Unsupported
from trimtab.agent.host import Source

from . import psi
from .reading import Answer, Last, Reading


class CpuStall:
    """The probe."""

    signals = ("cpu.stall",)

    def __init__(self) -> None:
        self._last = Last[int]()

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        """Return the share since the sample before, 0.0-1.0; first time None."""
        some = psi.read(source, "cpu").some
        if some is None:
            raise Unsupported("pressure/cpu has no 'some' line")
        before = self._last.swap(some.total_us, now_us)
        value = before and psi.pressure(before[0], some.total_us, before[1])
        return {"cpu.stall": Reading(value)}
