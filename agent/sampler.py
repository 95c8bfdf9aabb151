"""All probes of this host, read once a sample, each fenced off from the rest.

A probe that this host can't serve is asked again every RETRY_S only. One
that fails is an error for this sample, with its reason, and asked again at
the next. One that costs more processor time than its share rests until the
share is met, and its last values go out marked stale, with their age.
Reading procfs never waits, so all of it happens in one short call.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from trimtab.wire import Cpu, Hole, Memory, State

from .errors import Contained, Unsupported
from .host import Host, Moment, Source
from .probes.cpu_stall import CpuStall
from .probes.cpu_time import CpuTime
from .probes.memory_available import MemoryAvailable
from .probes.memory_stall import MemoryStall
from .probes.paging import Paging
from .probes.reading import Answer, Probe
from .probes.run_queue import RunQueue

RETRY_S = 600
# Of one processor, and of each probe: 5 ms of each second, where they take
# about 0.02 ms, and 0.1 ms with cold caches.
BUDGET_SHARE = 0.005

UNITS: Mapping[str, str] = {
    "cpu.stall": "share",
    "cpu.run_queue": "tasks/CPU",
    "cpu.steal": "share",
    "cpu.busy": "share",
    "memory.stall_some": "share",
    "memory.stall_full": "share",
    "memory.available": "share",
    "memory.swap_in": "bytes/s",
    "memory.swap_out": "bytes/s",
    "memory.major_faults": "faults/s",
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


class Readings(NamedTuple):
    """One sample of this host."""

    cpu: Cpu
    memory: Memory
    holes: tuple[Hole, ...]
    signals: tuple[Signal, ...]


def probes() -> tuple[Probe, ...]:
    """Return every probe of this host, new."""
    return (
        CpuStall(),
        RunQueue(),
        CpuTime(),
        MemoryStall(),
        MemoryAvailable(),
        Paging(),
    )


@dataclass(slots=True)
class _Watched:
    """A probe, what it answered last, and when it may be asked again."""

    probe: Probe
    answers: Mapping[str, Answer] = field(default_factory=dict)
    fault: Exception | None = None
    answered_us: int = 0
    due_us: int | None = None  # not before; None: now
    cost_ns: int = 0


class Sampler:
    """The probes of one host over time."""

    def __init__(
        self,
        host: Host,
        watched: Iterable[Probe] | None = None,
        processor_ns: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        """Watch every probe unless told which.

        `processor_ns` is the clock of processor time that budgets go by.
        """
        self._host = host
        self._watched = [
            _Watched(probe) for probe in (probes() if watched is None else watched)
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
        for watched in self._watched:
            asked = watched.due_us is None or now_us >= watched.due_us
            if asked:
                self._ask(watched, moment, now_us)
            signals += (
                _signal(name, watched, fresh=asked, now_us=now_us)
                for name in watched.probe.signals
            )
        return _readings(signals)

    def _ask(self, watched: _Watched, source: Source, now_us: int) -> None:
        started_ns = self._processor_ns()
        with Contained() as ended:
            watched.answers = watched.probe.sample(source, now_us)
            watched.answered_us = now_us
        cost_ns = self._processor_ns() - started_ns
        watched.fault = ended.fault
        if isinstance(ended.fault, Unsupported):
            watched.due_us = now_us + RETRY_S * 1_000_000
        else:
            # The lesser of two in a row: a single one may be bad luck.
            rest_us = min(cost_ns, watched.cost_ns) / BUDGET_SHARE / 1000
            watched.due_us = now_us + round(rest_us)
        watched.cost_ns = cost_ns


def _signal(name: str, watched: _Watched, *, fresh: bool, now_us: int) -> Signal:
    unit = UNITS[name]
    answer = watched.fault or watched.answers[name]
    if isinstance(answer, Unsupported):
        return Signal(
            name, State.UNSUPPORTED, None, unit, None, str(answer), answer.mend
        )
    if isinstance(answer, Exception):
        reason = f"{type(answer).__name__}: {answer}"
        return Signal(name, State.ERROR, None, unit, None, reason, "")
    if fresh or answer.value is None:
        age_ms = None if answer.value is None else 0
        return Signal(name, State.OK, answer.value, unit, age_ms, answer.note, "")
    return Signal(
        name,
        State.STALE,
        answer.value,
        unit,
        (now_us - watched.answered_us) // 1000,
        f"resting: the probe took {watched.cost_ns / 1e6:.1f} ms of processor time",
        "",
    )


def _readings(signals: list[Signal]) -> Readings:
    value = {signal.name: signal.value for signal in signals}.get
    return Readings(
        cpu=Cpu(
            stall=value("cpu.stall"),
            run_queue=value("cpu.run_queue"),
            steal=value("cpu.steal"),
            busy=value("cpu.busy"),
        ),
        memory=Memory(
            stall_some=value("memory.stall_some"),
            stall_full=value("memory.stall_full"),
            available=value("memory.available"),
            swap_in_bytes_s=value("memory.swap_in"),
            swap_out_bytes_s=value("memory.swap_out"),
            major_faults_s=value("memory.major_faults"),
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
