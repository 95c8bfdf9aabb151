"""CPU usage of control groups: the share used of what a quota lets them use.

Source: usage_usec of cpu.stat (v2) or cpuacct.usage in ns (v1) of each group
up the tree that has a quota. The greatest share counts. Of a group that is
watched in place of the host, its own level counts without a quota too, and
what it may use is at most the usable CPUs. Cost: one short read a level.
"""

from collections.abc import Iterable, Mapping

from trimtab.agent.cgroups import Group
from trimtab.agent.errors import Malformed
from trimtab.agent.host import Source
from trimtab.wire import Scope

from .lines import number
from .reading import Last, Reading, greatest


def parse(text: bytes) -> int:
    """Return the CPU time used, in µs, of cpu.stat or cpuacct.usage."""
    usage_us = number(text, b"usage_usec ")
    if usage_us is not None:
        return usage_us
    if not text.strip().isdigit():
        raise Malformed(f"no CPU time used in {text[:200]!r}")
    return int(text) // 1000


def share(before_us: int, after_us: int, elapsed_us: int, cpus: float) -> float | None:
    """Return used time / usable time of so many CPUs, 0.0-1.0.

    None is "no reading": an empty interval, or a counter that went back.
    """
    if elapsed_us <= 0 or after_us < before_us:
        return None
    return min(1.0, (after_us - before_us) / (elapsed_us * cpus))


def allowances(group: Group, own_cpus: int | None) -> Iterable[tuple[str, float]]:
    """Return the file of usage and the CPUs that may be used, of each level.

    The group itself may use `own_cpus` at most; None counts it by its quota only.
    """
    for position, level in enumerate(group.cpu):
        cpus = level.quota_cpus
        if position == 0 and own_cpus is not None:
            cpus = min(cpus or own_cpus, own_cpus)
        if cpus is not None and level.usage is not None:
            yield level.usage, cpus


class CpuUsage:
    """The counters of a group over time."""

    def __init__(self) -> None:
        self._last = Last[Mapping[str, int]]()

    def sample(
        self, source: Source, group: Group, own_cpus: int | None, now_us: int
    ) -> Reading:
        """Return the greatest share since the sample before; None without any."""
        cpus = dict(allowances(group, own_cpus))
        now = {name: parse(source.sys(name)) for name in cpus}
        before, elapsed_us = self._last.swap(now, now_us) or ({}, 0)
        return greatest(
            Reading(
                share(before[name], now[name], elapsed_us, cpus[name]),
                f"of {cpus[name]:g} CPUs, {name}",
                Scope.CONTAINER,
            )
            for name in now
            if name in before
        )
