"""Round trips to one configured target, by ICMP or, failing that, by TCP.

ICMP echo over a datagram socket needs no privilege where ping_group_range
allows it; a raw socket needs CAP_NET_RAW; else a TCP connection is opened and
closed, and refusing it is an answer too. Where ICMP can be sent but is never
answered, TCP is tried as well, and so is each family of the target's name.

A survey tries these routes in order until one answers, which is then kept.
It is repeated after PATIENCE probes without an answer, every SURVEY_EVERY of
them from there on, and every PREFER_AGAIN_S while the route is not the first
choice. A survey counts as one probe: answered, or lost by every route. Lookups
and other targets' surveys hold its answer up, so the route that it finds is
asked once more for the figure.

At most one probe is under way. Answers later than the deadline are left out.
"""

import errno
import os
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from trimtab.agent.errors import Unsupported
from trimtab.agent.lookup import Lookup, NoAddress, numeric
from trimtab.agent.loop import READ, WRITE, Loop
from trimtab.wire import Hole, Link, Method, State

from .icmp import Sockets
from .round_trips import RoundTrips
from .targets import Address, Target, parse_target

METHODS = (Method.ICMP_DATAGRAM, Method.ICMP_RAW, Method.TCP_CONNECT)
DEADLINE_S = 2.0
PATIENCE = 3
SURVEY_EVERY = 10
PREFER_AGAIN_S = 600.0
RESOLVE_S = 5.0


class Route(NamedTuple):
    """One way to the target."""

    method: Method
    address: Address


class NoAnswer(Exception):
    """Nothing came back by this route in time; says what did happen."""


