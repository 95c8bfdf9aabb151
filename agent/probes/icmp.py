"""ICMP echo packets, and the sockets that all targets are pinged by.

Source: RFC 792, RFC 4443. One socket a family and kind serves every target:
which answer is whose is told by the sequence. So that the answers to other
processes' pings are not taken, they must come from the address asked and carry
our identifier (over a datagram socket the kernel's) and our random bytes.
"""

import errno
import os
import socket
import struct
from array import array
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from trimtab.agent.errors import Unsupported
from trimtab.agent.loop import READ, Loop
from trimtab.wire import Method

from .targets import Address

_HEADER = struct.Struct("!BBHHH")  # type, code, checksum, identifier, sequence
_ECHO: dict[int, tuple[int, int]] = {
    socket.AF_INET: (8, 0),
    socket.AF_INET6: (128, 129),
}  # request, reply
TOKEN_BYTES = 16
READ_BYTES = 2048
_DENIED = (errno.EPERM, errno.EACCES)

# A classic BPF program (linux/filter.h): instructions of code, two jumps and
# an operand.
_SO_ATTACH_FILTER = 26
_INSTRUCTION = struct.Struct("=HBBI")
_LDX_HEADER, _LD_BYTE, _LD_HALF = 0xB1, 0x50, 0x48  # 4*([k]&0xf), [x+k], [x+k]
_LDX, _JUMP_IF_EQUAL, _RETURN = 0x01, 0x15, 0x06

_MEND = {
    Method.ICMP_DATAGRAM: "widen the sysctl net.ipv4.ping_group_range to the agent's"
    " group",
    Method.ICMP_RAW: "give the agent CAP_NET_RAW",
}


class Reply(NamedTuple):
    """What an echo reply says of the request that it answers."""

    ident: int
    sequence: int
    token: bytes


def checksum(data: bytes) -> int:
    """Return the internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def request(family: int, ident: int, sequence: int, token: bytes) -> bytes:
    """Return an echo request. The kernel sums IPv6's, and a datagram's own."""
    kind = _ECHO[family][0]
    summed = 0
    if family == socket.AF_INET:
        summed = checksum(_HEADER.pack(kind, 0, 0, ident, sequence) + token)
    return _HEADER.pack(kind, 0, summed, ident, sequence) + token


def parse_reply(packet: bytes, family: int, *, raw: bool) -> Reply | None:
    """Return what an echo reply says; None for any other packet.

    A raw IPv4 socket gives the IP header too.
    """
    if raw and family == socket.AF_INET:
        if not packet:
            return None
        packet = packet[(packet[0] & 0x0F) * 4 :]
    if len(packet) < _HEADER.size:
        return None
    kind, code, _, ident, sequence = _HEADER.unpack_from(packet)
    if (kind, code) != (_ECHO[family][1], 0):
        return None
    return Reply(ident, sequence, packet[_HEADER.size :])


class Asked(NamedTuple):
    """A request that is not answered yet."""

    method: Method
    host: str
    answered: Callable[[], None]


class Sockets:
    """One socket a family and kind, opened when it is first wanted."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._opened: dict[tuple[int, Method], socket.socket] = {}
        self._asked: dict[int, Asked] = {}  # by sequence
        self._sequence = 0
        self._ident = int.from_bytes(os.urandom(2), "big")
        self._token = os.urandom(TOKEN_BYTES)

    def ask(
        self, address: Address, method: Method, answered: Callable[[], None]
    ) -> int:
        """Send an echo request; return its sequence, for `forget`.

        Unsupported if no such socket is to be had, OSError if it can't be sent.
        """
        opened = self._socket(address.family, method)
        self._sequence = (self._sequence + 1) & 0xFFFF
        packet = request(address.family, self._ident, self._sequence, self._token)
        host = address.sockaddr[0]
        opened.sendto(packet, (host, 0, *address.sockaddr[2:]))
        self._asked[self._sequence] = Asked(method, _bare(host), answered)
        return self._sequence

    def forget(self, sequence: int) -> None:
        """Take no answer to this request any more."""
        self._asked.pop(sequence, None)

    def close(self) -> None:
        """Give the sockets back; asking afterwards opens new ones."""
        for opened in self._opened.values():
            self._loop.ignore(opened.fileno())
            opened.close()
        self._opened.clear()
        self._asked.clear()

    def _socket(self, family: int, method: Method) -> socket.socket:
        opened = self._opened.get((family, method))
        if opened is None:
            opened = self._opened[family, method] = _open(family, method, self._ident)
            call = partial(self._read, opened, family, method)
            self._loop.watch(opened.fileno(), READ, call)
        return opened

    def _read(self, opened: socket.socket, family: int, method: Method) -> None:
        """Take what has come. What is left is read when the loop calls again."""
        try:
            while True:
                packet, peer = opened.recvfrom(READ_BYTES)
                self._take(packet, peer[0], family, method)
                if not self._asked:
                    return
        except OSError:  # nothing more, or the fate of an earlier packet
            return

    def _take(self, packet: bytes, host: str, family: int, method: Method) -> None:
        reply = parse_reply(packet, family, raw=method is Method.ICMP_RAW)
        if reply is None or reply.token != self._token:
            return
        if method is Method.ICMP_RAW and reply.ident != self._ident:
            return
        asked = self._asked.get(reply.sequence)
        if asked is not None and asked.method is method and asked.host == _bare(host):
            del self._asked[reply.sequence]
            asked.answered()


def _bare(host: str) -> str:
    """Return the address without the link that a link-local one names."""
    return host.partition("%")[0]


def _open(family: int, method: Method, ident: int) -> socket.socket:
    raw = method is Method.ICMP_RAW
    kind = socket.SOCK_RAW if raw else socket.SOCK_DGRAM
    ipv6 = family == socket.AF_INET6
    protocol = socket.IPPROTO_ICMPV6 if ipv6 else socket.IPPROTO_ICMP
    try:
        opened = socket.socket(family, kind, protocol)
    except OSError as exc:
        denied = exc.errno in _DENIED
        why = "no permission for such a socket" if denied else exc.strerror
        raise Unsupported(f"{method.name}: {why}", _MEND[method]) from exc
    opened.setblocking(False)
    if raw:
        _filter(opened, family, ident)
    return opened


def _filter(opened: socket.socket, family: int, ident: int) -> None:
    """Let the kernel keep back all but replies of our identifier.

    A raw socket gets a copy of every ICMP packet, and each would wake us.
    """
    skip = (_LDX_HEADER, 0, 0, 0) if family == socket.AF_INET else (_LDX, 0, 0, 0)
    program = array(
        "B",
        b"".join(
            _INSTRUCTION.pack(*instruction)
            for instruction in (
                skip,  # over the IP header, which IPv6 does not give
                (_LD_BYTE, 0, 0, 0),
                (_JUMP_IF_EQUAL, 0, 3, _ECHO[family][1]),
                (_LD_HALF, 0, 0, 4),
                (_JUMP_IF_EQUAL, 0, 1, ident),
                (_RETURN, 0, 0, READ_BYTES),
                (_RETURN, 0, 0, 0),
            )
        ),
    )
    address, size = program.buffer_info()
    pointer = struct.pack("HP", size // _INSTRUCTION.size, address)
    with suppress(OSError):  # not Linux: more packets to look at
        opened.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, pointer)
