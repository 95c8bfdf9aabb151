"""Configured targets, pinged each 10 s by sockets in the same loop.

ICMP echo (RFC 792, RFC 4443) over a datagram socket where ping_group_range
allows it, else over a raw one where CAP_NET_RAW does, else a TCP connection
that is opened and closed; refusing it is an answer too. Each probe has its
own socket and is over at its deadline, so nothing piles up.
"""

import errno
import os
import selectors
import socket
import struct
from contextlib import suppress

from trimtab.wire import Hole, Link, Method, State

from ..probes.round_trips import RoundTrips
from ..probes.targets import Address, Target, parse_target
from .lookup import Lookup, NoAddress, numeric

PING_S = 10.0
DEADLINE_S = 2.0
PATIENCE = 3  # probes without an answer before another way is tried

_HEADER = struct.Struct("!BBHHH")  # type, code, checksum, id, sequence
_ECHO: dict[int, tuple[int, int]] = {
    socket.AF_INET: (8, 0),
    socket.AF_INET6: (128, 129),
}  # request, reply
_PAYLOAD = b"trimtab!" * 4
METHODS = (Method.ICMP_DATAGRAM, Method.ICMP_RAW, Method.TCP_CONNECT)


def checksum(data: bytes) -> int:
    """Return the internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def request(family: int, ident: int, sequence: int) -> bytes:
    """Return an echo request. The kernel sums IPv6's, and a datagram's id."""
    kind = _ECHO[family][0]
    header = _HEADER.pack(kind, 0, 0, ident, sequence)
    if family == socket.AF_INET6:
        return header + _PAYLOAD
    summed = checksum(header + _PAYLOAD)
    return _HEADER.pack(kind, 0, summed, ident, sequence) + _PAYLOAD


def is_reply(
    packet: bytes, family: int, ident: int | None, sequence: int, *, raw: bool
) -> bool:
    """Whether a packet answers the request; `ident` None: the kernel's own."""
    if raw and family == socket.AF_INET:  # comes with its IP header
        if not packet:
            return False
        packet = packet[(packet[0] & 0x0F) * 4 :]
    if len(packet) < _HEADER.size:
        return False
    kind, code, _, got_ident, got_sequence = _HEADER.unpack_from(packet)
    return (
        (kind, code) == (_ECHO[family][1], 0)
        and got_sequence == sequence
        and (ident is None or got_ident == ident)
    )