class Survey:
    """The routes that are left to try, and what became of those before."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._left = list(routes)
        self.silent: list[Route] = []
        self._reasons: list[str] = []
        self._mends: list[str] = []

    def next(self) -> Route | None:
        """Return the next route to try; None after the last."""
        while self._left:
            route = self._left.pop(0)
            if not _sent_already(route, self.silent):
                return route
        return None

    def failed(self, route: Route, why: Exception) -> None:
        """Note why a route is not the one to keep."""
        if isinstance(why, Unsupported):
            self._reasons.append(str(why))
            self._mends.append(why.mend)
        else:
            self.silent.append(route)
            self._reasons.append(f"{route.address.sockaddr[0]}: {why}")

    def reason(self) -> str:
        """Return why the routes so far were not kept, for people."""
        return "; ".join(dict.fromkeys(self._reasons))

    def mend(self) -> str:
        """Return what the operator can do about it."""
        return " or ".join(dict.fromkeys(filter(None, self._mends)))


class Pinger:
    """One target.

    `method` is of the route in use; None before one answered or was at least
    tried. `reason` says why it is not the first choice and `mend` what the
    operator can do about that; `fault` says why the latest probe came to
    nothing. Each is empty where there is nothing to say.
    """

    def __init__(
        self,
        loop: Loop,
        sockets: Sockets,
        target: str | Target,
        *,
        deadline_s: float = DEADLINE_S,
        methods: tuple[Method, ...] = METHODS,
    ) -> None:
        """Take a target as parse_target does; ValueError if it is none."""
        self.target = parse_target(target) if isinstance(target, str) else target
        self.method: Method | None = None
        self.reason = ""
        self.mend = ""
        self.fault = ""
        self.busy = False  # a probe is under way
        self._loop = loop
        self._sockets = sockets
        self._deadline_s = deadline_s
        self._methods = methods
        self._trips = RoundTrips(round(deadline_s * 1e6))
        self._route: Route | None = None  # the one that is kept
        self._tried: Route | None = None  # the one under way
        self._survey: Survey | None = None
        self._lookup: Lookup | None = None
        self._sequence: int | None = None  # of the ICMP request under way
        self._connecting: socket.socket | None = None
        self._sent_s = 0.0
        self._reading = True  # the latest probe told something of the target
        self._surveyed_s = 0.0
        self._unanswered = 0  # probes in a row

    def link(self, peer: int) -> Link:
        """Return the figures for link `peer` of a frame; all None if unread."""
        if not self._reading:
            return Link(peer, self.method)
        return self._trips.link(peer, self.method)

    def holes(self, peer: int, now_us: int) -> tuple[Hole, ...]:
        """Return why they are not fresh; ERROR if the target can't be probed."""
        if not self._reading:
            return (Hole("link.rtt", State.ERROR, None, peer),)
        return self._trips.holes(peer, now_us)

    def probe(self) -> None:
        """Begin a probe, unless one is under way.

        It takes at most the deadline; a survey that of the resolver and of
        each route.
        """
        if self.busy:
            return
        if self._survey_is_due():
            self._begin_survey()
        elif self._route is not None:
            self._begin(self._route)
        else:  # there is nothing to be tried until a survey
            self._unanswered += 1

    def close(self) -> None:
        """Give back what is open; a probe under way counts for nothing."""
        self._let_go()
        self.busy = False

    def _survey_is_due(self) -> bool:
        if self._unanswered > 0:
            return self._unanswered % SURVEY_EVERY == PATIENCE
        if self._route is None:
            return True
        since_s = time.monotonic() - self._surveyed_s
        return bool(self.reason) and since_s >= PREFER_AGAIN_S

    def _begin_survey(self) -> None:
        self._surveyed_s = time.monotonic()
        self.busy = True
        if found := numeric(self.target):
            self._go_through(found)
            return
        try:
            self._lookup = Lookup(self.target)
        except NoAddress as exc:
            self._unresolved(exc)
            return
        self._loop.watch(self._lookup.fileno(), READ, self._looked_up)
        self._loop.at(self._surveyed_s + RESOLVE_S, self._late)

    def _looked_up(self) -> None:
        if self._lookup is None:
            return
        try:
            descriptor = self._lookup.fileno()
            found = self._lookup.read()
        except NoAddress as exc:
            self._loop.ignore(descriptor)
            self._lookup = None
            self._unresolved(exc)
            return
        if found is not None:
            self._loop.ignore(descriptor)
            self._lookup = None
            self._go_through(found)

    def _unresolved(self, why: OSError) -> None:
        if self._route is None:
            self._ended(None, why)
        else:  # an outage takes name servers along
            self._go_through([self._route.address])

    def _go_through(self, found: list[Address]) -> None:
        self._survey = Survey(Route(m, a) for m in self._methods for a in found)
        self._try_next()

    def _try_next(self) -> None:
        if self._survey is None:
            return
        route = self._survey.next()
        if route is not None:
            self._begin(route)
            return
        self.reason, self.mend = self._survey.reason(), self._survey.mend()
        silent = self._survey.silent
        if not silent:
            self._ended(None, Unsupported(self.reason))
            return
        if self._route not in silent:
            self._keep(silent[0])
        self._ended(None, NoAnswer(self.reason))

    def _begin(self, route: Route) -> None:
        self.busy, self._tried = True, route
        self._loop.at(time.monotonic() + self._deadline_s, self._late)
        try:
            if route.method is Method.TCP_CONNECT:
                self._connect(route.address)
            else:
                self._sent_s = time.monotonic()
                self._sequence = self._sockets.ask(
                    route.address, route.method, self._replied
                )
        except Unsupported as exc:
            self._failed(exc)
        except OSError as exc:
            self._failed(NoAnswer(f"{route.method.name}: {exc.strerror}"))

    def _connect(self, address: Address) -> None:
        try:
            self._connecting = socket.socket(address.family, socket.SOCK_STREAM)
        except OSError as exc:
            raise Unsupported(f"TCP_CONNECT: {exc.strerror}") from exc
        self._connecting.setblocking(False)
        self._sent_s = time.monotonic()
        status = self._connecting.connect_ex(address.sockaddr)
        if status in (errno.EINPROGRESS, errno.EWOULDBLOCK):
            self._loop.watch(self._connecting.fileno(), WRITE, self._connected)
        else:
            self._concluded(status, time.monotonic())

    def _connected(self) -> None:
        if self._connecting is not None:
            status = self._connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            self._concluded(status, self._loop.woke_s)

    def _concluded(self, status: int, at_s: float) -> None:
        """Take how a connection ended; a peer that refuses has answered."""
        if status in (0, errno.ECONNREFUSED):
            self._answered(at_s)
        else:
            self._failed(NoAnswer(f"TCP_CONNECT: {os.strerror(status)}"))

    def _replied(self) -> None:
        # It was there when the loop woke, unless it was asked for since then.
        woke_s = self._loop.woke_s
        self._answered(woke_s if woke_s > self._sent_s else time.monotonic())

    def _answered(self, at_s: float) -> None:
        if self._survey is None or self._tried is None:
            self._ended(max(0, round((at_s - self._sent_s) * 1e6)))
            return
        self.reason, self.mend = self._survey.reason(), self._survey.mend()
        self._keep(self._tried)
        self._survey = None
        self._let_go()
        self._begin(self._tried)

    def _late(self) -> None:
        """Give up what has no answer by its deadline."""
        if self._lookup is not None:
            self._let_go()
            why = f"no answer from the resolver within {RESOLVE_S:g} s"
            self._unresolved(TimeoutError(why))
        elif self._tried is not None:
            name = self._tried.method.name
            self._failed(NoAnswer(f"{name}: nothing within {self._deadline_s:g} s"))

    def _failed(self, why: Exception) -> None:
        """End the probe, or in a survey go on to the next route."""
        self._let_go()
        if self._survey is not None and self._tried is not None:
            self._survey.failed(self._tried, why)
            self._try_next()
        else:
            self._ended(None, why)

    def _ended(self, rtt_us: int | None, fault: Exception | None = None) -> None:
        self._let_go()
        self.busy, self._survey, self._tried = False, None, None
        self._unanswered = 0 if rtt_us is not None else self._unanswered + 1
        self.fault = "" if fault is None else str(fault) or repr(fault)
        self._reading = fault is None or isinstance(fault, NoAnswer)
        if isinstance(fault, Unsupported):
            self._keep(None)
        if self._reading:
            self._trips.record(rtt_us, time.monotonic_ns() // 1000)

    def _let_go(self) -> None:
        """Give back what the step under way had open."""
        self._loop.cancel(self._late)
        if self._sequence is not None:
            self._sockets.forget(self._sequence)
            self._sequence = None
        if self._lookup is not None:
            self._loop.ignore(self._lookup.fileno())
            self._lookup.close()
            self._lookup = None
        if self._connecting is not None:
            self._loop.ignore(self._connecting.fileno())
            self._connecting.close()
            self._connecting = None

    def _keep(self, route: Route | None) -> None:
        method = None if route is None else route.method
        if method is not self.method:  # round trips of two kinds don't mix
            self._trips = RoundTrips(self._trips.deadline_us)
        self._route, self.method = route, method


class Pings:
    """The targets of one agent, pinged together so that it wakes once for all."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._sockets = Sockets(loop)
        self.pingers: dict[str, Pinger] = {}

    def want(self, targets: Iterable[str]) -> bool:
        """Ping exactly these from now on; return whether that is a change.

        ValueError for what is no target.
        """
        wanted = list(dict.fromkeys(targets))
        if wanted == list(self.pingers):
            return False
        for target in set(self.pingers) - set(wanted):
            self.pingers.pop(target).close()
        self.pingers = {
            target: self.pingers.get(target)
            or Pinger(self._loop, self._sockets, target)
            for target in wanted
        }
        if not wanted:
            self._sockets.close()
        return True

    def probe(self) -> None:
        """Begin a probe of each."""
        for pinger in self.pingers.values():
            pinger.probe()

    def figures(self) -> tuple[list[Link], list[Hole]]:
        """Return links 1, 2, … of a frame, and what of them is not fresh."""
        now_us = time.monotonic_ns() // 1000
        links: list[Link] = []
        holes: list[Hole] = []
        for peer, pinger in enumerate(self.pingers.values(), start=1):
            links.append(pinger.link(peer))
            holes += pinger.holes(peer, now_us)
        return links, holes

    def close(self) -> None:
        """Give back what is open."""
        with suppress(ValueError):
            self.want(())


def _sent_already(route: Route, tried: list[Route]) -> bool:
    """Return whether the same packet went unanswered: raw after datagram."""
    return (
        route.method is Method.ICMP_RAW
        and Route(Method.ICMP_DATAGRAM, route.address) in tried
    )
