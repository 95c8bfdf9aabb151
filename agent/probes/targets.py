"""Who is pinged: HOST or HOST:PORT as people write it, and its addresses."""

import re
import socket
from typing import NamedTuple

# What answers, if only by refusing, on most hosts that let anything through.
DEFAULT_PORT = 443

_TARGET = re.compile(
    r"\[(?P<v6>[0-9A-Fa-f:.]+(?:%[^\]\s]+)?)\](?::(?P<v6port>\d{1,5}))?"
    r"|(?P<bare6>[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[^\s:\]]+)?)"
    r"|(?P<name>[^\s:\[\]/@]{1,253})(?::(?P<port>\d{1,5}))?"
)


class Target(NamedTuple):
    """Where to ping. The port is for TCP, where ICMP is not to be had."""

    host: str
    port: int = DEFAULT_PORT


class Address(NamedTuple):
    """One address of a target, as the socket module takes it."""

    family: socket.AddressFamily
    sockaddr: tuple[str, int] | tuple[str, int, int, int]


def parse_target(text: str) -> Target:
    """Return the target of `HOST`, `HOST:PORT`, `[IPv6]:PORT` or `IPv6`.

    ValueError says what was wrong.
    """
    match = _TARGET.fullmatch(text)
    if match is None:
        raise ValueError(
            f"expected HOST, HOST:PORT, [IPv6] or [IPv6]:PORT, got {text!a:.80}"
        )
    port = int(match["v6port"] or match["port"] or DEFAULT_PORT)
    if not 0 < port < 65_536:
        raise ValueError(f"expected a port from 1 to 65535, got {text!a:.80}")
    return Target(match["v6"] or match["bare6"] or match["name"], port)


def as_bytes(host: str) -> str | bytes:
    """Return a name as bytes, unless it needs IDNA, whose tables take memory."""
    return host.encode() if host.isascii() else host


def addresses(target: Target, flags: int = 0) -> list[Address]:
    """Return the first address of each family, in the resolver's order.

    Blocks, except with AI_NUMERICHOST. OSError if there is none;
    UnicodeError for what can't be a name.
    """
    found: dict[socket.AddressFamily, Address] = {}
    for family, _, _, _, sockaddr in socket.getaddrinfo(
        as_bytes(target.host), target.port, type=socket.SOCK_STREAM, flags=flags
    ):
        if family in (socket.AF_INET, socket.AF_INET6) and isinstance(sockaddr[0], str):
            found.setdefault(family, Address(family, sockaddr))
    return list(found.values())