class Pinger:
    """One target. Times are monotonic seconds."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.method: Method | None = None
        self.wants = selectors.EVENT_READ
        self.sockets = 0  # opened so far: a new one may get an old one's number
        self.due_at = 0.0
        self._parsed: Target = parse_target(target)
        self._trips = RoundTrips(round(DEADLINE_S * 1e6))
        self._ways = list(METHODS)
        self._address: Address | None = None
        self._lookup: Lookup | None = None
        self._socket: socket.socket | None = None
        self._ident = os.getpid() & 0xFFFF
        self._sequence = 0
        self._sent_us = 0
        self._unanswered = 0
        self._failed = False

    def fileno(self) -> int:
        """Return what to wait on; -1: nothing now."""
        if self._lookup is not None:
            return self._lookup.fileno()
        return -1 if self._socket is None else self._socket.fileno()

    def turn(self, now: float) -> None:
        """Begin a probe when one is due; give up one that is past its deadline."""
        if now < self.due_at:
            return
        if self._lookup is not None or self._socket is not None:
            self._ended(None, now)
            return
        if self._address is None:
            if found := numeric(self._parsed):
                self._address = found[0]
            else:
                try:
                    self._lookup = Lookup(self._parsed)
                except OSError:
                    self._failed = True
                    self._ended(None, now)
                    return
                self.sockets += 1
                self.wants = selectors.EVENT_READ
                self.due_at = now + DEADLINE_S
                return
        self._probe(now)

    def ready(self, now: float) -> None:
        """Take what the descriptor has."""
        if self._lookup is not None:
            self._looked_up(now)
        elif self._socket is not None:
            self._answered(self._socket, now)

    def close(self) -> None:
        """Give back what is open."""
        if self._lookup is not None:
            self._lookup.close()
            self._lookup = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def link(self, peer: int) -> Link:
        """Return the figures for link `peer` of a frame."""
        return self._trips.link(peer, self.method)

    def holes(self, peer: int, now: float) -> tuple[Hole, ...]:
        """Return why they are not fresh."""
        if self._failed:
            return (Hole("link.rtt", State.ERROR, None, peer),)
        return self._trips.holes(peer, round(now * 1e6))

    def _looked_up(self, now: float) -> None:
        if self._lookup is None:
            return
        try:
            found = self._lookup.read()
        except NoAddress:
            self._lookup = None
            self._failed = True
            self._ended(None, now)
            return
        if found is not None:
            self._lookup = None
            self._address = found[0] if found else None
            if self._address is None:
                self._ended(None, now)
            else:
                self._probe(now)

    def _probe(self, now: float) -> None:
        """Send by the first way that this host allows."""
        if self._address is None:
            return
        self._sequence = (self._sequence + 1) & 0xFFFF
        for method in tuple(self._ways):
            try:
                self._socket = self._opened(method, self._address)
                self.sockets += 1
            except OSError as exc:
                if exc.errno in (errno.EPERM, errno.EACCES, errno.EPROTONOSUPPORT):
                    self._ways.remove(method)  # this host never allows it
                continue
            if method is not self.method:  # round trips of two kinds don't mix
                self._trips = RoundTrips(self._trips.deadline_us)
            self.method, self._failed = method, False
            self._sent_us = round(now * 1e6)
            self.due_at = now + DEADLINE_S
            return
        self._failed = True
        self._ended(None, now)

    def _opened(self, method: Method, address: Address) -> socket.socket:
        """Return a socket with the probe on its way."""
        if method is Method.TCP_CONNECT:
            opened = socket.socket(address.family, socket.SOCK_STREAM)
            opened.setblocking(False)
            status = opened.connect_ex(address.sockaddr)
            if status not in (0, errno.EINPROGRESS, errno.ECONNREFUSED):
                opened.close()
                raise OSError(status, os.strerror(status))
            self.wants = selectors.EVENT_WRITE
            return opened
        protocol = (
            socket.IPPROTO_ICMPV6
            if address.family == socket.AF_INET6
            else socket.IPPROTO_ICMP
        )
        raw = method is Method.ICMP_RAW
        kind = socket.SOCK_RAW if raw else socket.SOCK_DGRAM
        opened = socket.socket(address.family, kind, protocol)
        try:
            opened.setblocking(False)
            packet = request(address.family, self._ident, self._sequence)
            opened.sendto(packet, (address.sockaddr[0], 0, *address.sockaddr[2:]))
        except OSError:
            opened.close()
            raise
        self.wants = selectors.EVENT_READ
        return opened

    def _answered(self, waiting: socket.socket, now: float) -> None:
        rtt_us = max(0, round(now * 1e6) - self._sent_us)
        if self.method is Method.TCP_CONNECT:
            status = waiting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            good = status in (0, errno.ECONNREFUSED)
            self._ended(rtt_us if good else None, now)
            return
        with suppress(BlockingIOError, ConnectionError):
            packet, peer = waiting.recvfrom(2048)
            raw = self.method is Method.ICMP_RAW
            ident = self._ident if raw else None
            if self._address is not None and peer[0] == self._address.sockaddr[0]:
                family = self._address.family
                if is_reply(packet, family, ident, self._sequence, raw=raw):
                    self._ended(rtt_us, now)

    def _ended(self, rtt_us: int | None, now: float) -> None:
        self.close()
        self.due_at = now + PING_S
        self._unanswered = 0 if rtt_us is not None else self._unanswered + 1
        if self.method is not None:
            self._trips.record(rtt_us, round(now * 1e6))
        if self._unanswered and self._unanswered % PATIENCE == 0:
            self._address = None  # it may have moved
            if len(self._ways) > 1:  # or answer another way
                self._ways.append(self._ways.pop(0))
