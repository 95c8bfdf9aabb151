"""Real packets over loopback; what this machine can't send is not asserted."""

import asyncio
import socket
import threading
from collections.abc import Iterator

import icmplib
import pytest

from trimtab.agent.errors import Unsupported
from trimtab.agent.probes import ping
from trimtab.agent.probes.ping import METHODS, NoAnswer, Pinger
from trimtab.agent.probes.resolve import Resolver
from trimtab.agent.probes.targets import (
    DEFAULT_PORT,
    Address,
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
    server: socket.socket,
) -> None:
    """A24, A46."""
    pinger = Pinger(target_of(server))
    rtt_us = asyncio.run(pinger.probe())
    assert rtt_us is not None
    assert 0 < rtt_us < 2_000_000
    assert pinger.method in METHODS
    link = pinger.link(3)
    assert link == Link(3, pinger.method, rtt_us, rtt_us, rtt_us, None, 0.0)
    assert pinger.holes(3) == ()
    if pinger.method is not Method.ICMP_DATAGRAM:
        assert "ICMP_DATAGRAM" in pinger.reason
        assert "ping_group_range" in pinger.mend


@pytest.mark.parametrize("method", [Method.ICMP_DATAGRAM, Method.ICMP_RAW])
def test_icmp_answers_or_is_unsupported_with_the_remedy(
    server: socket.socket, method: Method
) -> None:
    """A24."""
    host, port = target_of(server)
    address = Address(server.family, (host, port))
    refusal: Unsupported | None = None
    rtt_us = 0
    try:
        rtt_us = asyncio.run(ping.icmp(address, method, 2.0))
    except Unsupported as exc:
        refusal = exc
    if refusal is None:
        assert 0 < rtt_us < 2_000_000
    else:
        assert method.name in str(refusal)
        assert refusal.mend


def test_icmp_does_not_read_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A25: the clock steps a day on with every look at it."""
    days = iter(range(0, 10**9, 86_400))
    monkeypatch.setattr("icmplib.sockets.time", lambda: next(days))
    address = Address(socket.AF_INET, ("127.0.0.1", 0))
    for method in (Method.ICMP_DATAGRAM, Method.ICMP_RAW):
        try:
            rtt_us = asyncio.run(ping.icmp(address, method, 2.0))
        except Unsupported:
            continue
        assert 0 < rtt_us < 2_000_000


def test_a_connection_accepted_is_an_answer(server: socket.socket) -> None:
    pinger = Pinger(target_of(server), methods=TCP)
    assert asyncio.run(pinger.probe()) is not None
    assert pinger.method is Method.TCP_CONNECT
    assert pinger.reason == ""


def test_a_connection_refused_is_an_answer(server: socket.socket) -> None:
    target = target_of(server)
    server.close()
    pinger = Pinger(target, methods=TCP)
    assert asyncio.run(pinger.probe()) is not None
    assert pinger.link(1).loss == 0.0


def test_silence_until_the_deadline_is_a_loss(silent: socket.socket) -> None:
    address = Address(socket.AF_INET, silent.getsockname())
    with pytest.raises(NoAnswer, match=r"0\.05 s"):
        asyncio.run(ping.tcp_connect(address, 0.05))
    pinger = Pinger(target_of(silent), deadline_s=0.05, methods=TCP)
    assert asyncio.run(pinger.probe()) is None
    assert pinger.link(1) == Link(1, Method.TCP_CONNECT, loss=1.0)
    assert pinger.holes(1) == (Hole("link.rtt", State.ERROR, None, 1),)
    assert "nothing within 0.05 s" in pinger.fault


def test_a_target_that_comes_back_is_read_again(silent: socket.socket) -> None:
    pinger = Pinger(target_of(silent), deadline_s=0.05, methods=TCP)

    async def away_and_back() -> list[int | None]:
        found = [await pinger.probe() for _ in range(5)]
        silent.accept()[0].close()  # room in the queue
        return [*found, await pinger.probe()]

    *lost, back = asyncio.run(away_and_back())
    assert lost == [None] * 5
    assert back is not None
    assert pinger.link(1).rtt_us == back
    assert pinger.link(1).loss == pytest.approx(5 / 6)
    assert pinger.holes(1) == ()
    assert pinger.fault == ""


def test_where_icmp_is_denied_tcp_is_used_and_the_remedies_are_named(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A24."""

    def denied(privileged: bool) -> icmplib.ICMPv4Socket:
        raise icmplib.SocketPermissionError(privileged)

    monkeypatch.setattr(icmplib, "ICMPv4Socket", denied)
    monkeypatch.setattr(icmplib, "ICMPv6Socket", denied)
    pinger = Pinger(target_of(server))
    assert asyncio.run(pinger.probe()) is not None
    assert pinger.method is Method.TCP_CONNECT
    assert "ICMP_DATAGRAM" in pinger.reason
    assert "ICMP_RAW" in pinger.reason
    assert "ping_group_range" in pinger.mend
    assert "CAP_NET_RAW" in pinger.mend
    assert pinger.holes(1) == ()


