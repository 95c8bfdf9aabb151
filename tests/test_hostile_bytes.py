"""Random and mutated bytes at both doors: refused clearly, memory flat."""

import http.client
import random
import socket

import pytest

from trimtab.wire import (
    Cpu,
    Echo,
    Frame,
    Hello,
    Inventory,
    Link,
    Refused,
    Stream,
    WireError,
    encode,
)

from .processes import rss_kib, until

STRINGS = 10_000
FLAT_KIB = 24 * 1024


def strings(seed, count):
    """Yield random strings, and valid conversations with bytes changed."""
    rng = random.Random(seed)
    hello = Hello(b"i" * 16, b"b" * 16, "n", key=b"k" * 32, inventory=Inventory(cpus=2))
    frame = Frame(1, 1, cpu=Cpu(0.5, 1.0, 0.0, 0.5), links=(Link(0, None, 300),))
    whole = encode(hello) + encode(frame) + encode(Echo(False, 1, 1))
    for number in range(count):
        if number % 3 == 0:
            yield rng.randbytes(rng.randrange(1, 200))
            continue
        data = bytearray(whole if number % 3 == 1 else encode(frame))
        for _ in range(rng.randrange(1, 8)):
            place = rng.randrange(len(data))
            match rng.randrange(3):
                case 0:
                    data[place] = rng.randrange(256)
                case 1:
                    del data[place]
                case _:
                    data.insert(place, rng.randrange(256))
        yield bytes(data)


def wrong(data):
    """Whether a conversation of these bytes is one to be refused, and ends."""
    stream = Stream()
    try:
        first = next(iter(stream.feed(data)), None)
        rest = list(Stream().feed(data))
    except WireError:
        return True
    return bool(rest) and not isinstance(first, Hello)


def talk(port, data):
    """Return the collector's answers to these bytes, until it has no more."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := peer.recv(65536):
            answer += piece
    return list(Stream().feed(answer))


@pytest.mark.timeout(300)
def test_ten_thousand_strings_at_the_frames_port(fleet):
    collector = fleet.collector(log_level="error")
    until(fleet.folder.joinpath("collector.log").exists, 5, "it started")
    until(lambda: "nodes" in str(safe(fleet)), 10, "it serves")
    refused, before = 0, 0
    for number, data in enumerate(strings(1, STRINGS)):
        if number == STRINGS // 5:
            before = rss_kib(collector.pid)
        answers = talk(fleet.frames_port, data)
        said_no = [a for a in answers if isinstance(a, Refused)]
        if wrong(data):
            assert said_no, data.hex()
            assert len(said_no[0].text) > 10
        refused += bool(said_no)
    assert refused > STRINGS / 2
    assert collector.poll() is None
    assert rss_kib(collector.pid) - before < FLAT_KIB
    assert "nodes" in fleet.ask("/v1/nodes")
    assert "Traceback" not in fleet.log("collector")


@pytest.mark.timeout(300)
def test_ten_thousand_strings_at_post_frames(fleet):
    collector = fleet.collector(log_level="error")
    until(lambda: "nodes" in str(safe(fleet)), 10, "it serves")
    connection = http.client.HTTPConnection("127.0.0.1", fleet.http_port, timeout=10)
    headers = {"Content-Type": "application/msgpack"}
    before = 0
    for number, data in enumerate(strings(2, STRINGS)):
        if number == STRINGS // 5:
            before = rss_kib(collector.pid)
        connection.request("POST", "/v1/frames", body=data, headers=headers)
        with connection.getresponse() as response:
            body = response.read()
            assert response.status in (200, 400, 401, 413, 429), (
                response.status,
                data.hex(),
            )
            if wrong(data):
                assert response.status != 200, data.hex()
                assert b'"detail": "' in body
    connection.close()
    assert rss_kib(collector.pid) - before < FLAT_KIB
    assert "nodes" in fleet.ask("/v1/nodes")
    assert "Traceback" not in fleet.log("collector")


def safe(fleet):
    try:
        return fleet.ask("/v1/nodes")
    except OSError:
        return None
