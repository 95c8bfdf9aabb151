"""A task: what somebody wants to run, and what it needs of a node.

Parsed once, at the edge, and every problem is reported at once: a caller
mends a request in one go. A misspelt need that was skipped would send the
task to a node that can't run it, so unknown fields are problems too. Fields
that this version can't act on are accepted, and named as unused in the answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

# Classes, each with the nominal time one task of it is served, on a node of
# speed 1. Rough by design: it sets how much a round trip matters against a
# queue, and a task's own duration_s replaces it.
SERVICE_S: Mapping[str, float] = {
    "interactive": 0.05,
    "streaming": 5.0,
    "batch": 10.0,
    "training": 600.0,
}
DEFAULT_CLASS = "interactive"

# Fields that nothing here acts on yet.
_UNUSED = {
    "from": "origin",
    "data": "data",
    "data_mib": "data_mib",
    "egress_mib": "egress_mib",
}

_DAY_S = 86_400.0
_MIB_LIMIT = 2.0**40  # an exbibyte
_NAME_CHARS = 255
_LIST_ITEMS = 256
_LABELS = 64
_PROBLEMS = 32  # reported; what is wrong beyond is counted
_SHOWN_CHARS = 60


UNKNOWN_FIELD = "an unknown field"


class Problem(NamedTuple):
    """One thing wrong with a task."""

    field: str
    value: str  # a short picture of what arrived
    expected: str

    def __str__(self) -> str:
        if self.value == UNKNOWN_FIELD:
            return f"{self.field}: no such field; {self.expected}"
        return f"{self.field}: expected {self.expected}, got {self.value}"


class BadTask(ValueError):
    """A task that can't be read; `problems` has everything wrong with it."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Task:
    """What is wanted. None or empty: not asked for."""

    task_class: str = DEFAULT_CLASS
    latency_budget_ms: float | None = None
    origin: str | None = None  # where the request comes from
    cpu: float | None = None  # CPUs
    memory_mib: float | None = None
    gpus: int | None = None  # devices
    gpu_memory_mib: float | None = None  # on one device
    data: tuple[str, ...] = ()
    data_mib: float | None = None
    egress_mib: float | None = None
    duration_s: float | None = None
    labels: tuple[tuple[str, str], ...] = ()
    sticky: str | None = None
    avoid: tuple[str, ...] = ()  # names or ids of nodes, or groups
    failover_from: str | None = None  # name or id of a node

    @property
    def asks_gpu(self) -> bool:
        """Whether the task needs a GPU, by count or by memory on one."""
        return bool(self.gpus or self.gpu_memory_mib)

    @property
    def service_s(self) -> float:
        """Expected time served on a node of speed 1."""
        return self.duration_s or SERVICE_S[self.task_class]

    @property
    def unused(self) -> tuple[str, ...]:
        """The fields given that nothing here acts on."""
        return tuple(
            field
            for field, attribute in _UNUSED.items()
            if getattr(self, attribute) not in (None, ())
        )

    def to_json(self) -> dict[str, object]:
        """Return the fields that were given, as they are written in JSON."""
        out: dict[str, object] = {}
        for field, (attribute, _) in FIELDS.items():
            value = getattr(self, attribute)
            if field == "labels":
                value = dict(value)
            elif isinstance(value, tuple):
                value = list(value)
            if field == "class" or value not in (None, [], {}):
                out[field] = value
        return out


def parse_task(obj: object) -> Task:
    """Return the task that a JSON object asks for; BadTask if it can't be read.

    A field of null counts as absent.
    """
    if not isinstance(obj, Mapping):
        raise BadTask((Problem("task", _shown(obj), "an object"),))
    problems: list[Problem] = []
    read: dict[str, Any] = {}
    for key, value in obj.items():
        if len(problems) > _PROBLEMS:
            problems[-1] = Problem("task", "more", f"at most {_PROBLEMS} problems")
            break
        if not isinstance(key, str) or key not in FIELDS:
            field = _shown(key).strip("'")
            problems.append(Problem(field, UNKNOWN_FIELD, _meant(key)))
        elif value is not None:
            attribute, parse = FIELDS[key]
            try:
                read[attribute] = parse(value)
            except _Unexpected as exc:
                problems.append(Problem(key, _shown(value), str(exc)))
    if problems:
        raise BadTask(tuple(problems))
    return Task(**read)


