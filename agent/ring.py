"""Frames not yet acknowledged, oldest first, bounded in bytes.

While the collector is away the ring fills; past its bound the oldest go and
are counted, and the count travels in the next frame: nothing is lost in
silence. An acknowledged frame is forgotten.
"""

from collections import deque
from typing import NamedTuple

# What a frame costs beside its own bytes: the bytes object's header, the
# tuple and the integer (measured with sys.getsizeof, CPython 3.11).
OVERHEAD_BYTES = 33 + 56 + 32


class Held(NamedTuple):
    """An encoded frame and its sequence."""

    seq: int
    data: bytes


class Ring:
    """A queue that forgets its oldest rather than grow."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held: deque[Held] = deque()
        self.bytes = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._held)

    def push(self, seq: int, data: bytes) -> None:
        """Keep a frame, at the cost of the oldest if need be."""
        self._held.append(Held(seq, data))
        self.bytes += len(data) + OVERHEAD_BYTES
        self._shrink()

    def resize(self, limit_bytes: int) -> None:
        """Keep to another bound, at the cost of the oldest if need be."""
        self._limit_bytes = limit_bytes
        self._shrink()

    def _shrink(self) -> None:
        while self.bytes > self._limit_bytes and len(self._held) > 1:
            self._forget()
            self.dropped += 1

    def acknowledge(self, seq: int) -> None:
        """Forget every frame up to and with this sequence."""
        while self._held and self._held[0].seq <= seq:
            self._forget()

    def after(self, seq: int, most: int) -> list[Held]:
        """Return at most so many frames past a sequence, oldest first."""
        # From the back: what is unsent is nearly always the newest few.
        newer = 0
        for held in reversed(self._held):
            if held.seq <= seq:
                break
            newer += 1
        start = len(self._held) - newer
        return [self._held[i] for i in range(start, start + min(newer, most))]

    def _forget(self) -> None:
        self.bytes -= len(self._held.popleft().data) + OVERHEAD_BYTES
