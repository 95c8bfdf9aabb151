"""All probes of this host, read once a sample, each fenced off from the rest.

A probe that this host can't serve is asked again every RETRY_S only, or when
the control group that holds its work turns out to be another one. One
that fails is an error for this sample, with its reason, and asked again at
the next. One that costs more processor time than its share rests until the
share is met, and its last values go out marked stale, with their age.
Reading procfs never waits, so all of it happens in one short call.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from trimtab.wire import Cpu, Hole, Io, Memory, Net, Scope, State

from .cgroups import Groups
from .errors import Contained, Unsupported
from .host import Host, Moment, Source
from .probes.cpu_busy import CpuBusy
from .probes.cpu_stall import CpuStall
from .probes.io_stall import IoStall
from .probes.irq_stall import IrqStall
from .probes.memory_available import MemoryAvailable
from .probes.memory_events import MemoryEvents
from .probes.memory_stall import MemoryStall
from .probes.nic import NicTraffic
from .probes.paging import Paging
from .probes.reading import EVENTS, Answer, Probe
from .probes.refaults import Refaults
from .probes.run_queue import RunQueue
from .probes.softnet import Softnet
from .probes.throttle import Throttle
from .probes.usable_cpus import UsableCpus

RETRY_S = 600
# Of one processor, and of each probe: 5 ms of each second, where they take
# about 0.02 ms, and 0.1 ms with cold caches.
BUDGET_SHARE = 0.005

# What may be read more seldom where each read counts: none of it tells of a
# sudden load before the stalls and the run queue do.
SLOW = frozenset(
    {
        "cpu.irq_stall",
        "memory.swap_in",
        "memory.refaults",
        "memory.oom_kills",
        "io.stall_some",
        "nic.errors",
        "nic.softnet_drops",
    }
)
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


class Readings(NamedTuple):
    """One sample of this host."""

    cpu: Cpu
    memory: Memory
    io: Io
    net: Net
    holes: tuple[Hole, ...]
    signals: tuple[Signal, ...]


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
    """A probe, what it answered last, and when it may be asked again."""

    __slots__ = (
        "answered_us",
        "answers",
        "cost_ns",
        "due_us",
        "fault",
        "next_us",
        "probe",
    )

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.answers: Mapping[str, Answer] = {}
        self.fault: Exception | None = None
        self.answered_us = 0
        self.due_us: int | None = None  # not before; None: now
        self.cost_ns = 0
        self.next_us = 0  # kept as it is until then


class Sampler:
    """The probes of one host over time."""

    def __init__(
        self,
        host: Host,
        watched: Iterable[Probe] | None = None,
        processor_ns: Callable[[], int] = time.thread_time_ns,
        *,
        slow_s: float = 0.0,
    ) -> None:
        """Watch every probe unless told which.

        `processor_ns` is the clock of processor time that budgets go by. The
        signals of SLOW are read that much apart, and keep their value between.
        """
        self._slow_us = round(slow_s * 1e6)
        self._host = host
        self._groups = Groups()
        self._changes = 0  # of the control group, as last seen
        self._watched = [
            _Watched(probe)
            for probe in (probes(self._groups) if watched is None else watched)
        ]
        self._processor_ns = processor_ns

    def sample(self, monotonic_ns: int) -> Readings:
        """Read every probe that is due. Raises nothing for a failing probe.

        The first sample has no values of signals that are differences: they
        are None without a hole, as after a counter's reset.
        """
        now_us = monotonic_ns // 1000
        moment = Moment(self._host)
        signals: list[Signal] = []
        if self._changes != self._groups.changes:
            self._changes = self._groups.changes
            for watched in self._watched:
                if isinstance(watched.fault, Unsupported):
                    watched.due_us = None
        spent_ns = self._processor_ns()
        for watched in self._watched:
            kept = now_us < watched.next_us
            asked = not kept and (watched.due_us is None or now_us >= watched.due_us)
            if asked:
                spent_ns = self._ask(watched, moment, now_us, spent_ns)
                if self._slow_us and not SLOW.isdisjoint(watched.probe.signals):
                    # Half a sample early is better than a whole one late.
                    watched.next_us = now_us + self._slow_us - SLOW_EARLY_US
            signals += (
                _signal(name, watched, fresh=asked, kept=kept, now_us=now_us)
                for name in watched.probe.signals
            )
        return _readings(signals)

    def _ask(
        self, watched: _Watched, source: Source, now_us: int, started_ns: int
    ) -> int:
        with Contained() as ended:
            watched.answers = watched.probe.sample(source, now_us)
            watched.answered_us = now_us
        ended_ns = self._processor_ns()
        cost_ns = ended_ns - started_ns
        watched.fault = ended.fault
        if isinstance(ended.fault, OSError):
            self._groups.doubt()
        if isinstance(ended.fault, Unsupported):
            watched.due_us = now_us + RETRY_S * 1_000_000
        else:
            # The lesser of two in a row: a single one may be bad luck.
            rest_us = min(cost_ns, watched.cost_ns) / BUDGET_SHARE / 1000
            watched.due_us = now_us + round(rest_us)
        watched.cost_ns = cost_ns
        return ended_ns


def _signal(
    name: str, watched: _Watched, *, fresh: bool, kept: bool, now_us: int
) -> Signal:
    unit = UNITS[name]
    answer = watched.fault or watched.answers[name]
    if isinstance(answer, Unsupported):
        return Signal(
            name, State.UNSUPPORTED, None, unit, None, str(answer), answer.mend
        )
    if isinstance(answer, Exception):
        reason = f"{type(answer).__name__}: {answer}"
        return Signal(name, State.ERROR, None, unit, None, reason, "")
    if fresh or kept or answer.value is None:
        # Events were told, once: between two reads none are known.
        value = None if kept and unit == EVENTS else answer.value
        age_ms = (now_us - watched.answered_us) // 1000 if kept else 0
        return Signal(
            name,
            State.OK,
            value,
            unit,
            None if value is None else age_ms,
            answer.note,
            "",
            answer.scope,
        )
    return Signal(
        name,
        State.STALE,
        None if unit == EVENTS else answer.value,  # they were told, once
        unit,
        (now_us - watched.answered_us) // 1000,
        f"resting: the probe took {watched.cost_ns / 1e6:.1f} ms of processor time",
        "",
        answer.scope,
    )


def _readings(signals: list[Signal]) -> Readings:
    by_name = {signal.name: signal for signal in signals}
    value = {name: signal.value for name, signal in by_name.items()}.get

    def count(name: str) -> int | None:
        events = value(name)
        return None if events is None else int(events)

    def scope(*names: str) -> Scope | None:
        found = (by_name[name] for name in names if value(name) is not None)
        contained = any(signal.scope is Scope.CONTAINER for signal in found)
        return Scope.CONTAINER if contained else None

    return Readings(
        cpu=Cpu(
            stall=value("cpu.stall"),
            run_queue=value("cpu.run_queue"),
            steal=value("cpu.steal"),
            busy=value("cpu.busy"),
            throttled=value("cpu.throttled"),
            throttled_periods=value("cpu.throttled_periods"),
            irq_stall=value("cpu.irq_stall"),
            scope=scope("cpu.stall", "cpu.throttled", "cpu.throttled_periods"),
        ),
        memory=Memory(
            stall_some=value("memory.stall_some"),
            stall_full=value("memory.stall_full"),
            available=value("memory.available"),
            swap_in_bytes_s=value("memory.swap_in"),
            swap_out_bytes_s=value("memory.swap_out"),
            major_faults_s=value("memory.major_faults"),
            refaults_s=value("memory.refaults"),
            high_events=count("memory.high_events"),
            max_events=count("memory.max_events"),
            oom_kills=count("memory.oom_kills"),
            scope=scope("memory.available", "memory.stall_some", "memory.stall_full"),
        ),
        io=Io(stall_some=value("io.stall_some"), stall_full=value("io.stall_full")),
        net=Net(
            utilisation=value("nic.utilisation"),
            errors_s=value("nic.errors"),
            drops_s=value("nic.drops"),
            softnet_drops_s=value("nic.softnet_drops"),
        ),
        holes=tuple(
            Hole(
                signal.name,
                signal.state,
                signal.age_ms if signal.state is State.STALE else None,
            )
            for signal in signals
            if signal.state is not State.OK
        ),
        signals=tuple(signals),
    )
