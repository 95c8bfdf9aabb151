"""Nodes as `GET /v1/nodes` and `/v1/nodes/{node}` tell of them.

None is "no reading" or "not said", never 0. `raw` is the JSON object as it
came, with whatever a newer collector put in.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .fields import Fields


class Drain(NamedTuple):
    """Why an operator took a node out. Times are Unix seconds."""

    since: float
    until: float | None  # when it ends at the latest; None: with its work
    reason: str
    by: str | None  # whose credential


@dataclass(frozen=True, kw_only=True)
class NodeSummary:
    """What a list shows of a node."""

    name: str  # unique in the fleet
    id: str  # 32 hexadecimal digits
    state: str  # joining, healthy, strained, saturated, stale, lost, …
    admin: str  # the operator's intent: active, draining, drained, tombstoned
    drain: Drain | None
    score: float | None  # 0-1, the least headroom read
    confidence: float | None  # 0-1, share of the signals that were read
    limiting: str | None  # the dimension that sets the score
    headroom: Mapping[str, float | None]  # 0-1 by dimension; 1 idle
    age_ms: int | None  # of the newest reading
    signals: Mapping[str, float | None]
    address: str | None
    site: str | None
    zone: str | None
    operator: str | None
    labels: Mapping[str, str]
    raw: Mapping[str, Any] = field(repr=False, compare=False)


class Link(NamedTuple):
    """Round trips from a node to one peer."""

    to: str
    method: str | None
    rtt_us: int | None
    rtt_min_us: int | None
    rtt_p95_us: int | None
    jitter_us: int | None
    loss: float | None  # 0-1
    retransmits: int | None  # segments in the last interval


class Hole(NamedTuple):
    """A signal without a fresh value, and why."""

    signal: str
    state: str  # unsupported, error, stale
    age_ms: int | None  # of the last good value, where there is one
    to: str | None  # the link, for signals of links


@dataclass(frozen=True, kw_only=True)
class Node(NodeSummary):
    """One node, with all that is known of it. Times are Unix seconds."""

    state_for_s: float
    interval_ms: int
    stale_after_ms: int
    agent_version: str
    first_seen: float
    last_seen: float
    gaps: int  # samples that the agent had to drop, in this run of it
    links: tuple[Link, ...]
    holes: tuple[Hole, ...]
    cpus: int | None
    memory_mib: int | None
    groups: tuple[str, ...]
    holds: tuple[str, ...]
    resources: Mapping[str, int]
    price: float | None
    slots: int | None
    speed: float | None


def parse_summary(fields: Fields) -> NodeSummary:
    """Return the node; Unexpected if a field is not as the API says."""
    return NodeSummary(**_summary(fields))


def parse_list(fields: Fields) -> tuple[tuple[NodeSummary, ...], str | None]:
    """Return the nodes of a page, and the cursor of the next one."""
    listed = tuple(parse_summary(each) for each in fields.objects("nodes"))
    return listed, fields.maybe_text("next")


def parse_node(fields: Fields) -> Node:
    """Return the node; Unexpected if a field is not as the API says."""
    return Node(
        **_summary(fields),
        state_for_s=fields.number("state_for_s"),
        interval_ms=fields.integer("interval_ms"),
        stale_after_ms=fields.integer("stale_after_ms"),
        agent_version=fields.text("agent_version"),
        first_seen=fields.number("first_seen"),
        last_seen=fields.number("last_seen"),
        gaps=fields.integer("gaps"),
        links=tuple(_link(each) for each in fields.objects("links")),
        holes=tuple(_hole(each) for each in fields.objects("holes")),
        cpus=fields.maybe_integer("cpus"),
        memory_mib=fields.maybe_integer("memory_mib"),
        groups=fields.texts("groups"),
        holds=fields.texts("holds"),
        resources=fields.counts("resources"),
        price=fields.maybe_number("price"),
        slots=fields.maybe_integer("slots"),
        speed=fields.maybe_number("speed"),
    )


def _summary(fields: Fields) -> dict[str, Any]:
    return {
        "name": fields.text("node"),
        "id": fields.text("id"),
        "state": fields.text("state"),
        "admin": fields.text("admin"),
        "drain": _drain(fields),
        "score": fields.maybe_number("score"),
        "confidence": fields.maybe_number("confidence"),
        "limiting": fields.maybe_text("limiting"),
        "headroom": fields.readings("headroom"),
        "age_ms": fields.maybe_integer("age_ms"),
        "signals": fields.readings("signals"),
        "address": fields.maybe_text("address"),
        "site": fields.maybe_text("site"),
        "zone": fields.maybe_text("zone"),
        "operator": fields.maybe_text("operator"),
        "labels": fields.words("labels"),
        "raw": fields.raw,
    }


def _drain(fields: Fields) -> Drain | None:
    if fields.raw.get("drain") is None:
        return None
    drain = fields.inner("drain")
    return Drain(
        since=drain.number("since"),
        until=drain.maybe_number("until"),
        reason=drain.text("reason"),
        by=drain.maybe_text("by"),
    )


def _link(fields: Fields) -> Link:
    return Link(
        to=fields.text("to"),
        method=fields.maybe_text("method"),
        rtt_us=fields.maybe_integer("rtt_us"),
        rtt_min_us=fields.maybe_integer("rtt_min_us"),
        rtt_p95_us=fields.maybe_integer("rtt_p95_us"),
        jitter_us=fields.maybe_integer("jitter_us"),
        loss=fields.maybe_number("loss"),
        retransmits=fields.maybe_integer("retransmits"),
    )


def _hole(fields: Fields) -> Hole:
    return Hole(
        signal=fields.text("signal"),
        state=fields.text("state"),
        age_ms=fields.maybe_integer("age_ms"),
        to=fields.maybe_text("to"),
    )
