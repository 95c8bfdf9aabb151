"""Memory events: how often a limit was met, or a task killed, in the interval.

Source, v2: memory.events of the control group (high, max, oom_kill; of it and
all below) and, for the limits of groups above it, their memory.events.local.
v1: memory.failcnt of each level that has a limit for max, memory.oom_control
for kills (Linux 4.13+; of the group itself only), and nothing for high, a
limit that it does not have. On a host that is no container, kills are those of
procfs vmstat, and nothing limits it: 0 is a reading of the other two.
Cost: one short read a level.
"""

from collections.abc import Mapping
from contextlib import suppress

from trimtab.agent.cgroups import Group, Groups, MemoryLevel
from trimtab.agent.errors import Malformed, Unsupported
from trimtab.agent.host import Source
from trimtab.wire import Scope

from .lines import number
from .reading import Answer, Last, Reading

HIGH, MAX, KILLS = "memory.high_events", "memory.max_events", "memory.oom_kills"

_V2_LABELS = {HIGH: b"high ", MAX: b"max ", KILLS: b"oom_kill "}
_V1_LABELS = {KILLS: b"oom_kill "}
_LIMITS = (HIGH, MAX)

Counts = Mapping[tuple[str, str], int]  # by folder and signal, since boot


def parse(text: bytes, labels: Mapping[str, bytes]) -> dict[str, int]:
    """Return the counts of memory.events or the like, those that it has."""
    found = {name: number(text, label) for name, label in labels.items()}
    return {name: count for name, count in found.items() if count is not None}


def parse_failcnt(text: bytes) -> int:
    """Return the hits of a v1 limit; Malformed if it is no number."""
    if not text.strip().isdigit():
        raise Malformed(f"expected a number in memory.failcnt, got {text[:80]!r}")
    return int(text)


def read(source: Source, level: MemoryLevel, *, own: bool) -> dict[str, int]:
    """Return the counts of the group itself, or of hits of a limit further up."""
    if level.version == 1:
        failures = parse_failcnt(source.sys(f"{level.folder}/memory.failcnt"))
        if not own:
            return {MAX: failures}
        text = source.sys(f"{level.folder}/memory.oom_control")
        return {MAX: failures, **parse(text, _V1_LABELS)}
    if own:
        return parse(source.sys(f"{level.folder}/memory.events"), _V2_LABELS)
    with suppress(Unsupported):  # before Linux 5.2
        found = parse(source.sys(f"{level.folder}/memory.events.local"), _V2_LABELS)
        return {name: found[name] for name in _LIMITS if name in found}
    return {}


def counts(source: Source, group: Group) -> Counts:
    """Return every count that there is now."""
    if group.contained:
        return {
            (level.folder, name): count
            for level in group.memory
            for name, count in read(source, level, own=level is group.memory[0]).items()
        }
    if group.asked is not None:
        raise Unsupported(f"no memory controller knows {group.asked}")
    kills = number(source.proc("vmstat"), b"oom_kill ")
    return {} if kills is None else {("", KILLS): kills}


def events(before: Counts, after: Counts, name: str) -> int | None:
    """Return how many there were between, 0 upwards.

    None is "no reading": nothing to compare with, or counters that went back.
    """
    steps = [
        count - before[key]
        for key, count in after.items()
        if key[1] == name and key in before
    ]
    return sum(steps) if steps and min(steps) >= 0 else None


class MemoryEvents:
    """The probe."""

    signals = (HIGH, MAX, KILLS)

    def __init__(self, groups: Groups | None = None) -> None:
        self._groups = groups or Groups()
        self._last = Last[Counts]()
        self._group: Group | None = None
        self._unlimited: dict[str, Answer] = {}  # empty in a container

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        """Return the events since the sample before; first time None."""
        group = self._groups.find(source, now_us)
        now = counts(source, group)
        before, _ = self._last.swap(now, now_us) or ({}, 0)
        if group is not self._group:  # as looked up now and then
            self._group = group
            self._unlimited = {} if group.contained else _without_limits(group)
        if self._unlimited:
            return {**self._unlimited, KILLS: _answer(KILLS, group, before, now)}
        return {name: _answer(name, group, before, now) for name in self.signals}


def _without_limits(group: Group) -> dict[str, Answer]:
    """Return what a host that is no container answers of limits."""
    if not group.cpu and not group.memory:
        return dict.fromkeys(_LIMITS, Unsupported("no control groups in sysfs"))
    none = Reading(0.0, "no control group limits this host's memory")
    return dict.fromkeys(_LIMITS, none)


def _answer(name: str, group: Group, before: Counts, now: Counts) -> Answer:
    if any(key[1] == name for key in now):
        scope = Scope.CONTAINER if group.contained else Scope.HOST
        return Reading(events(before, now, name), "", scope)
    if name == KILLS:
        return Unsupported("the kernel counts no oom_kill; Linux 4.13+ does")
    return Unsupported(f"{group.memory[0].folder} counts none, as v1 for high")
