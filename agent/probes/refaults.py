"""Refaults: pages a second that were needed again soon after their eviction.

Source: workingset_refault_anon and _file (one counter before Linux 5.9), since
boot, of procfs vmstat; of a control group's memory.stat where the host is a
container or a group is watched in its place. Thrash shows here under a memory
limit while the host has room. Cost: one read of memory.stat, or none beyond
paging.py's of vmstat.
"""

from collections.abc import Mapping

from trimtab.agent.cgroups import Groups
from trimtab.agent.errors import Unsupported
from trimtab.agent.host import Source
from trimtab.wire import Scope

from .lines import number
from .paging import rate
from .reading import Answer, Last, Reading


def parse(text: bytes) -> int | None:
    """Return the pages of vmstat or memory.stat; None if it counts none."""
    # v1 counts a group with those below it under total_.
    label = b"workingset_refault"
    if b"\ntotal_" + label in text:
        label = b"total_" + label
    anon, file = number(text, label + b"_anon "), number(text, label + b"_file ")
    if anon is None and file is None:
        return number(text, label + b" ")
    return (anon or 0) + (file or 0)


class Refaults:
    """The probe."""

    signals = ("memory.refaults",)

    def __init__(self, groups: Groups | None = None) -> None:
        self._groups = groups or Groups()
        self._last = Last[tuple[str, int]]()

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        """Return refaults/s since the sample before; first time None."""
        group = self._groups.find(source, now_us)
        if group.contained:
            name, scope = f"{group.memory[0].folder}/memory.stat", Scope.CONTAINER
            after = parse(source.sys(name))
        elif group.asked is None:
            name, scope = "vmstat", Scope.HOST
            after = parse(source.proc(name))
        else:
            raise Unsupported(f"no memory controller knows {group.asked}")
        if after is None:
            raise Unsupported(f"{name} counts no refaults; Linux 3.15+ does")
        before = self._last.swap((name, after), now_us)
        if before is None or before[0][0] != name:
            return {"memory.refaults": Reading(None, "", scope)}
        value = rate(before[0][1], after, before[1])
        return {"memory.refaults": Reading(value, "", scope)}
