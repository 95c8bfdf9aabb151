"""Round trips to one configured target, by ICMP or, failing that, by TCP.

ICMP echo over a datagram socket needs no privilege where ping_group_range
allows it; a raw socket needs CAP_NET_RAW; else a TCP connection is opened and
closed, and refusing it is an answer too. Where ICMP can be sent but is never
answered, TCP is tried as well, and so is each family of the target's name.

A survey tries these routes in order until one answers, which is then kept.
It is repeated after PATIENCE probes without an answer, every SURVEY_EVERY of
them from there on, and every PREFER_AGAIN_S while the route is not the first
choice. A survey counts as one probe: answered, or lost by every route.

icmplib makes and parses the packets; it reads the wall clock, so the time
is taken here. Answers of a peer later than the deadline are left out.
"""

import asyncio
import socket
import time
from contextlib import suppress
from typing import NamedTuple

from trimtab.agent.errors import Contained, Unsupported
from trimtab.wire import Hole, Link, Method, State

from .resolve import Resolver
from .round_trips import RoundTrips
from .targets import Address, Target, parse_target

METHODS = (Method.ICMP_DATAGRAM, Method.ICMP_RAW, Method.TCP_CONNECT)
PATIENCE = 3
SURVEY_EVERY = 10
PREFER_AGAIN_S = 600.0
RESOLVE_S = 5.0

# icmplib counts its own time-out on the wall clock: out of reach, so that no
# step of that clock ends a wait, which asyncio.timeout does.
_NEVER_S = 1e8

_MEND = {
    Method.ICMP_DATAGRAM: "widen the sysctl net.ipv4.ping_group_range to the agent's"
    " group",
    Method.ICMP_RAW: "give the agent CAP_NET_RAW",
}


class Route(NamedTuple):
    """One way to the target."""

    method: Method
    address: Address


class NoAnswer(Exception):
    """Nothing came back by this route in time; says what did happen."""


async def icmp(address: Address, method: Method, deadline_s: float) -> int:
    """Return the round trip of one ICMP echo, in microseconds.

    Unsupported if no such socket is to be had, NoAnswer if nothing came back.
    """
    # Here, not above: most agents have no targets and need none of it.
    from icmplib import (
        AsyncSocket,
        ICMPLibError,
        ICMPRequest,
        ICMPSocketError,
        ICMPv4Socket,
        ICMPv6Socket,
        SocketPermissionError,
    )
    from icmplib.utils import unique_identifier

    kind = ICMPv6Socket if address.family == socket.AF_INET6 else ICMPv4Socket
    try:
        opened = kind(privileged=method is Method.ICMP_RAW)
    except ICMPSocketError as exc:
        denied = isinstance(exc, SocketPermissionError)
        why = "no permission for such a socket" if denied else str(exc)
        raise Unsupported(f"{method.name}: {why}", _MEND[method]) from exc
    # A socket a probe: one kept open would gather every other host's answers.
    with AsyncSocket(opened) as sock:
        ident = unique_identifier()
        request = ICMPRequest(_literal(address), id=ident, sequence=1)
        try:
            async with asyncio.timeout(deadline_s):
                started_ns = time.monotonic_ns()
                sock.send(request)
                reply = await sock.receive(request, _NEVER_S)
                rtt_us = (time.monotonic_ns() - started_ns) // 1000
            reply.raise_for_status()
        except TimeoutError as exc:
            raise NoAnswer(f"{method.name}: nothing within {deadline_s:g} s") from exc
        except (ICMPLibError, OSError) as exc:
            raise NoAnswer(f"{method.name}: {exc}") from exc
    return rtt_us


async def tcp_connect(address: Address, deadline_s: float) -> int:
    """Return the round trip of one TCP connection, in microseconds.

    A peer that refuses has answered. Unsupported without the family, NoAnswer
    if nothing came back.
    """
    loop = asyncio.get_running_loop()
    try:
        opened = socket.socket(address.family, socket.SOCK_STREAM)
    except OSError as exc:
        raise Unsupported(f"TCP_CONNECT: {exc}") from exc
    with opened as sock:
        sock.setblocking(False)
        try:
            async with asyncio.timeout(deadline_s):
                started_ns = time.monotonic_ns()
                with suppress(ConnectionRefusedError):
                    await loop.sock_connect(sock, address.sockaddr)
                rtt_us = (time.monotonic_ns() - started_ns) // 1000
        except TimeoutError as exc:
            raise NoAnswer(f"TCP_CONNECT: nothing within {deadline_s:g} s") from exc
        except OSError as exc:
            raise NoAnswer(f"TCP_CONNECT: {exc}") from exc
    return rtt_us


def _literal(address: Address) -> str:
    """Return the address as icmplib takes it: a link-local one with its link."""
    host, *rest = address.sockaddr
    scope = rest[2] if len(rest) == 3 else 0
    return f"{host}%{scope}" if scope else str(host)


