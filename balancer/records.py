"""The ring of decisions: the newest can be explained, and remember their end."""

from .decision import Decision
from .outcome import Outcome


class Record:
    """A decision, and how its work ended."""

    __slots__ = ("decision", "outcome")

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.outcome: Outcome | None = None  # None: not said


class Records:
    """At most `limit` decisions by id; past it the oldest goes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._by_id: dict[str, Record] = {}
        self._ring: list[str] = []
        self._next = 0

    def keep(self, decision: Decision) -> None:
        """Keep a decision."""
        if len(self._ring) < self._limit:
            self._ring.append(decision.id)
        else:
            del self._by_id[self._ring[self._next]]
            self._ring[self._next] = decision.id
            self._next = (self._next + 1) % self._limit
        self._by_id[decision.id] = Record(decision)

    def get(self, ident: str) -> Record | None:
        """Return a record; None if there was none, or it is forgotten."""
        return self._by_id.get(ident)
