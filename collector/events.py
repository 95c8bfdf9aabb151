"""What happened in the fleet: a bounded list, each with its reason.

Events are numbered; the numbers go on over restarts, so that whoever follows
them can say which was the last one seen. The newest are kept in memory for
those who ask; all go to the store with the next commit.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

import structlog

KEPT = 5_000

Detail = str | int | float | None


class Kind(StrEnum):
    """What an event is about."""

    STATE = "state"  # a node went from one state to another
    ADMIN = "admin"  # a person drained a node, or put it back
    ENROLLED = "enrolled"
    BOOT = "boot"
    CLONE = "clone"
    RENAMED = "renamed"
    HOLDS = "holds"  # a person or a program said what data a node holds
    FORGOTTEN = "forgotten"  # ephemeral, or a clone, and gone for long
    DELETED = "deleted"
    CREDENTIAL = "credential"  # made, revoked, or failing too often
    COLLECTOR = "collector"  # of this service itself


class Event(NamedTuple):
    """One thing that happened."""

    ident: int
    unix_s: float
    kind: Kind
    node: str | None  # as shown then
    node_id: str | None  # hexadecimal
    reason: str  # a sentence for people
    by: str | None  # whose credential; None: nobody's, or the collector itself
    details: dict[str, Detail]


class Events:
    """The newest events, and those that the store has not got yet."""

    def __init__(
        self, unix: Callable[[], float], known: Iterable[Event] = (), kept: int = KEPT
    ) -> None:
        self._unix = unix
        self._log = structlog.get_logger()
        self._ring = deque(known, maxlen=kept)
        self._unsaved: deque[Event] = deque(maxlen=kept)
        self._said = asyncio.Event()
        self.counts = dict.fromkeys(Kind, 0)
        self.newest = self._ring[-1].ident if self._ring else 0

    @property
    def oldest(self) -> int:
        """The first ident that can still be had; one past the newest if none."""
        return self._ring[0].ident if self._ring else self.newest + 1

    def say(
        self,
        kind: Kind,
        reason: str,
        *,
        node: str | None = None,
        node_id: str | None = None,
        by: str | None = None,
        **details: Detail,
    ) -> Event:
        """Note that something happened, and wake who waits for it."""
        self.newest += 1
        event = Event(
            self.newest, self._unix(), kind, node, node_id, reason, by, details
        )
        self._ring.append(event)
        self._unsaved.append(event)
        self.counts[kind] += 1
        said, self._said = self._said, asyncio.Event()
        said.set()
        self._log.log(
            _LEVELS.get(details.get("after"), 20),
            f"node_{kind}" if node is not None else f"{kind}_event",
            node=node,
            reason=reason,
            by=by,
            **details,
        )
        return event

    def after(self, ident: int, limit: int) -> list[Event]:
        """Return the oldest ones past an ident."""
        missed = self.newest - max(ident, self.oldest - 1)
        if missed <= 0:
            return []
        start = len(self._ring) - missed
        return [
            self._ring[i] for i in range(start, min(start + limit, len(self._ring)))
        ]

    async def wait(self, after: int) -> None:
        """Return once there is an event past this ident."""
        while self.newest <= after:
            await self._said.wait()

    def take_unsaved(self) -> list[Event]:
        """Return what the store has not got; see `put_back`."""
        taken = list(self._unsaved)
        self._unsaved.clear()
        return taken

    def put_back(self, events: list[Event]) -> None:
        """Take back what could not be stored."""
        self._unsaved = deque([*events, *self._unsaved], self._unsaved.maxlen)


_LEVELS: dict[Detail, int] = {"stale": 30, "lost": 30, "saturated": 30}
