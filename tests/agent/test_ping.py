"""Real packets over loopback; what this machine can't send is not asserted."""

import errno
import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from trimtab.agent.loop import Loop
from trimtab.agent.probes import ping
from trimtab.agent.probes.icmp import Sockets
from trimtab.agent.probes.ping import (
    METHODS,
    PATIENCE,
    SURVEY_EVERY,
    Pinger,
    Pings,
)
from trimtab.agent.probes.targets import (
    DEFAULT_PORT,
    Target,
    addresses,
    parse_target,
)
from trimtab.wire import Hole, Link, Method, State

TCP = (Method.TCP_CONNECT,)
FAMILIES = [socket.AF_INET, socket.AF_INET6]
LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


def listening(family: socket.AddressFamily) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK[family], 0), family=family)
    except OSError as exc:
        pytest.skip(f"no loopback of this family: {exc}")


@pytest.fixture(params=FAMILIES, ids=["IPv4", "IPv6"])
def server(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    with listening(request.param) as opened:
        yield opened


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A listener whose queue is full: the kernel drops further connections."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as listening,
        socket.create_connection(listening.getsockname()),
    ):
        yield listening


@pytest.fixture
def loop() -> Iterator[Loop]:
    opened = Loop()
    yield opened
    opened.close()


@pytest.fixture
def pinger(loop: Loop) -> Iterator[Callable[..., Pinger]]:
    """Return a function that makes a pinger on the loop; all are closed."""
    sockets, made = Sockets(loop), []

    def make(target: str | Target, **options: Any) -> Pinger:
        made.append(Pinger(loop, sockets, target, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()
    sockets.close()
    assert loop._calls == {}  # nothing is left open
    assert loop._due == {}


def probe(pinger: Pinger) -> int | None:
    """Probe once, to its end; return the round trip, None if it was lost."""
    before = pinger._unanswered
    pinger.probe()
    until_s = time.monotonic() + 30
    while pinger.busy:
        assert time.monotonic() < until_s
        pinger._loop.turn(until_s)
    return None if pinger._unanswered > before else pinger.link(1).rtt_us


def holes(pinger: Pinger) -> tuple[Hole, ...]:
    return pinger.holes(1, time.monotonic_ns() // 1000)


def target_of(server: socket.socket) -> Target:
    host, port, *_ = server.getsockname()
    return Target(host, port)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("db.example.org", Target("db.example.org", DEFAULT_PORT)),
        ("db.example.org:5432", Target("db.example.org", 5432)),
        ("192.0.2.7", Target("192.0.2.7")),
        ("192.0.2.7:80", Target("192.0.2.7", 80)),
        ("::1", Target("::1")),
        ("2001:db8::7", Target("2001:db8::7")),
        ("[2001:db8::7]", Target("2001:db8::7")),
        ("[2001:db8::7]:80", Target("2001:db8::7", 80)),
        ("fe80::1%eth0", Target("fe80::1%eth0")),
        ("[fe80::1%eth0]:80", Target("fe80::1%eth0", 80)),
    ],
)
def test_a_target_is_a_host_and_perhaps_a_port(text: str, expected: Target) -> None:
    assert parse_target(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "a b", "host:", "host:0", "host:65536", "host:x", "[::1", "http://x/", ":80"],
)
def test_what_is_no_target_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_target(text)


def test_a_name_has_an_address_of_each_family_it_has() -> None:
    """A46."""
    found = addresses(Target("localhost", 80))
    families = [address.family for address in found]
    assert families
    assert len(set(families)) == len(families)
    assert set(families) <= set(FAMILIES)


def test_loopback_answers_by_whatever_this_machine_may_send(
    server: socket.socket, pinger: Callable[..., Pinger]
) -> None:
    """A24, A46."""
    pings = pinger(target_of(server))
    rtt_us = probe(pings)
    assert rtt_us is not None
    assert 0 < rtt_us < 2_000_000
    assert pings.method in METHODS
    link = pings.link(3)
    assert link == Link(3, pings.method, rtt_us, rtt_us, rtt_us, None, 0.0)
    assert holes(pings) == ()
    if pings.method is not Method.ICMP_DATAGRAM:
        assert "ICMP_DATAGRAM" in pings.reason
        assert "ping_group_range" in pings.mend


