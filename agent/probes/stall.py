"""A stall: the share of time in which work waited for one resource.

Source: the totals of a pressure file (psi.py), the host's under procfs and
that of the control group under sysfs. A group of its own may stall where the
host has room, and stalls with it where it has none: the greater counts. Of a
group that is watched in place of the host, its own alone.

Without pressure files there is no stall. Direct reclaims (allocstall, pgscan)
would say that memory is short, but count pages, not time: no share comes of
them, and the other memory signals stay. Cost: one short read each.
"""

from collections.abc import Mapping

from trimtab.agent.cgroups import Group, Groups
from trimtab.agent.errors import Unsupported
from trimtab.agent.host import Source
from trimtab.wire import Scope

from . import psi
from .reading import Answer, Last, Reading, greatest

# By whose they are and the line they are on, in µs.
Totals = Mapping[tuple[Scope, str], int]


class Stall:
    """The probe of one resource, which a class below names."""

    resource: str
    signals: tuple[str, ...]
    lines: tuple[str, ...]  # of the file, one a signal

    def __init__(self, groups: Groups | None = None) -> None:
        self._groups = groups or Groups()
        self._last = Last[Totals]()

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        """Return shares since the sample before, 0.0-1.0; first time None."""
        now = self._read(source, self._groups.find(source, now_us))
        before, elapsed_us = self._last.swap(now, now_us) or ({}, 0)
        return {
            signal: self._share(line, now, before, elapsed_us)
            for signal, line in zip(self.signals, self.lines, strict=True)
        }

    def _read(self, source: Source, group: Group) -> Totals:
        places: list[tuple[Scope, str | None]] = []
        if group.asked is None:
            places.append((Scope.HOST, None))
        if group.pressure is not None:
            places.append((Scope.CONTAINER, group.pressure))
        if not places:
            raise Unsupported(
                f"no v2 tree holds {group.asked}, and v1 groups have no pressure"
            )
        found: dict[tuple[Scope, str], int] = {}
        fault = None
        for scope, folder in places:
            try:
                stalls = psi.read(source, self.resource, folder)
            except Unsupported as exc:
                fault = fault or exc
            else:
                if stalls.some is not None:
                    found[scope, "some"] = stalls.some.total_us
                if stalls.full is not None:
                    found[scope, "full"] = stalls.full.total_us
        if fault is not None and not found:
            raise fault
        return found

    def _share(self, line: str, now: Totals, before: Totals, elapsed_us: int) -> Answer:
        readings = [
            Reading(
                psi.pressure(before[key], total_us, elapsed_us)
                if key in before
                else None,
                "",
                key[0],
            )
            for key, total_us in now.items()
            if key[1] == line
        ]
        if readings:
            return greatest(readings)
        return Unsupported(f"pressure on {self.resource} has no {line!r} line")
