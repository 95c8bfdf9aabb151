"""Work sent to a node lately: a sum that fades, so that old load is forgotten.

Slower than a queue on purpose: a queue is empty or long from one second to the
next, and who follows it with data sends each conversation to another node.
"""

from math import exp

# Work this old counts 1/e. On the recorded hour of a chat service, 60 to 300 s
# did equally well; 10 s lost a tenth of the hits.
FADES_S = 120.0


class RecentWork:
    """The faded sum, in the unit of the work that is added."""

    __slots__ = ("_at", "_sum")

    def __init__(self, now: float, start: float = 0.0) -> None:
        self._at = now
        self._sum = start

    def add(self, work: float, now: float) -> None:
        """Count work that was sent now."""
        self._sum = self.at(now) + work
        self._at = max(self._at, now)

    def at(self, now: float) -> float:
        """Return what the work sent so far counts now."""
        return self._sum * exp(-max(0.0, now - self._at) / FADES_S)
