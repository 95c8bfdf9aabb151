"""Round trips to one peer: the window they are judged over, and its figures.

Jitter is the interarrival estimator of RFC 3550, 6.4.1, applied to round
trips in order of arrival, so it mixes both directions and the peer's own
scheduling: never call it one-way. It needs about 16 answers to react and
hides bursts; the 95th percentile over the minimum shows those.
Loss is the share of the window not answered by its deadline (RFC 7680); an
answer after that does not undo it, and a probe still within it is neither.
"""

import math
from bisect import bisect_left, insort
from collections import deque

from trimtab.wire import Hole, Link, Method, State

WINDOW = 60
# RFC 3550, 6.4.1: gain 1/16 reduces noise and still converges reasonably fast.
JITTER_GAIN = 1 / 16


def jitter(before: float, previous_us: int, rtt_us: int) -> float:
    """Return the estimate after one more round trip, in microseconds."""
    return before + (abs(rtt_us - previous_us) - before) * JITTER_GAIN


def nearest_rank(ordered: list[int], share: float) -> int:
    """Return the smallest value that `share` of them do not exceed."""
    return ordered[math.ceil(share * len(ordered)) - 1]


class RoundTrips:
    """The last WINDOW probes of one peer. Times are a monotonic clock's."""

    def __init__(self, deadline_us: int = 2_000_000) -> None:
        self.deadline_us = deadline_us
        self._pending: dict[int, int] = {}  # by ident, in order of sending
        self._window: deque[int | None] = deque()
        self._ordered: list[int] = []  # those of the window that were answered
        self._jitter_us: float | None = None
        self._previous_us: int | None = None
        self._answered_at_us = 0

    def sent(self, ident: int, now_us: int) -> None:
        """Note a probe on its way. An ident is not used again while pending."""
        self.expire(now_us)
        self._pending[ident] = now_us

    def answered(self, ident: int, now_us: int) -> int | None:
        """Return the round trip in microseconds.

        None for an answer that counts for nothing: to no probe of ours, a
        second time, or past the deadline.
        """
        self.expire(now_us)
        sent_us = self._pending.pop(ident, None)
        if sent_us is None:
            return None
        rtt_us = max(0, now_us - sent_us)
        self.record(rtt_us, now_us)
        return rtt_us

    def expire(self, now_us: int) -> None:
        """Count as lost what is past its deadline."""
        while self._pending:
            ident, sent_us = next(iter(self._pending.items()))
            if now_us - sent_us < self.deadline_us:
                return
            del self._pending[ident]
            self.record(None, now_us)

    def forget_pending(self) -> None:
        """Drop probes that can't be answered any more: their connection ended."""
        self._pending.clear()

    def record(self, rtt_us: int | None, now_us: int) -> None:
        """Take a finished probe: its round trip, or None for lost."""
        self._window.append(rtt_us)
        if len(self._window) > WINDOW:
            oldest_us = self._window.popleft()
            if oldest_us is not None:
                del self._ordered[bisect_left(self._ordered, oldest_us)]
        if rtt_us is None:
            return
        insort(self._ordered, rtt_us)
        if self._previous_us is not None:
            self._jitter_us = jitter(self._jitter_us or 0.0, self._previous_us, rtt_us)
        self._previous_us = rtt_us
        self._answered_at_us = now_us

    def link(
        self, peer: int, method: Method | None, retransmits: int | None = None
    ) -> Link:
        """Return the figures of the window.

        `rtt_us` is of the latest answer in it, however old: see `holes`. With
        no answer in it, all are None but the loss. TCP hides loss, so there
        is none by ECHO; `retransmits` are of the last interval.
        """
        ordered = self._ordered
        loss = None
        if self._window and method is not Method.ECHO:
            loss = 1.0 - len(ordered) / len(self._window)
        if not ordered:
            return Link(peer, method, loss=loss, retransmits=retransmits)
        return Link(
            peer=peer,
            method=method,
            rtt_us=self._previous_us,
            rtt_min_us=ordered[0],
            rtt_p95_us=nearest_rank(ordered, 0.95),
            jitter_us=None if self._jitter_us is None else round(self._jitter_us),
            loss=loss,
            retransmits=retransmits,
        )

    def holes(self, peer: int, now_us: int) -> tuple[Hole, ...]:
        """Return why round trip and jitter are not fresh; empty if they are.

        STALE, with the age of the latest answer, if the probe finished last
        was lost; ERROR if the whole window was. Before a first probe none.
        """
        if not self._window or self._window[-1] is not None:
            return ()
        if not self._ordered:
            return (Hole("link.rtt", State.ERROR, None, peer),)
        age_ms = max(0, now_us - self._answered_at_us) // 1000
        stale = (Hole("link.rtt", State.STALE, age_ms, peer),)
        if self._jitter_us is None:
            return stale
        return (*stale, Hole("link.jitter", State.STALE, age_ms, peer))
