"""What happened in the fleet, as `GET /v1/events` tells it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .fields import Fields

GAP = "gap"  # the kind of an event that stands for those no longer kept


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened. A `kind` not known here is a newer collector's."""

    id: int  # grows, over restarts of the collector too
    time: float  # Unix seconds
    kind: str  # state, admin, enrolled, boot, clone, …, or gap
    node: str | None  # as it was shown then
    node_id: str | None
    reason: str
    by: str | None  # whose credential
    details: Mapping[str, str | float | None]
    raw: Mapping[str, Any] = field(repr=False, compare=False)


class EventPage(NamedTuple):
    """Some events, oldest first, and the number to go on from."""

    events: tuple[Event, ...]
    next: int


def parse_event(fields: Fields) -> Event:
    """Return the event; Unexpected if a field is not as the API says."""
    details = fields.inner("details")
    return Event(
        id=fields.integer("id"),
        time=fields.number("time"),
        kind=fields.text("kind"),
        node=fields.maybe_text("node"),
        node_id=fields.maybe_text("node_id"),
        reason=fields.text("reason"),
        by=fields.maybe_text("by"),
        details={key: details.plain(key) for key in details.raw},
        raw=fields.raw,
    )


def parse_page(fields: Fields) -> EventPage:
    """Return the page; Unexpected if a field is not as the API says."""
    found = tuple(parse_event(each) for each in fields.objects("events"))
    return EventPage(found, fields.integer("next"))
