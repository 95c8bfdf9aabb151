"""An ask: what tasks with the same needs find out about the nodes they draw.

In a large fleet nobody looks at every node: whether one fits is judged when it
is first drawn, and kept until something it rests on changes.
"""

from typing import Literal

from . import needs
from .changes import Changes
from .pool import Miss, barred, missed, silenced
from .snapshot import Admin, Snapshot, State
from .standing import GONE
from .task import Task

Verdict = Literal[True] | Miss  # it fits in full, or why not

_STAYING = (Admin.ACTIVE, Admin.DRAINING)


class Ask:
    """The needs of a task against a snapshot, and the next ones."""

    __slots__ = (
        "_path_share",
        "_rules",
        "_shared",
        "_task",
        "idle",
        "snapshot",
        "verdicts",
    )

    def __init__(self, snapshot: Snapshot, task: Task, path_share: float) -> None:
        self._task = task
        self._path_share = path_share
        # By row. None: not judged; True: fits in full; or why it does not.
        self.verdicts: list[Verdict | None] = [None] * len(snapshot)
        self._read(snapshot)

    def _read(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._rules = needs.rules(snapshot, self._task, self._path_share)
        self._shared = needs.shared_groups(snapshot, self._task)
        self.idle: tuple[str, ...] | None = None  # words that match nothing

    def renew(self, changes: Changes) -> None:
        """Go on to the next snapshot: what did not change is not judged again."""
        self._read(changes.after)
        verdicts = self.verdicts
        for column in {"admin", "states", *(rule.column for rule in self._rules)}:
            for row in changes.rows(column):
                verdicts[row] = None

    def judge(self, row: int) -> Verdict:
        """Return True if a node fits in full, or why not; and keep it."""
        verdict = self.verdicts[row] = self._judged(row)
        return verdict

    def stays(self, row: int) -> bool:
        """Say whether work that stuck to a node may stay: on a draining one too."""
        snapshot = self.snapshot
        if snapshot.admin[row] not in _STAYING or snapshot.states[row] in GONE:
            return False
        return snapshot.slots[row] > 0 and all(
            value is None or rule.passes(value)
            for rule in self._rules
            for value in (rule.value(row),)
        )

    def _judged(self, row: int) -> Verdict:
        snapshot = self.snapshot
        bar = barred(snapshot, row)
        if bar is not None:
            return bar
        if snapshot.states[row] is State.STALE:
            return silenced(snapshot, row)
        name = snapshot.names[row]
        for rule in self._rules:
            value = rule.value(row)
            if value is None:
                return Miss("unread", 0, "have no reading for a need", name, 1)
            if not rule.passes(value):
                return missed(snapshot, rule, row, value)
        shared = self._shared(row)
        if shared:
            fault = "share more risk groups with the node failed over from"
            return Miss("failover_groups", 0, fault, name, shared)
        return True
