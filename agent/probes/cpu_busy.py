"""Busy and stolen CPU time: shares of the time that could have been used.

Source: procfs stat (cpu_time.py) and, where a quota allows control groups
less than the host has, their usage of that (cpu_usage.py): the greater share
counts, and of a group watched in place of the host its own alone. Steal is
the host's always. Cost: one read of stat, one line of it parsed.
"""

from collections.abc import Mapping

from trimtab.agent.cgroups import Group, Groups
from trimtab.agent.errors import Unsupported
from trimtab.agent.host import Source

from . import cpu_time
from .cpu_usage import CpuUsage
from .reading import Answer, Last, Reading, greatest
from .usable_cpus import UsableCpus


class CpuBusy:
    """The probe."""

    signals = ("cpu.steal", "cpu.busy")

    def __init__(
        self, groups: Groups | None = None, cpus: UsableCpus | None = None
    ) -> None:
        self._groups = groups or Groups()
        self._cpus = cpus or UsableCpus()
        self._last = Last[cpu_time.Look]()
        self._usage = CpuUsage()
        self._group: Group | None = None
        self._quota = False

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        """Return both shares since the sample before, 0.0-1.0; first time None."""
        after = cpu_time.look(source.proc("stat"))
        before = self._last.swap(after, now_us)
        now = before and cpu_time.between(before[0], after, before[1])
        return {
            "cpu.steal": Unsupported("stat has no steal column")
            if after.total.steal is None
            else Reading(now and now.steal),
            "cpu.busy": self._busy(source, Reading(now and now.busy), now_us),
        }

    def _busy(self, source: Source, host: Reading, now_us: int) -> Answer:
        group = self._groups.find(source, now_us)
        if group.asked is None:
            if group is not self._group:  # as looked up now and then
                self._group, self._quota = group, group.quota_cpus() is not None
            if not self._quota:
                return host
            own = self._usage.sample(source, group, None, now_us)
            return greatest([host, own])
        if not any(level.usage for level in group.cpu):
            return Unsupported(f"nothing says the CPU time used by {group.asked}")
        cpus = self._cpus.count(source, now_us)
        return self._usage.sample(source, group, cpus, now_us)
