"""Echo packets, and targets on loopback pinged for real (A24, A46)."""

import selectors
import socket
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.agent.edge import pings
from trimtab.agent.edge.pings import DEADLINE_S, Pinger, checksum, is_reply, request
from trimtab.wire import Method


def test_the_checksum_is_the_one_of_rfc_1071():
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0x220D


@given(st.binary(max_size=200).map(lambda b: b + b"\0" * (len(b) % 2)))
def test_a_packet_with_its_checksum_sums_to_nothing(data):
    summed = struct.pack("!H", checksum(data))
    assert checksum(data + summed) == 0


FAMILIES = [(socket.AF_INET, 0), (socket.AF_INET6, 129)]


@pytest.mark.parametrize(("family", "reply"), FAMILIES)
@pytest.mark.parametrize("raw", [True, False])
def test_only_the_answer_to_this_request_counts(family, reply, raw):
    packet = request(family, 77, 5)
    answer = bytes([reply]) + packet[1:]
    header = b"\x45" + b"\0" * 19 if raw and family == socket.AF_INET else b""
    good = {"family": family, "ident": 77, "sequence": 5, "raw": raw}
    assert is_reply(header + answer, **good)
    assert is_reply(header + answer, **(good | {"ident": None}))
    assert not is_reply(header + packet, **good)  # our own request, seen again
    assert not is_reply(header + answer, **(good | {"ident": 78}))
    assert not is_reply(header + answer, **(good | {"sequence": 6}))


@given(st.binary(max_size=80), st.sampled_from([f for f, _ in FAMILIES]), st.booleans())
def test_whatever_arrives_never_raises(packet, family, raw):
    assert is_reply(packet, family, 1, 1, raw=raw) in (True, False)


def probe(pinger, timeout_s=5.0):
    """Run one probe as the loop does; return its link."""
    started = time.monotonic()
    pinger.turn(started)
    while pinger.fileno() >= 0 and time.monotonic() < started + timeout_s:
        with selectors.DefaultSelector() as selector:
            selector.register(pinger.fileno(), pinger.wants)
            events = selector.select(max(0, pinger.due_at - time.monotonic()))
        if events:
            pinger.ready(time.monotonic())
        else:
            pinger.turn(time.monotonic())
    return pinger.link(1)


@pytest.mark.parametrize("target", ["127.0.0.1", "::1", "localhost"])
def test_a_target_on_loopback_answers_by_whatever_way_is_allowed(target):
    link = probe(Pinger(target))
    assert link.method is not None
    assert 0 <= link.rtt_us < 1_000_000
    assert link.loss == 0.0


def test_where_icmp_is_forbidden_a_refused_connection_is_an_answer(free_port):
    pinger = Pinger(f"127.0.0.1:{free_port()}")
    pinger._ways = [Method.TCP_CONNECT]
    link = probe(pinger)
    assert link.method is Method.TCP_CONNECT
    assert link.rtt_us is not None


def test_a_target_without_an_address_is_an_error_and_is_tried_again():
    pinger = Pinger("no.such.name.invalid")
    probe(pinger, 60)
    assert [hole.state.name for hole in pinger.holes(1, time.monotonic())] == ["ERROR"]
    assert pinger.fileno() == -1
    assert pinger.due_at > time.monotonic()


def test_an_unanswered_probe_is_lost_at_its_deadline(monkeypatch):
    monkeypatch.setattr(pings, "is_reply", lambda *a, **k: False)
    pinger = Pinger("127.0.0.1")
    pinger._ways = [Method.ICMP_RAW, Method.TCP_CONNECT]
    now = time.monotonic()
    pinger.turn(now)
    if pinger.method is not Method.ICMP_RAW:
        pytest.skip("raw ICMP is not allowed here")
    pinger.turn(now + DEADLINE_S + 0.01)
    assert pinger.link(1).loss == 1.0
    assert pinger.fileno() == -1
