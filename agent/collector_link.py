"""Link 0, to the collector: round trips and repeats on the connection itself.

Measured by an echo of our own with each frame, which answers in order with the
frames, or else read out of the kernel (TCP_INFO), which costs no packet. TCP
hides loss, so there is none of it here, and what only a series of echoes can
tell (least, 95th percentile) is missing from the kernel's word.
"""

import socket
import time

from trimtab.wire import Echo, Hole, Link, Method, State, encode

from .errors import Unsupported
from .probes import tcp_info
from .probes.round_trips import RoundTrips

_NO_LOSS = (Hole("link.loss", State.UNSUPPORTED, None, 0),)


class Kernel:
    """The connection as its own kernel sees it."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._info: tcp_info.TcpInfo | None = None
        self._retransmits: int | None = None  # total, of this connection
        self.clock_offset_ms: int | None = None  # our wall clock minus theirs

    def connected(self, over: socket.socket | None) -> None:
        """Measure this connection from now on."""
        self._socket, self._retransmits = over, None

    def lost(self) -> None:
        """Forget what can't be answered any more."""
        self._socket = self._info = None

    def question(self) -> bytes:
        """Return what to send with a frame; nothing here."""
        return b""

    def answered(self, answer: Echo, at_s: float) -> None:
        """Take the answer to a question; nothing was asked here."""

    def look(self) -> int | None:
        """Return the round trip as of now, in µs, and keep what `figures` tells."""
        self._info = None
        try:
            if self._socket is not None:
                self._info = tcp_info.read(self._socket)
        except (Unsupported, OSError):
            return None
        return None if self._info is None else self._info.rtt_us

    def figures(self) -> tuple[Link, tuple[Hole, ...]]:
        """Return the link of a frame, and what of it is missing."""
        info = self._info
        if info is None:
            if self._socket is None:
                return Link(0, Method.TCP_INFO), _NO_LOSS
            rtt = Hole("link.rtt", State.UNSUPPORTED, None, 0)
            return Link(0, Method.TCP_INFO), (rtt, *_NO_LOSS)
        link = Link(
            peer=0,
            method=Method.TCP_INFO,
            rtt_us=info.rtt_us,
            jitter_us=info.rttvar_us,
            retransmits=self._repeats(),
            tcp_rtt_us=info.rtt_us,
            tcp_rttvar_us=info.rttvar_us,
        )
        return link, _NO_LOSS

    def _repeats(self) -> int | None:
        """Return the segments sent again since the last frame."""
        if self._info is None:
            return None
        before, self._retransmits = self._retransmits, self._info.retransmits
        return tcp_info.retransmitted(before, self._retransmits)


class Echoes(Kernel):
    """The same with an echo of our own, and the collector's clock in its answer."""

    def __init__(self) -> None:
        super().__init__()
        self._trips = RoundTrips()
        self._asked = 0

    def lost(self) -> None:
        """Forget what can't be answered any more."""
        super().lost()
        self._trips.forget_pending()
        self.clock_offset_ms = None

    def question(self) -> bytes:
        """Return an echo request, which counts as sent now."""
        now_us = time.monotonic_ns() // 1000
        self._asked += 1
        self._trips.sent(self._asked, now_us)
        return encode(Echo(reply=False, ident=self._asked, stamp_us=now_us))

    def answered(self, answer: Echo, at_s: float) -> None:
        """Take the answer to a question; `at_s` is when it was there to read.

        Wall clocks are compared as NTP does: theirs was read halfway (RFC 5905).
        """
        rtt_us = self._trips.answered(answer.ident, round(at_s * 1e6))
        if answer.unix_ms is not None and rtt_us is not None:
            halfway_ms = time.time_ns() // 1_000_000 - rtt_us // 2000
            self.clock_offset_ms = halfway_ms - answer.unix_ms

    def figures(self) -> tuple[Link, tuple[Hole, ...]]:
        """Return the link of a frame, and what of it is not fresh."""
        now_us = time.monotonic_ns() // 1000
        self._trips.expire(now_us)
        link = self._trips.link(0, Method.ECHO, self._repeats())
        return link, self._trips.holes(0, now_us)
