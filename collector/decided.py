"""Decisions on their way to the store, so that `explain` outlives a restart.

A busy second makes more of them than are worth keeping: of each commit the
newest few go to disk. The router itself remembers many more.
"""

import json
from collections import Counter, deque

from trimtab.balancer import Decision

STORED_AT_ONCE = 200


class Decided:
    """Counts every decision, and keeps the newest for the next commit."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()  # by mode, and "none"
        self._unsaved: deque[tuple[Decision, float]] = deque(maxlen=STORED_AT_ONCE)

    def note(self, decision: Decision | None, unix_now: float) -> None:
        """Take a decision; None: no node fitted."""
        if decision is None:
            self.counts["none"] += 1
            return
        self.counts[decision.mode.value] += 1
        self._unsaved.append((decision, unix_now))

    def take_unsaved(self) -> list[tuple[str, float, str]]:
        """Return id, Unix time and JSON of those for the store."""
        taken = [
            (decision.id, unix_s, json.dumps(decision.to_json()))
            for decision, unix_s in self._unsaved
        ]
        self._unsaved.clear()
        return taken
