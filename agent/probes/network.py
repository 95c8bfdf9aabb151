"""Network interfaces: which of them carry this host's traffic, and how fast.

Physical ones, which sysfs class/net gives a `device`; where there are none, as
in a container, those of a default route. Bridges, VLANs, bonds, veths and
tunnels pass on what the others carry, and would count it twice, as would a
physical one that another stands on (a virtual function behind its hypervisor's
interface). Speed: sysfs speed in Mbit/s; virtual ones often have none.

procfs `net` is a link to the reader's own network namespace. That of PID 1 is
read instead, as it is the host's or container's whose procfs this is, even if
the agent reads it from a namespace of its own; `net`, where PID 1 is hidden.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from trimtab.agent.errors import Malformed, Unsupported
from trimtab.agent.host import Source

FOLDER = "class/net"
_UP = 0x0001  # RTF_UP, RTF_REJECT of route.h
_REJECT = 0x0200


class Nic(NamedTuple):
    """One interface."""

    name: str
    up: bool | None  # None: it does not say
    speed_mbit: int | None  # None: unknown, or down


def parse_speed(text: bytes) -> int | None:
    """Return Mbit/s; None for -1 and the like, by which drivers say unknown."""
    word = text.strip()
    if not word.removeprefix(b"-").isdigit():
        raise Malformed(f"expected Mbit/s, got {text[:40]!r}")
    return int(word) if 0 < int(word) < 2**31 else None


def parse_routes(text: bytes) -> frozenset[str]:
    """Return the interfaces of IPv4 default routes of net/route."""
    rows = (line.split() for line in text.splitlines()[1:])
    return frozenset(
        row[0].decode()
        for row in rows
        if len(row) >= 8 and _zero(row[1]) and _zero(row[7]) and _used(row[3])
    )


def parse_routes6(text: bytes) -> frozenset[str]:
    """Return the interfaces of IPv6 default routes of net/ipv6_route."""
    rows = (line.split() for line in text.splitlines())
    return frozenset(
        row[9].decode()
        for row in rows
        if len(row) == 10 and _zero(row[0]) and _zero(row[1]) and _used(row[8])
    )


def _zero(word: bytes) -> bool:
    return not word.strip(b"0")


def _used(flags: bytes) -> bool:
    try:
        return int(flags, 16) & (_UP | _REJECT) == _UP
    except ValueError:
        return False


def proc_net(source: Source, name: str) -> bytes:
    """Return a file of the host's network namespace; errors as for Host.proc."""
    with suppress(Unsupported, OSError):
        return source.proc(f"1/net/{name}")
    return source.proc(f"net/{name}")


def read(source: Source, name: str) -> Nic:
    """Return what sysfs says of an interface; it says nothing while down."""
    up = speed_mbit = None
    with suppress(Unsupported, OSError):
        up = source.look(f"{FOLDER}/{name}/operstate").strip() != b"down"
    with suppress(Unsupported, Malformed, OSError):
        if up is not False:
            speed_mbit = parse_speed(source.look(f"{FOLDER}/{name}/speed"))
    return Nic(name, up, speed_mbit)


def choose(source: Source) -> tuple[Nic, ...]:
    """Return the interfaces that carry this host's traffic; none if none does."""
    physical = [
        name for name in source.names(FOLDER) if source.has(f"{FOLDER}/{name}/device")
    ]
    beneath = {
        other.removeprefix("lower_")
        for name in physical
        for other in source.names(f"{FOLDER}/{name}")
        if other.startswith("lower_")
    }
    names = [name for name in physical if name not in beneath]
    return tuple(read(source, name) for name in names or _routed(source))


def _routed(source: Source) -> Iterable[str]:
    found: set[str] = set()
    with suppress(Unsupported, Malformed, OSError):
        found |= parse_routes(proc_net(source, "route"))
    with suppress(Unsupported, Malformed, OSError):
        found |= parse_routes6(proc_net(source, "ipv6_route"))
    return sorted(found - {"lo"})