def test_where_nothing_may_be_sent_the_target_is_unread_not_lost(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A24."""

    def denied(privileged: bool) -> icmplib.ICMPv4Socket:
        raise icmplib.SocketPermissionError(privileged)

    monkeypatch.setattr(icmplib, "ICMPv4Socket", denied)
    monkeypatch.setattr(icmplib, "ICMPv6Socket", denied)
    pinger = Pinger(target_of(server), methods=METHODS[:2])
    assert asyncio.run(pinger.probe()) is None
    assert pinger.link(1) == Link(1)
    assert pinger.holes(1) == (Hole("link.rtt", State.ERROR, None, 1),)


def test_a_silent_address_gives_way_to_the_one_that_answers(
    silent: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A46: which is found before anything counts as lost."""
    with listening(socket.AF_INET6) as server:
        dead = (socket.AF_INET, 1, 6, "", silent.getsockname())
        live = (socket.AF_INET6, 1, 6, "", server.getsockname())
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [dead, live])
        pinger = Pinger("both.example.org", deadline_s=0.05, methods=TCP)
        for _ in range(2):
            assert asyncio.run(pinger.probe()) is not None
    assert pinger.link(1).loss == 0.0
    assert "127.0.0.1" in pinger.reason


def test_a_name_that_does_not_resolve_is_an_error_and_no_loss() -> None:
    pinger = Pinger("host.invalid")
    for _ in range(2):
        assert asyncio.run(pinger.probe()) is None
    assert pinger.link(1) == Link(1)
    assert pinger.holes(1) == (Hole("link.rtt", State.ERROR, None, 1),)
    assert pinger.fault
    assert pinger.method is None


def test_a_lookup_is_off_the_loop_and_the_only_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A resolver that hangs, as where name servers are away."""
    asked: list[str] = []
    release = threading.Event()

    def hang(host: str, port: int, **options: object) -> list[object]:
        if options.get("flags"):
            raise socket.gaierror("no number")
        asked.append(host)
        release.wait(10)
        return [(socket.AF_INET, 1, 6, "", ("192.0.2.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    resolver = Resolver(Target("db.example.org", 1))

    async def ask() -> list[Address]:
        for _ in range(3):
            with pytest.raises(TimeoutError, match="resolver"):
                await resolver.addresses(0.01)
        release.set()
        return await resolver.addresses(5.0)

    assert asyncio.run(ask()) == [Address(socket.AF_INET, ("192.0.2.1", 1))]
    assert asked == ["db.example.org"]


def test_run_ends_by_cancellation_alone_and_leaves_nothing_behind(
    server: socket.socket,
) -> None:
    pinger = Pinger(target_of(server), interval_s=0.001)

    async def some_probes() -> set[asyncio.Task[None]]:
        running = asyncio.create_task(pinger.run())
        while pinger.link(1).jitter_us is None:
            await asyncio.wait({running}, timeout=0.001)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(some_probes()) == set()
    assert pinger.link(1).loss == 0.0