class Pinger:
    """One target, probed for as long as `run` is left to.

    `method` is of the route in use; None before one answered or was at least
    tried. `reason` says why it is not the first choice and `mend` what the
    operator can do about that; `fault` says why the latest probe came to
    nothing. Each is empty where there is nothing to say.
    """

    def __init__(
        self,
        target: str | Target,
        *,
        interval_s: float = 1.0,
        deadline_s: float = 2.0,
        methods: tuple[Method, ...] = METHODS,
    ) -> None:
        """Take a target as parse_target does; ValueError if it is none."""
        self.target = parse_target(target) if isinstance(target, str) else target
        self.method: Method | None = None
        self.reason = ""
        self.mend = ""
        self.fault = ""
        self._interval_s = interval_s
        self._deadline_s = deadline_s
        self._methods = methods
        self._resolver = Resolver(self.target)
        self._trips = RoundTrips(round(deadline_s * 1e6))
        self._route: Route | None = None
        self._reading = True  # the latest probe told something of the target
        self._surveyed_s = 0.0
        self._unanswered = 0  # probes in a row

    def link(self, peer: int) -> Link:
        """Return the figures for link `peer` of a frame; all None if unread."""
        if not self._reading:
            return Link(peer, self.method)
        return self._trips.link(peer, self.method)

    def holes(self, peer: int) -> tuple[Hole, ...]:
        """Return why they are not fresh; ERROR if the target can't be probed."""
        if not self._reading:
            return (Hole("link.rtt", State.ERROR, None, peer),)
        return self._trips.holes(peer, time.monotonic_ns() // 1000)

    async def run(self) -> None:
        """Probe once an interval until cancelled. Raises nothing else."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + self._interval_s
            await self.probe()
            await asyncio.sleep(max(0.0, due_s - loop.time()))

    async def probe(self) -> int | None:
        """Probe once; return the round trip in microseconds, None if lost.

        Takes at most the deadline; for a survey, that of the resolver and of
        each route.
        """
        rtt_us: int | None = None
        with Contained() as ended:
            if self._survey_is_due():
                rtt_us = await self._survey()
            elif self._route is not None:
                rtt_us = await self._try(self._route)
        fault = ended.fault
        self._unanswered = 0 if rtt_us is not None else self._unanswered + 1
        if fault is None and rtt_us is None:
            return None  # without a route, there is nothing until a survey
        self.fault = "" if fault is None else str(fault) or repr(fault)
        self._reading = fault is None or isinstance(fault, NoAnswer)
        if isinstance(fault, Unsupported):
            self._keep(None)
        if self._reading:
            self._trips.record(rtt_us, time.monotonic_ns() // 1000)
        return rtt_us

    def _survey_is_due(self) -> bool:
        if self._unanswered > 0:
            return self._unanswered % SURVEY_EVERY == PATIENCE
        if self._route is None:
            return True
        since_s = time.monotonic() - self._surveyed_s
        return bool(self.reason) and since_s >= PREFER_AGAIN_S

    async def _try(self, route: Route) -> int:
        if route.method is Method.TCP_CONNECT:
            return await tcp_connect(route.address, self._deadline_s)
        return await icmp(route.address, route.method, self._deadline_s)

    async def _addresses(self) -> list[Address]:
        try:
            return await self._resolver.addresses(RESOLVE_S)
        except OSError:
            if self._route is None:
                raise
            return [self._route.address]  # an outage takes name servers along

    async def _survey(self) -> int:
        """Try each route in order, keep the first that answers.

        NoAnswer if none does, Unsupported if none can be tried.
        """
        self._surveyed_s = time.monotonic()
        found = await self._addresses()
        silent: list[Route] = []
        reasons: list[str] = []
        mends: list[str] = []
        for route in (Route(m, a) for m in self._methods for a in found):
            if _sent_already(route, silent):
                continue
            try:
                rtt_us = await self._try(route)
            except NoAnswer as exc:
                silent.append(route)
                reasons.append(f"{route.address.sockaddr[0]}: {exc}")
            except Unsupported as exc:
                reasons.append(str(exc))
                mends.append(exc.mend)
            else:
                self._say(reasons, mends)
                self._keep(route)
                return rtt_us
        self._say(reasons, mends)
        if not silent:
            raise Unsupported(self.reason)
        if self._route not in silent:
            self._keep(silent[0])
        raise NoAnswer(self.reason)

    def _say(self, reasons: list[str], mends: list[str]) -> None:
        self.reason = "; ".join(dict.fromkeys(reasons))
        self.mend = " or ".join(dict.fromkeys(filter(None, mends)))

    def _keep(self, route: Route | None) -> None:
        method = None if route is None else route.method
        if method is not self.method:  # round trips of two kinds don't mix
            self._trips = RoundTrips(self._trips.deadline_us)
        self._route, self.method = route, method


def _sent_already(route: Route, tried: list[Route]) -> bool:
    """Return whether the same packet went unanswered: raw after datagram."""
    return (
        route.method is Method.ICMP_RAW
        and Route(Method.ICMP_DATAGRAM, route.address) in tried
    )
