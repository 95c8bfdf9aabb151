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
from .reading import Answer, Last, Reading

# By whose they are.
Totals = Mapping[Scope, psi.Pressure]
NONE: Totals = {}


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
        before, elapsed_us = self._last.swap(now, now_us) or (NONE, 0)
        answers: dict[str, Answer] = {}
        for signal, line in zip(self.signals, self.lines, strict=True):
            found = _greatest(0 if line == "some" else 1, now, before, elapsed_us)
            answers[signal] = found or Unsupported(
                f"pressure on {self.resource} has no {line!r} line"
            )
        return answers

    def _read(self, source: Source, group: Group) -> Totals:
        found: dict[Scope, psi.Pressure] = {}
        fault = None
        if group.asked is None:
            try:
                found[Scope.HOST] = psi.read(source, self.resource)
            except Unsupported as exc:
                fault = exc
        if group.pressure is not None:
            try:
                found[Scope.CONTAINER] = psi.read(source, self.resource, group.pressure)
            except Unsupported as exc:
                fault = fault or exc
        if not found:
            raise fault or Unsupported(
                f"no v2 tree holds {group.asked}, and v1 groups have no pressure"
            )
        return found


def _greatest(
    line: int, now: Totals, before: Totals, elapsed_us: int
) -> Reading | None:
    """Return the greatest share of a line; None if nobody has that line."""
    found = None
    for scope, totals in now.items():
        total_us = totals[line]
        if total_us is None:
            continue
        earlier = before.get(scope)
        earlier_us = None if earlier is None else earlier[line]
        share = (
            None
            if earlier_us is None
            else psi.pressure(earlier_us, total_us, elapsed_us)
        )
        if found is None or (share or -1.0) > (found.value or -1.0):
            found = Reading(share, "", scope)
    return found
