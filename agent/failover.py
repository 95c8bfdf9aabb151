"""Which of several collectors to dial: the one that answers, until it fails.

In the order of the settings, each agent from the first. Only a whole round of
failures counts as one for the back-off: the next collector is dialled at once.
"""

from collections.abc import Sequence

from .settings import Address


class Failover:
    """The collectors of one agent."""

    def __init__(self, collectors: Sequence[Address]) -> None:
        self._collectors = collectors
        self._at = 0
        self._tried = 0

    @property
    def current(self) -> Address:
        """The one to dial, or connected to."""
        return self._collectors[self._at]

    def failed(self, *, good: bool) -> bool:
        """Go on to the next one; return whether all have been tried in vain.

        `good`: the connection that ended had held for a while. One that is
        welcomed and dropped at once counts as a failure like any other.
        """
        if good:
            self._tried = 0
        self._at = (self._at + 1) % len(self._collectors)
        self._tried += 1
        if self._tried < len(self._collectors):
            return False
        self._tried = 0
        return True
