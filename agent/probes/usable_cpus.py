"""Usable CPUs, for the probes that set something against them.

They come and go seldom, so they are counted (inventory.py) now and then only.
"""

from trimtab.agent import inventory
from trimtab.agent.host import Source

EVERY_US = 10_000_000


class UsableCpus:
    """The number, kept for a while."""

    def __init__(self) -> None:
        self._cpus: int | None = None
        self._due_us = 0

    def count(self, source: Source, now_us: int) -> int:
        """Return how many CPUs tasks may use; Unsupported if nothing says."""
        if self._cpus is None or now_us >= self._due_us:
            self._cpus = inventory.usable_cpus(source)
            self._due_us = now_us + EVERY_US
        return self._cpus