class _Unexpected(Exception):
    """Says what was expected."""


def _shown(value: object) -> str:
    """Return a short picture of a value that may be hostile."""
    if isinstance(value, list | tuple | Mapping):
        return f"{type(value).__name__} of {len(value)}"
    if isinstance(value, int) and abs(value) > 10**20:
        return "a number beyond 1e20"
    text = ascii(value[:_SHOWN_CHARS] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 3]}..."


def _meant(key: object) -> str:
    close = get_close_matches(key, FIELDS, n=1) if isinstance(key, str) else []
    if close:
        return f"did you mean '{close[0]}'?"
    return f"there are {', '.join(FIELDS)}"


def _number(limit: float, unit: str, *, positive: bool) -> Callable[[object], float]:
    low = "above 0" if positive else "from 0"
    expected = f"{unit}, a number {low} up to {limit:g}"

    def parse(value: object) -> float:
        # bool is an int; NaN and the infinities fail the comparison.
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise _Unexpected(expected)
        if not 0 <= value <= limit or (positive and value == 0):
            raise _Unexpected(expected)
        return float(value)

    return parse


def _devices(value: object) -> int:
    if type(value) is not int or not 0 <= value <= 1024:
        raise _Unexpected("devices, an integer from 0 up to 1024")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _NAME_CHARS:
        raise _Unexpected(f"text of 1 to {_NAME_CHARS} characters")
    return value


def _texts(value: object) -> tuple[str, ...]:
    expected = f"an array of at most {_LIST_ITEMS} texts of 1 to {_NAME_CHARS}"
    if not isinstance(value, list | tuple) or len(value) > _LIST_ITEMS:
        raise _Unexpected(expected)
    for item in value:
        if not isinstance(item, str) or not 0 < len(item) <= _NAME_CHARS:
            raise _Unexpected(f"{expected} characters, not {_shown(item)} in it")
    return tuple(value)


def _labels(value: object) -> tuple[tuple[str, str], ...]:
    expected = f"an object of at most {_LABELS} texts"
    if not isinstance(value, Mapping) or len(value) > _LABELS:
        raise _Unexpected(expected)
    for key, label in value.items():
        if not isinstance(key, str) or not isinstance(label, str):
            raise _Unexpected(f"{expected}, not {_shown(label)} at {_shown(key)}")
    return tuple(sorted(value.items()))


def _class(value: object) -> str:
    if not isinstance(value, str) or value not in SERVICE_S:
        raise _Unexpected(f"one of {', '.join(SERVICE_S)}")
    return value


_mib = _number(_MIB_LIMIT, "MiB", positive=False)

FIELDS: dict[str, tuple[str, Callable[[object], object]]] = {
    "class": ("task_class", _class),
    "latency_budget_ms": (
        "latency_budget_ms",
        _number(_DAY_S * 1000, "milliseconds", positive=True),
    ),
    "from": ("origin", _text),
    "cpu": ("cpu", _number(2.0**20, "CPUs", positive=False)),
    "memory_mib": ("memory_mib", _mib),
    "gpus": ("gpus", _devices),
    "gpu_memory_mib": ("gpu_memory_mib", _mib),
    "data": ("data", _texts),
    "data_mib": ("data_mib", _mib),
    "egress_mib": ("egress_mib", _mib),
    "duration_s": ("duration_s", _number(30 * _DAY_S, "seconds", positive=True)),
    "labels": ("labels", _labels),
    "sticky": ("sticky", _text),
    "avoid": ("avoid", _texts),
    "failover_from": ("failover_from", _text),
}
