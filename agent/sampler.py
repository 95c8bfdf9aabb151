"""All probes of this host, read once a sample, each fenced off from the rest.

A probe that this host can't serve is asked again every RETRY_S only, or when
the control group that holds its work turns out to be another one. One
that fails is an error for this sample, with its reason, and asked again at
the next. One that costs more processor time than its share rests until the
share is met, and its last values go out marked stale, with their age.
Reading procfs never waits, so all of it happens in one short call.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from trimtab.wire import Cpu, Hole, Io, Memory, Net, Scope, State

from .cgroups import Groups
from .errors import Contained, Unsupported
from .host import Host, Moment
from .probes.cpu_busy import CpuBusy
from .probes.cpu_stall import CpuStall
from .probes.io_stall import IoStall
from .probes.irq_stall import IrqStall
from .probes.memory_available import MemoryAvailable
from .probes.memory_events import MemoryEvents
from .probes.memory_stall import MemoryStall
from .probes.nic import NicTraffic
from .probes.paging import Paging
from .probes.reading import EVENTS, Answer, Probe, Reading
from .probes.refaults import Refaults
from .probes.run_queue import RunQueue
from .probes.softnet import Softnet
from .probes.throttle import Throttle
from .probes.usable_cpus import UsableCpus

RETRY_S = 600
# Of one processor, and of each probe: 5 ms of each second, where they take
# about 0.02 ms, and 0.1 ms with cold caches.
BUDGET_SHARE = 0.005

# What tells of a link in use for long rather than of a sudden load.
FIXTURES = frozenset({"nic.errors", "nic.softnet_drops"})
# What may be read more seldom where each read counts: none of it tells of a
# sudden load before the stalls and the run queue do.
SLOW = FIXTURES | {
    "cpu.irq_stall",
    "memory.swap_in",
    "memory.refaults",
    "memory.oom_kills",
    "io.stall_some",
}
SLOW_EARLY_US = 500_000

UNITS: Mapping[str, str] = {
    "cpu.stall": "share",
    "cpu.run_queue": "tasks/CPU",
    "cpu.steal": "share",
    "cpu.busy": "share",
    "cpu.throttled": "share",
    "cpu.throttled_periods": "share",
    "cpu.irq_stall": "share",
    "memory.stall_some": "share",
    "memory.stall_full": "share",
    "memory.available": "share",
    "memory.swap_in": "bytes/s",
    "memory.swap_out": "bytes/s",
    "memory.major_faults": "faults/s",
    "memory.refaults": "refaults/s",
    "memory.high_events": EVENTS,
    "memory.max_events": EVENTS,
    "memory.oom_kills": EVENTS,
    "io.stall_some": "share",
    "io.stall_full": "share",
    "nic.utilisation": "share",
    "nic.errors": "errors/s",
    "nic.drops": "drops/s",
    "nic.softnet_drops": "drops/s",
}


# A section is of a container if one of these is.
_CPU_SCOPE = frozenset({"cpu.stall", "cpu.throttled", "cpu.throttled_periods"})
_MEMORY_SCOPE = frozenset(
    {"memory.available", "memory.stall_some", "memory.stall_full"}
)


class Signal(NamedTuple):
    """One signal as people are told of it."""

    name: str
    state: State
    value: float | None  # None is no reading; with STALE the last one
    unit: str
    age_ms: int | None  # of the value; None without one
    reason: str  # why the state is not ok, or how the source is unusual
    mend: str  # what the operator can do about it
    scope: Scope = Scope.HOST  # whose value it is


class Readings:
    """One sample of this host; the sections of a frame are made when asked for."""

    __slots__ = ("_contained", "holes", "values")

    def __init__(
        self,
        values: dict[str, float | None],
        holes: tuple[Hole, ...],
        contained: Collection[str],
    ) -> None:
        self.values = values  # by signal; None is no reading
        self.holes = holes
        self._contained = contained  # those that are a group's

    @property
    def cpu(self) -> Cpu:
        """The CPU section."""
        value = self.values.get
        return Cpu(
            value("cpu.stall"),
            value("cpu.run_queue"),
            value("cpu.steal"),
            value("cpu.busy"),
            value("cpu.throttled"),
            value("cpu.throttled_periods"),
            value("cpu.irq_stall"),
            self._scope(_CPU_SCOPE),
        )

    @property
    def memory(self) -> Memory:
        """The memory section."""
        value = self.values.get
        return Memory(
            value("memory.stall_some"),
            value("memory.stall_full"),
            value("memory.available"),
            value("memory.swap_in"),
            value("memory.swap_out"),
            value("memory.major_faults"),
            value("memory.refaults"),
            self._count("memory.high_events"),
            self._count("memory.max_events"),
            self._count("memory.oom_kills"),
            self._scope(_MEMORY_SCOPE),
        )

    @property
    def io(self) -> Io:
        """The section of storage."""
        value = self.values.get
        return Io(value("io.stall_some"), value("io.stall_full"))

    @property
    def net(self) -> Net:
        """The section of network interfaces."""
        value = self.values.get
        return Net(
            value("nic.utilisation"),
            value("nic.errors"),
            value("nic.drops"),
            value("nic.softnet_drops"),
        )

    def _count(self, name: str) -> int | None:
        events = self.values.get(name)
        return None if events is None else int(events)

    def _scope(self, names: frozenset[str]) -> Scope | None:
        if not self._contained or names.isdisjoint(self._contained):
            return None
        return Scope.CONTAINER


def probes(groups: Groups) -> tuple[Probe, ...]:
    """Return every probe of this host, new; `groups` they look up together."""
    cpus = UsableCpus()
    return (
        CpuStall(groups),
        RunQueue(cpus),
        CpuBusy(groups, cpus),
        Throttle(groups),
        IrqStall(groups),
        MemoryStall(groups),
        MemoryAvailable(groups),
        Paging(),
        Refaults(groups),
        MemoryEvents(groups),
        IoStall(groups),
        NicTraffic(),
        Softnet(),
    )


class _Watched:
    """A probe, what it answered last, and when it is asked again."""

    def __init__(self, probe: Probe, *, slow_us: int) -> None:
        self.probe = probe
        self.slow_us = slow_us
        self.answers: Mapping[str, Answer] = {}
        self.fault: Exception | None = None
        self.answered_us = 0
        self.due_us = 0  # not before
        self.resting = False  # as it costs too much; else as it is slow
        self.cost_ns = 0  # 0 while nobody looks at single probes
        self.kept: _Taken | None = None  # what it comes to between two answers

    def wait(self, now_us: int, cost_ns: int) -> None:
        """Note when it is asked again, after an answer at that cost."""
        if isinstance(self.fault, Unsupported):
            self.due_us, self.resting = now_us + RETRY_S * 1_000_000, False
            return
        # The lesser of two in a row: a single one may be bad luck.
        wait_us = round(min(cost_ns, self.cost_ns) / BUDGET_SHARE / 1000)
        self.resting = wait_us > self.slow_us
        self.due_us = now_us + max(wait_us, self.slow_us)
        self.cost_ns = cost_ns

    def keep(self, now_us: int) -> "_Taken":
        """Return what it comes to while it is not asked."""
        if self.kept is None or self.resting:
            self.kept = kept = _Taken()
            if self.fault is not None:
                kept.fail(self.probe.signals, self.fault)
            else:
                kept.add(self.answers)
                age_ms = (now_us - self.answered_us) // 1000
                kept.age(age_ms if self.resting else None)
        return self.kept


class _Taken:
    """What a sample comes to, probe by probe."""

    def __init__(self) -> None:
        self.values: dict[str, float | None] = {}
        self.holes: list[Hole] = []
        self.contained: list[str] = []  # values that are a group's

    def add(self, answers: Mapping[str, Answer]) -> None:
        """Take what a probe has just answered."""
        for name, answer in answers.items():
            if isinstance(answer, Reading):
                value, _, scope = answer
                self.values[name] = value
                if scope is Scope.CONTAINER and value is not None:
                    self.contained.append(name)
            else:
                self.values[name] = None
                self.holes.append(Hole(name, State.UNSUPPORTED))

    def fail(self, names: Iterable[str], fault: Exception) -> None:
        """Take that a probe has no answer."""
        state = _state(fault)
        for name in names:
            self.values[name] = None
            self.holes.append(Hole(name, state))

    def age(self, stale_ms: int | None) -> None:
        """Turn answers into old ones; stale if they are of that age."""
        for name, value in self.values.items():
            if stale_ms is not None and value is not None:
                self.holes.append(Hole(name, State.STALE, stale_ms))
            if UNITS[name] == EVENTS:
                self.values[name] = None  # they were told, once

    def join(self, kept: "_Taken") -> None:
        """Take what a probe said before."""
        self.values.update(kept.values)
        if kept.holes:
            self.holes += kept.holes
        if kept.contained:
            self.contained += kept.contained

    def readings(self) -> Readings:
        """Return all of it."""
        return Readings(self.values, tuple(self.holes), self.contained)


def _state(fault: Exception) -> State:
    return State.UNSUPPORTED if isinstance(fault, Unsupported) else State.ERROR


class Sampler:
    """The probes of one host over time."""

    def __init__(
        self,
        host: Host,
        watched: Iterable[Probe] | None = None,
        processor_ns: Callable[[], int] = time.thread_time_ns,
        *,
        slow: frozenset[str] = SLOW,
        slow_s: float = 0.0,
    ) -> None:
        """Watch every probe unless told which.

        `processor_ns` is the clock of processor time that budgets go by. The
        signals of `slow` are read that much apart, and keep their value between.
        """
        self._moment = Moment(host)
        self._groups = Groups()
        self._changes = 0  # of the control group, as last seen
        # Half a sample early is better than a whole one late.
        slow_us = max(0, round(slow_s * 1e6) - SLOW_EARLY_US)
        self._watched = [
            _Watched(probe, slow_us=0 if slow.isdisjoint(probe.signals) else slow_us)
            for probe in (probes(self._groups) if watched is None else watched)
        ]
        self._processor_ns = processor_ns
        self._metered = False  # each probe by itself, as all together cost much
        self._now_us = 0

    def sample(self, monotonic_ns: int) -> Readings:
        """Read every probe that is due. Raises nothing for a failing probe.

        The first sample has no values of signals that are differences: they
        are None without a hole, as after a counter's reset.
        """
        before_us, self._now_us = self._now_us, monotonic_ns // 1000
        self._moment.pass_on()
        if self._changes != self._groups.changes:
            self._changes = self._groups.changes
            for watched in self._watched:
                if isinstance(watched.fault, Unsupported):
                    watched.due_us = 0
        limit_ns = BUDGET_SHARE * (self._now_us - before_us) * 1000
        taken, due = _Taken(), []
        for watched in self._watched:
            if self._now_us >= watched.due_us:
                due.append(watched)
            else:
                taken.join(watched.keep(self._now_us))
        if self._metered:
            self._ask_metered(taken, due)
            self._metered = sum(each.cost_ns for each in self._watched) > limit_ns
            return taken.readings()
        began_ns = self._processor_ns()
        self._ask(taken, due)
        cost_ns = self._processor_ns() - began_ns
        self._metered = cost_ns > limit_ns
        for watched in due:
            if watched.slow_us or watched.fault is not None:
                watched.wait(self._now_us, 0)
            if self._metered:
                watched.cost_ns = cost_ns  # at most
        return taken.readings()

    def _ask_metered(self, taken: _Taken, due: Iterable[_Watched]) -> None:
        began_ns = self._processor_ns()
        for watched in due:
            self._ask(taken, (watched,))
            ended_ns = self._processor_ns()
            watched.wait(self._now_us, ended_ns - began_ns)
            began_ns = ended_ns

    def _ask(self, taken: _Taken, due: Iterable[_Watched]) -> None:
        waiting = iter(due)
        while True:
            # One fence serves them all until something fails.
            with Contained() as ended:
                for watched in waiting:
                    watched.fault = watched.kept = None
                    answers = watched.probe.sample(self._moment, self._now_us)
                    watched.answers, watched.answered_us = answers, self._now_us
                    taken.add(answers)
                return
            if ended.fault is not None:
                watched.fault, watched.answers = ended.fault, {}
                taken.fail(watched.probe.signals, ended.fault)
                if isinstance(ended.fault, OSError):
                    self._groups.doubt()

    def signals(self) -> tuple[Signal, ...]:
        """Return the sample just taken as people are told of it."""
        return tuple(
            _signal(name, watched, self._now_us)
            for watched in self._watched
            for name in watched.probe.signals
        )


def _signal(name: str, watched: _Watched, now_us: int) -> Signal:
    unit = UNITS[name]
    answer = watched.fault or watched.answers[name]
    if isinstance(answer, Unsupported):
        return Signal(
            name, State.UNSUPPORTED, None, unit, None, str(answer), answer.mend
        )
    if isinstance(answer, Exception):
        reason = f"{type(answer).__name__}: {answer}"
        return Signal(name, State.ERROR, None, unit, None, reason, "")
    value, note, scope = answer
    age_ms = (now_us - watched.answered_us) // 1000
    state = State.OK
    if age_ms and watched.resting and value is not None:
        state = State.STALE
        note = f"resting: the probe took {watched.cost_ns / 1e6:.1f} ms of processor"
        note += " time"
    if age_ms and unit == EVENTS:
        value = None  # they were told, once
    told = None if value is None and state is State.OK else age_ms
    return Signal(name, state, value, unit, told, note, "", scope)