@pytest.mark.parametrize("method", [Method.ICMP_DATAGRAM, Method.ICMP_RAW])
def test_icmp_answers_or_is_unsupported_with_the_remedy(
    server: socket.socket, pinger: Callable[..., Pinger], method: Method
) -> None:
    """A24."""
    pings = pinger(target_of(server), methods=(method,))
    rtt_us = probe(pings)
    if rtt_us is None:
        assert method.name in pings.fault
        assert pings.mend
    else:
        assert 0 < rtt_us < 2_000_000
        assert pings.method is method


def test_round_trips_do_not_read_the_wall_clock(
    pinger: Callable[..., Pinger], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A25: the clock steps a day on with every look at it."""
    days = iter(range(0, 10**9, 86_400))
    monkeypatch.setattr(time, "time", lambda: next(days))
    monkeypatch.setattr(time, "time_ns", lambda: next(days) * 10**9)
    rtt_us = probe(pinger("127.0.0.1"))
    assert rtt_us is not None
    assert 0 < rtt_us < 2_000_000


def test_a_connection_accepted_is_an_answer(
    server: socket.socket, pinger: Callable[..., Pinger]
) -> None:
    pings = pinger(target_of(server), methods=TCP)
    assert probe(pings) is not None
    assert pings.method is Method.TCP_CONNECT
    assert pings.reason == ""


def test_a_connection_refused_is_an_answer(
    server: socket.socket, pinger: Callable[..., Pinger]
) -> None:
    target = target_of(server)
    server.close()
    pings = pinger(target, methods=TCP)
    assert probe(pings) is not None
    assert pings.link(1).loss == 0.0


def test_silence_until_the_deadline_is_a_loss(
    silent: socket.socket, pinger: Callable[..., Pinger]
) -> None:
    pings = pinger(target_of(silent), deadline_s=0.05, methods=TCP)
    assert probe(pings) is None
    assert pings.link(1) == Link(1, Method.TCP_CONNECT, loss=1.0)
    assert holes(pings) == (Hole("link.rtt", State.ERROR, None, 1),)
    assert "nothing within 0.05 s" in pings.fault


def test_an_icmp_answer_past_the_deadline_does_not_undo_the_loss(
    pinger: Callable[..., Pinger], loop: Loop
) -> None:
    pings = pinger("127.0.0.1", methods=METHODS[:2])
    if probe(pings) is None:
        pytest.skip("ICMP is not allowed here")
    pings.probe()
    assert pings.busy
    pings._late()  # before the loop has read the answer
    assert pings.link(1).loss == 0.5
    loop.turn(time.monotonic() + 0.02)
    assert pings.link(1).loss == 0.5
    assert [hole.state for hole in holes(pings)] == [State.STALE]


def test_a_target_that_comes_back_is_read_again(
    silent: socket.socket, pinger: Callable[..., Pinger]
) -> None:
    pings = pinger(target_of(silent), deadline_s=0.05, methods=TCP)
    assert [probe(pings) for _ in range(5)] == [None] * 5
    silent.accept()[0].close()  # room in the queue
    back = probe(pings)
    assert back is not None
    assert pings.link(1).rtt_us == back
    assert pings.link(1).loss == pytest.approx(5 / 6)
    assert holes(pings) == ()
    assert pings.fault == ""


@pytest.fixture
def no_icmp(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that lets nobody open an ICMP socket."""
    real = socket.socket

    def denied(family: int, kind: int, protocol: int = 0) -> socket.socket:
        if protocol in (socket.IPPROTO_ICMP, socket.IPPROTO_ICMPV6):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        return real(family, kind, protocol)

    monkeypatch.setattr(socket, "socket", denied)


@pytest.mark.usefixtures("no_icmp")
def test_where_icmp_is_denied_tcp_is_used_and_the_remedies_are_named(
    server: socket.socket, pinger: Callable[..., Pinger]
) -> None:
    """A24."""
    pings = pinger(target_of(server))
    assert probe(pings) is not None
    assert pings.method is Method.TCP_CONNECT
    assert "ICMP_DATAGRAM: no permission" in pings.reason
    assert "ICMP_RAW" in pings.reason
    assert "ping_group_range" in pings.mend
    assert "CAP_NET_RAW" in pings.mend
    assert holes(pings) == ()


@pytest.mark.usefixtures("no_icmp")
def test_where_nothing_may_be_sent_the_target_is_unread_not_lost(
    server: socket.socket, pinger: Callable[..., Pinger]
) -> None:
    """A24."""
    pings = pinger(target_of(server), methods=METHODS[:2])
    assert probe(pings) is None
    assert pings.link(1) == Link(1)
    assert holes(pings) == (Hole("link.rtt", State.ERROR, None, 1),)


def test_a_silent_address_gives_way_to_the_one_that_answers(
    silent: socket.socket,
    pinger: Callable[..., Pinger],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A46: which is found before anything counts as lost."""
    with listening(socket.AF_INET6) as server:
        dead = (socket.AF_INET, 1, 6, "", silent.getsockname())
        live = (socket.AF_INET6, 1, 6, "", server.getsockname())
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [dead, live])
        pings = pinger("both.example.org", deadline_s=0.05, methods=TCP)
        for _ in range(2):
            assert probe(pings) is not None
    assert pings.link(1).loss == 0.0
    assert "127.0.0.1" in pings.reason


def test_surveys_come_seldom_while_nothing_answers(
    silent: socket.socket,
    pinger: Callable[..., Pinger],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pings = pinger(target_of(silent), deadline_s=0.001, methods=TCP)
    surveyed = []

    class Noted(ping.Survey):
        def __init__(self, routes: Any) -> None:
            super().__init__(routes)
            surveyed.append(pings._unanswered)

    monkeypatch.setattr(ping, "Survey", Noted)
    for _ in range(PATIENCE + SURVEY_EVERY + 1):
        probe(pings)
    assert surveyed == [0, PATIENCE, PATIENCE + SURVEY_EVERY]


def test_a_name_that_does_not_resolve_is_an_error_and_no_loss(
    pinger: Callable[..., Pinger],
) -> None:
    pings = pinger("host.invalid")
    for _ in range(2):
        assert probe(pings) is None
    assert pings.link(1) == Link(1)
    assert holes(pings) == (Hole("link.rtt", State.ERROR, None, 1),)
    assert pings.fault
    assert pings.method is None


def test_a_resolver_that_hangs_is_given_up_and_holds_nothing_up(
    pinger: Callable[..., Pinger], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(host: str, port: int, **options: object) -> list[object]:
        if options.get("flags"):
            raise socket.gaierror("no number")
        time.sleep(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    monkeypatch.setattr(ping, "RESOLVE_S", 0.05)
    pings = pinger("db.example.org")
    began_s = time.monotonic()
    assert probe(pings) is None
    assert time.monotonic() - began_s < 10
    assert "resolver" in pings.fault


def test_a_name_that_no_longer_resolves_is_pinged_where_it_was(
    server: socket.socket,
    pinger: Callable[..., Pinger],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An outage takes name servers along."""
    found = [(server.family, 1, 6, "", server.getsockname())]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    pings = pinger("db.example.org", methods=TCP)
    assert probe(pings) is not None
    found.clear()
    pings._unanswered = PATIENCE  # a survey is due
    assert probe(pings) is not None


def test_targets_are_pinged_together_and_dropped_ones_let_go(loop: Loop) -> None:
    pings = Pings(loop)
    assert pings.want(["127.0.0.1", "::1", "127.0.0.1"]) is True
    assert pings.want(["127.0.0.1", "::1"]) is False
    pings.probe()
    until_s = time.monotonic() + 5
    while any(each.busy for each in pings.pingers.values()):
        assert time.monotonic() < until_s
        loop.turn(until_s)
    kept = pings.pingers["::1"]
    links, missing = pings.figures()
    assert [link.peer for link in links] == [1, 2]
    assert all(link.rtt_us is not None for link in links)
    assert missing == []
    assert pings.want(["::1", "127.0.0.2"]) is True
    assert pings.pingers["::1"] is kept
    pings.probe()
    pings.close()
    assert loop._calls == {}
    assert loop._due == {}
