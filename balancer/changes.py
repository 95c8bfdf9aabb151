"""What differs between two snapshots of the same nodes.

Most of a large fleet is in a snapshot as it was in the one before, so what was
found out about a node is kept until something it rests on changes.
"""

from collections.abc import Sequence

from .snapshot import Snapshot


def same_nodes(before: Snapshot, after: Snapshot) -> bool:
    """Say whether rows mean the same nodes, of the same size, in both."""
    return (
        after.ids is before.ids
        and after.slots is before.slots
        and after.speed is before.speed
    )


class Changes:
    """The rows that changed, column by column, each looked for once."""

    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        self.before = before
        self.after = after
        self._rows: dict[str, Sequence[int]] = {}

    def rows(self, column: str) -> Sequence[int]:
        """Return the rows at which a column differs."""
        found = self._rows.get(column)
        if found is None:
            found = self._rows[column] = self._differing(column)
        return found

    def _differing(self, column: str) -> Sequence[int]:
        old, new = getattr(self.before, column), getattr(self.after, column)
        if old is new or old == new:
            return ()
        return [row for row, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
