"""Echo packets, and whose answers are taken (A24, A46)."""

import socket
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.agent.errors import Unsupported
from trimtab.agent.loop import Loop
from trimtab.agent.probes.icmp import (
    Reply,
    Sockets,
    checksum,
    parse_reply,
    request,
)
from trimtab.agent.probes.targets import Address
from trimtab.wire import Method

TOKEN = b"0123456789abcdef"


def test_the_checksum_is_the_one_of_rfc_1071():
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0x220D


@given(st.binary(max_size=200).map(lambda b: b + b"\0" * (len(b) % 2)))
def test_a_packet_with_its_checksum_sums_to_nothing(data):
    summed = struct.pack("!H", checksum(data))
    assert checksum(data + summed) == 0


FAMILIES = [(socket.AF_INET, 0), (socket.AF_INET6, 129)]
LOOPBACK = {
    socket.AF_INET: Address(socket.AF_INET, ("127.0.0.1", 0)),
    socket.AF_INET6: Address(socket.AF_INET6, ("::1", 0, 0, 0)),
}


@pytest.mark.parametrize(("family", "reply"), FAMILIES)
@pytest.mark.parametrize("raw", [True, False])
def test_an_echo_reply_says_what_it_answers_and_a_request_nothing(family, reply, raw):
    packet = request(family, 77, 5, TOKEN)
    answer = bytes([reply]) + packet[1:]
    header = b"\x45" + b"\0" * 19 if raw and family == socket.AF_INET else b""
    assert parse_reply(header + answer, family, raw=raw) == Reply(77, 5, TOKEN)
    assert parse_reply(header + packet, family, raw=raw) is None  # seen again


@given(st.binary(max_size=80), st.sampled_from([f for f, _ in FAMILIES]), st.booleans())
def test_whatever_arrives_never_raises(packet, family, raw):
    reply = parse_reply(packet, family, raw=raw)
    assert reply is None or reply.token in packet


@pytest.fixture
def sockets():
    loop = Loop()
    opened = Sockets(loop)
    yield opened
    opened.close()
    loop.close()


def asked(sockets, family, method):
    """Ask loopback for two answers; return them as they come, and how to ask."""
    answers = []
    try:
        for name in ("one", "two"):
            sockets.ask(
                LOOPBACK[family], method, lambda name=name: answers.append(name)
            )
    except (Unsupported, OSError) as exc:
        pytest.skip(f"not to be had here: {exc}")
    return answers


def turn(sockets, done, timeout_s=2.0):
    until_s = time.monotonic() + timeout_s
    while not done() and time.monotonic() < until_s:
        sockets._loop.turn(until_s)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
@pytest.mark.parametrize("method", [Method.ICMP_DATAGRAM, Method.ICMP_RAW])
def test_one_socket_serves_all_and_each_answer_finds_its_asker(sockets, family, method):
    answers = asked(sockets, family, method)
    turn(sockets, lambda: len(answers) == 2)
    assert sorted(answers) == ["one", "two"]
    assert len(sockets._opened) == 1


@pytest.mark.parametrize("strange", ["token", "ident", "host", "method"])
def test_the_answers_to_other_processes_are_not_taken(sockets, strange):
    """Raw sockets see them all, of the same sequence as well."""
    answers = asked(sockets, socket.AF_INET, Method.ICMP_RAW)
    token = TOKEN if strange == "token" else sockets._token
    ident = sockets._ident ^ (strange == "ident")
    host = "127.0.0.2" if strange == "host" else "127.0.0.1"
    method = Method.ICMP_DATAGRAM if strange == "method" else Method.ICMP_RAW
    packet = request(socket.AF_INET, ident, 1, token)
    header = b"" if strange == "method" else b"\x45" + b"\0" * 19
    sockets._take(header + b"\0" + packet[1:], host, socket.AF_INET, method)
    assert answers == []
    turn(sockets, lambda: len(answers) == 2)
    assert len(answers) == 2  # its own came later


def test_an_answer_that_nobody_waits_for_any_more_wakes_the_loop_once(sockets):
    address = LOOPBACK[socket.AF_INET]
    asked(sockets, socket.AF_INET, Method.ICMP_RAW)
    sequence = sockets.ask(address, Method.ICMP_RAW, lambda: pytest.fail("forgotten"))
    for each in range(sequence + 1):
        sockets.forget(each)
    loop = sockets._loop
    for _ in range(3):
        loop.turn(0.0)
    began_s = time.monotonic()
    loop.turn(began_s + 0.05)
    assert time.monotonic() - began_s >= 0.05  # nothing left to read
