"""What the kernel knows of a TCP connection: its round trip, its repeats.

Source: getsockopt TCP_INFO, struct tcp_info of linux/tcp.h. Its fields never
moved, only more were appended; a shorter answer (gVisor, kernels before 2.6)
lacks what we want. Cost: one system call on a socket that is there anyway.
"""

import errno
import socket
import struct
import sys
from typing import NamedTuple, Protocol

from trimtab.agent.errors import Unsupported

# Eight bytes of flags, then 32-bit words: rtt the 16th, total_retrans the 24th.
_RTT = struct.Struct("=II")
_RTT_OFFSET = 68
_RETRANS = struct.Struct("=I")
_RETRANS_OFFSET = 100
LEAST_BYTES = _RETRANS_OFFSET + _RETRANS.size
_NEVER = (errno.ENOPROTOOPT, errno.EOPNOTSUPP, errno.EINVAL)


class Options(Protocol):
    """A connected socket."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        """Return the option's bytes."""


class TcpInfo(NamedTuple):
    """Of one connection."""

    rtt_us: int  # smoothed
    rttvar_us: int  # mean deviation
    retransmits: int  # segments since it was made


def parse(data: bytes) -> TcpInfo:
    """Return the fields; Unsupported if the kernel gives too few."""
    if len(data) < LEAST_BYTES:
        raise Unsupported(f"TCP_INFO of {len(data)} bytes, not {LEAST_BYTES}")
    rtt_us, rttvar_us = _RTT.unpack_from(data, _RTT_OFFSET)
    (retransmits,) = _RETRANS.unpack_from(data, _RETRANS_OFFSET)
    return TcpInfo(rtt_us, rttvar_us, retransmits)


def retransmitted(before: int | None, after: int) -> int | None:
    """Return the segments sent again in between, for `Link.retransmits`.

    None is "no reading": the first look, or another connection since.
    """
    if before is None or after < before:
        return None
    return after - before


def read(connection: Options) -> TcpInfo:
    """Return the connection's figures now.

    Unsupported off Linux or on a socket that is not TCP; OSError if closed.
    """
    if sys.platform != "linux":
        raise Unsupported("TCP_INFO is read on Linux only")
    try:
        data = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except OSError as exc:
        if exc.errno in _NEVER:
            raise Unsupported(f"no TCP_INFO on this socket: {exc}") from exc
        raise
    return parse(data)
