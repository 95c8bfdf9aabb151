"""Throttling: the share of time, and of quota periods, that a CPU quota took.

Source: cpu.stat of each control group up the tree that has a quota (kernel
docs, cgroup-v2.rst and scheduler/sched-bwc.rst): throttled_usec, in v1
throttled_time in ns, nr_throttled and nr_periods. The worst level counts. The
time is summed over CPUs and may pass the clock's: at most 1 is told. Without
a quota nothing is held back, and 0 is a reading. Cost: one short read a level.
"""

from collections.abc import Mapping
from typing import NamedTuple

from trimtab.agent.cgroups import Group, Groups
from trimtab.agent.errors import Malformed, Unsupported
from trimtab.agent.host import Source
from trimtab.wire import Scope

from .lines import number
from .psi import pressure
from .reading import Answer, Last, Reading, greatest


class Counters(NamedTuple):
    """Since the group was made."""

    periods: int
    throttled_periods: int
    throttled_us: int


def parse(text: bytes) -> Counters:
    """Return the counters of cpu.stat; Malformed if one is missing."""
    periods = number(text, b"nr_periods ")
    throttled_periods = number(text, b"nr_throttled ")
    time_us = number(text, b"throttled_usec ")
    if time_us is None:
        time_ns = number(text, b"throttled_time ")
        time_us = None if time_ns is None else time_ns // 1000
    if periods is None or throttled_periods is None or time_us is None:
        raise Malformed(f"no counts of throttling in cpu.stat: {text[:200]!r}")
    return Counters(periods, throttled_periods, time_us)


def throttled_periods(before: Counters, after: Counters) -> float | None:
    """Return throttled / elapsed periods, 0.0-1.0.

    An idle group has no periods, and none was throttled. None is "no reading":
    a counter that went back.
    """
    periods = after.periods - before.periods
    throttled = after.throttled_periods - before.throttled_periods
    if periods < 0 or throttled < 0:
        return None
    return min(1.0, throttled / periods) if periods else 0.0


def quotas(group: Group) -> dict[str, str]:
    """Return, by its folder, what people are told of each level with a quota."""
    return {
        level.folder: f"quota of {level.quota_cpus:g} CPUs, {level.folder}"
        for level in group.cpu
        if level.quota_cpus is not None
    }


_NO_QUOTA: Mapping[str, Answer] = dict.fromkeys(
    ("cpu.throttled", "cpu.throttled_periods"), Reading(0.0, "no CPU quota")
)


class Throttle:
    """The probe."""

    signals = ("cpu.throttled", "cpu.throttled_periods")

    def __init__(self, groups: Groups | None = None) -> None:
        self._groups = groups or Groups()
        self._last = Last[Mapping[str, Counters]]()
        self._group: Group | None = None
        self._quotas: dict[str, str] = {}

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        """Return both shares since the sample before, 0.0-1.0; first time None."""
        group = self._groups.find(source, now_us)
        if group is not self._group:  # as looked up now and then
            self._group, self._quotas = group, quotas(group)
        if not self._quotas:
            if not group.cpu:
                raise Unsupported("no control group of the cpu controller")
            return _NO_QUOTA
        now = {name: parse(source.sys(f"{name}/cpu.stat")) for name in self._quotas}
        before, elapsed_us = self._last.swap(now, now_us) or ({}, 0)
        both = [(name, before[name], now[name]) for name in now if name in before]
        return {
            "cpu.throttled": greatest(
                Reading(
                    pressure(earlier.throttled_us, after.throttled_us, elapsed_us),
                    self._quotas[name],
                    Scope.CONTAINER,
                )
                for name, earlier, after in both
            ),
            "cpu.throttled_periods": greatest(
                Reading(
                    throttled_periods(earlier, after),
                    self._quotas[name],
                    Scope.CONTAINER,
                )
                for name, earlier, after in both
            ),
        }
