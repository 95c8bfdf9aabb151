"""Routing decisions and outcomes, as `POST /v1/route` and its like tell them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from .fields import Fields

Plain = str | float | None
NO_FIT = "urn:trimtab:no-fit"


class Alternative(NamedTuple):
    """Where to go next if the node fails."""

    node: str
    address: str | None


class Candidate(NamedTuple):
    """A node that was compared, and what its cost was made of."""

    node: str
    state: str
    cost_ms: float  # expected time to an answer
    rtt_ms: float | None  # None: not read, the fleet's median was counted
    slowness: float  # time served over work, by outcomes; 1 is a nominal node
    stall: float  # factor for answers that are overdue; 1: none are
    in_flight: int  # leases before this one
    elsewhere: float  # counted in flight beside them
    slots: int
    speed: float  # nominal
    used: float  # 0-1, the share in use that was counted
    headroom: float | None  # 0-1, as read
    limiting: str | None
    age_ms: float | None  # of the reading


class Example(NamedTuple):
    """A node that a rule left out, and its value."""

    node: str
    value: Plain


class Filtered(NamedTuple):
    """What one rule left out."""

    rule: str
    limit: Plain
    nodes: int
    fault: str  # what those nodes are said to do: "have less than …"
    examples: tuple[Example, ...]


class Why(NamedTuple):
    """What a decision was made of."""

    mode: str  # normal, spill, panic
    task: Mapping[str, Any]
    candidates: tuple[Candidate, ...]  # the best of those compared, best first
    compared: int | None
    looked_at: int | None  # nodes drawn, or all of a small fleet
    filtered: tuple[Filtered, ...]
    relaxed: tuple[str, ...]  # what had to give for a node to fit
    unused: tuple[str, ...]  # what of the task nothing acted on


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A pick. It is a lease on the node until its outcome or its expiry."""

    id: str
    node: str
    address: str | None
    score: float | None  # 0-1, headroom in what the task needs
    expires_ms: int  # from when it was made
    alternatives: tuple[Alternative, ...]
    why: Why
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class NoFit:
    """No node may be picked for the task: an answer, not an error."""

    detail: str  # a sentence
    fleet: int | None  # nodes there are
    filtered: tuple[Filtered, ...]  # a node may miss several needs
    unused: tuple[str, ...]
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class BadTask:
    """A task of a batch that can't be read."""

    detail: str  # everything that is wrong with it
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How it went with a decision. What is None is not told.

    Without `service_ms` the estimate of the node's speed stays as it is:
    latency holds queue and path too.
    """

    decision: str  # its id
    outcome: Literal["ok", "error", "timeout"]
    latency_ms: float | None = None
    service_ms: float | None = None
    node_inflight: int | None = None
    transfer_mib: float | None = None
    transfer_ms: float | None = None


class Closed(NamedTuple):
    """What became of outcomes."""

    closed: int  # leases that were open until now
    unknown: tuple[str, ...]  # ids of no decision that is remembered


def parse_decision(fields: Fields) -> Decision:
    """Return the decision; Unexpected if a field is not as the API says."""
    why = fields.inner("why")
    return Decision(
        id=fields.text("decision"),
        node=fields.text("node"),
        address=fields.maybe_text("address"),
        score=fields.maybe_number("score"),
        expires_ms=fields.integer("expires_ms"),
        alternatives=tuple(
            Alternative(each.text("node"), each.maybe_text("address"))
            for each in fields.objects("alternatives")
        ),
        why=Why(
            mode=why.text("mode"),
            task=why.raw.get("task") or {},
            candidates=tuple(_candidate(each) for each in why.objects("candidates")),
            compared=why.maybe_integer("compared"),
            looked_at=why.maybe_integer("looked_at"),
            filtered=_filtered(why),
            relaxed=why.texts("relaxed"),
            unused=why.texts("unused"),
        ),
        raw=fields.raw,
    )


def parse_no_fit(problem: Fields) -> NoFit:
    """Return why no node fits, from the problem document."""
    why = problem.inner("why")
    return NoFit(
        detail=problem.text("detail"),
        fleet=why.maybe_integer("fleet"),
        filtered=_filtered(why),
        unused=why.texts("unused"),
        raw=problem.raw,
    )


def parse_batch(fields: Fields) -> tuple[Decision | NoFit | BadTask, ...]:
    """Return the answer to each task of a batch."""
    return tuple(
        _no_decision(each.inner("problem"))
        if "problem" in each.raw
        else parse_decision(each)
        for each in fields.objects("decisions")
    )


def _no_decision(problem: Fields) -> NoFit | BadTask:
    if problem.raw.get("type") == NO_FIT:
        return parse_no_fit(problem)
    return BadTask(detail=problem.text("detail"), raw=problem.raw)


def parse_closed(fields: Fields) -> Closed:
    """Return what became of outcomes."""
    return Closed(fields.integer("closed"), fields.texts("unknown"))


def _candidate(fields: Fields) -> Candidate:
    return Candidate(
        node=fields.text("node"),
        state=fields.text("state"),
        cost_ms=fields.number("cost_ms"),
        rtt_ms=fields.maybe_number("rtt_ms"),
        slowness=fields.number("slowness"),
        stall=fields.number("stall"),
        in_flight=fields.integer("in_flight"),
        elsewhere=fields.number("elsewhere"),
        slots=fields.integer("slots"),
        speed=fields.number("speed"),
        used=fields.number("used"),
        headroom=fields.maybe_number("headroom"),
        limiting=fields.maybe_text("limiting"),
        age_ms=fields.maybe_number("age_ms"),
    )


def _filtered(why: Fields) -> tuple[Filtered, ...]:
    return tuple(
        Filtered(
            rule=each.text("rule"),
            limit=each.plain("limit"),
            nodes=each.integer("nodes"),
            fault=each.text("fault"),
            examples=tuple(
                Example(example.text("node"), example.plain("value"))
                for example in each.objects("examples")
            ),
        )
        for each in why.objects("filtered")
    )
