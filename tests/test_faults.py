"""What goes wrong around a collector: each fault, its log line, and afterwards.

After every one of them the registry is whole, nobody's state is wrong, and
the log says what the matter was.
"""

import contextlib
import json
import math
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import time
import urllib.request

import msgpack
import pytest

from trimtab.wire import Hello, Refused, Stream, encode

from .processes import until
from .senders import calm_frame, sending, turn

RATED = {"healthy", "strained", "saturated"}


def state(fleet, name="one"):
    return fleet.nodes().get(name, {}).get("state")


def started(fleet):
    with contextlib.suppress(FileNotFoundError):
        return fleet.log("collector").count("collector_started")
    return 0


def serving(fleet, **settings):
    before = started(fleet)
    process = fleet.collector(**settings)
    until(lambda: started(fleet) > before, 10, "it serves")
    return process


def with_an_agent(fleet, **settings):
    process = serving(fleet, **settings)
    fleet.agent("one", interval_s=0.2)
    until(lambda: state(fleet) in RATED, 15, "the agent is rated")
    return process


def samples(fleet, name="one"):
    return sum(fleet.ask(f"/v1/nodes/{name}/history")["samples"])


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 2 MiB under the collector's state folder."""
    folder = tmp_path / "collector"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a file system can't be mounted here (needs root)")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_degrades_history_not_scoring(fleet, small_disk):
    with_an_agent(fleet, commit_s=0.2)
    ballast = small_disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    until(lambda: "store_failing" in fleet.log("collector"), 15, "the log says so")
    assert "full" in fleet.log("collector")
    time.sleep(0.5)
    assert state(fleet) in RATED
    assert fleet.ask("/v1/nodes/one")["age_ms"] < 1000
    assert fleet.ask("/v1/route", {})["node"] == "one"
    stored = samples(fleet)
    ballast.unlink()
    until(lambda: "the store works again" in fleet.log("collector"), 10, "it recovers")
    until(lambda: samples(fleet) > stored + 5, 10, "what waited is stored")
    assert fleet.ask("/v1/nodes/one")["gaps"] == 0


def test_a_locked_database_degrades_history_not_scoring(fleet):
    with_an_agent(fleet, commit_s=0.2)
    stored = samples(fleet)
    db = sqlite3.connect(fleet.folder / "collector/collector.db", isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    until(lambda: "store_failing" in fleet.log("collector"), 15, "the log says so")
    assert "locked" in fleet.log("collector")
    assert state(fleet) in RATED
    assert fleet.ask("/v1/nodes/one")["age_ms"] < 1000
    db.execute("ROLLBACK")
    db.close()
    until(lambda: "the store works again" in fleet.log("collector"), 10, "it recovers")
    until(lambda: samples(fleet) > stored + 20, 10, "what waited is stored")


def test_a_database_corrupt_at_start_is_moved_aside_and_the_fleet_comes_back(fleet):
    process = with_an_agent(fleet, commit_s=0.2)
    until(lambda: samples(fleet) > 0, 10, "something is stored")
    process.kill()
    process.wait()
    folder = fleet.folder / "collector"
    for suffix in ("-wal", "-shm"):
        (folder / f"collector.db{suffix}").unlink(missing_ok=True)
    (folder / "collector.db").write_bytes(b"\x55" * 50_000)
    fleet.collector(commit_s=0.2)
    until(lambda: state(fleet) in RATED, 20, "the agent is back by itself")
    assert "store_damaged" in fleet.log("collector")
    assert "It was moved to collector.db.damaged-" in fleet.log("collector")
    assert list(folder.glob("collector.db.damaged-*"))


def test_five_thousand_agents_that_come_back_at_once_are_all_taken(fleet):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    number = min(5_000, most - 200)
    process = serving(fleet, commit_s=0.2)
    with sending(number, fleet.frames_port) as senders:
        everyone_stores_a_sample(senders)
        process.kill()
        process.wait()
        for sender in senders:
            sender.drop()
        serving(fleet, commit_s=0.2)
        everyone_stores_a_sample(senders)
        assert not any(sender.refused for sender in senders)
        ready = fleet.ask("/readyz")
        assert (ready["nodes"], ready["store"]) == (number, "ok")


def everyone_stores_a_sample(senders):
    for sender in senders:
        assert sender.dial()
    heard(senders, lambda sender: sender.welcomed, "all are welcomed")
    for sender in senders:
        sender.sample()
    heard(senders, lambda sender: sender.stored == sender.seq, "all is stored")


def heard(senders, condition, what):
    def all_do():
        turn(senders, 0.05)
        return all(condition(sender) for sender in senders)

    until(all_do, 30, what)


def test_senders_that_dribble_are_cut_off_on_both_ports_and_hold_up_nobody(fleet):
    with_an_agent(fleet)
    hello = encode(Hello(b"s" * 16, b"b" * 16, "slow"))
    pieces = {
        fleet.frames_port: hello,
        fleet.http_port: b"GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\nX-A: "
        + b"a" * 99,
    }
    dribbling = {}
    for port, data in pieces.items():
        for _ in range(50):
            peer = socket.create_connection(("127.0.0.1", port))
            peer.setblocking(False)
            dribbling[peer] = iter(data[:80])
    ends = time.monotonic() + 25
    cut = 0
    while dribbling and time.monotonic() < ends:
        for peer, rest in list(dribbling.items()):
            try:
                byte = next(rest, None)
                if byte is not None:
                    peer.send(bytes([byte]))
                if peer.recv(4096) == b"":
                    raise ConnectionResetError
            except BlockingIOError:
                continue
            except OSError:
                peer.close()
                del dribbling[peer]
                cut += 1
        assert state(fleet) in RATED
        time.sleep(0.5)
    assert cut == 100


def test_a_peer_that_vanishes_without_a_word_is_let_go_and_may_come_back(fleet):
    tcp_repair, on = 19, 1  # linux/tcp.h: closes without a FIN or a reset
    serving(fleet, lost_after_s=2)
    with sending(1, fleet.frames_port) as senders:
        (sender,) = senders
        assert sender.dial()
        heard(senders, lambda s: s.welcomed, "it is welcomed")
        for _ in range(3):
            sender.sample()
            turn(senders, 0.2)
        assert sender.socket is not None
        try:
            sender.socket.setsockopt(socket.IPPROTO_TCP, tcp_repair, on)
        except OSError:
            pytest.skip("a socket can't vanish here (needs CAP_NET_ADMIN)")
        sender.drop()
        until(lambda: state(fleet, "n1") == "lost", 10, "its silence is judged")
        assert sender.dial()
        heard(senders, lambda s: s.welcomed, "it is back")
        for _ in range(5):
            sender.sample()
            turn(senders, 0.2)
        assert state(fleet, "n1") in RATED
        assert list(fleet.nodes()) == ["n1"]  # no clone of itself


def test_out_of_descriptors_each_port_turns_away_what_is_past_its_share(fleet):
    process = fleet.collector()
    # Long before it has started so far that it looks at its limits.
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (160, 160))
    until(lambda: "collector_started" in fleet.log("collector"), 10, "it serves")
    assert "few_descriptors" in fleet.log("collector")
    fleet.agent("one", interval_s=0.2)
    until(lambda: state(fleet) in RATED, 15, "the agent is rated")
    held = []
    for port in (fleet.frames_port, fleet.http_port):
        for _ in range(200):
            with contextlib.suppress(OSError):
                held.append(socket.create_connection(("127.0.0.1", port), timeout=2))
    time.sleep(1)
    for peer in held:
        peer.close()
    until(lambda: state(fleet) in RATED, 10, "it answers again")
    assert fleet.ask("/v1/nodes/one")["age_ms"] < 1500
    assert fleet.ask("/v1/nodes/one")["gaps"] == 0
    assert process.poll() is None


WILD = [math.nan, math.inf, -math.inf, -1, -(2**63), 2**63, 2**64 - 1, 1e308, -0.5]


def leaves(tree, path=()):
    for place, item in enumerate(tree):
        if isinstance(item, list):
            yield from leaves(item, (*path, place))
        else:
            yield (*path, place)


def replaced(tree, path, value):
    if not path:
        return value
    copy = list(tree)
    copy[path[0]] = replaced(copy[path[0]], path[1:], value)
    return copy


def test_a_node_that_sends_wild_numbers_spoils_nothing(fleet):
    """NaN, infinities, negative and huge numbers in every place of a frame."""
    with_an_agent(fleet)
    hello = encode(Hello(b"w" * 16, b"b" * 16, "wild", key=b"w" * 32))
    frame = msgpack.unpackb(encode(calm_frame(1, 5_000_000)))
    wild = [replaced(frame, path, v) for path in leaves(frame) for v in WILD]
    refused = 0
    for message in wild:
        with socket.create_connection(("127.0.0.1", fleet.frames_port)) as peer:
            peer.sendall(hello + msgpack.packb(message))
            peer.shutdown(socket.SHUT_WR)
            data = b""
            with contextlib.suppress(ConnectionError):
                while piece := peer.recv(65536):
                    data += piece
        refused += any(isinstance(m, Refused) for m in Stream().feed(data))
    assert refused > len(wild) / 2
    assert "Traceback" not in fleet.log("collector")
    url = f"http://127.0.0.1:{fleet.http_port}/v1/nodes"
    with urllib.request.urlopen(url) as answer:
        nodes = json.load(answer, parse_constant=pytest.fail)["nodes"]
    for node in nodes:
        for value in (node["score"], *node["headroom"].values()):
            assert value is None or 0 <= value <= 1
    assert state(fleet) in RATED
    assert fleet.ask("/v1/route", {})["node"] == "one"


def test_a_collector_frozen_for_long_calls_nobody_lost(fleet):
    """A37, from outside: 15 s frozen, with a grace of 5 s."""
    process = serving(fleet, lost_after_s=5)
    with sending(50, fleet.frames_port) as senders:
        for sender in senders:
            assert sender.dial()
        heard(senders, lambda sender: sender.welcomed, "all are welcomed")

        def go_on(seconds):
            ends = time.monotonic() + seconds
            while time.monotonic() < ends:
                for sender in senders:
                    sender.sample()
                turn(senders, 0.5)

        go_on(3)
        process.send_signal(signal.SIGSTOP)
        go_on(15)
        process.send_signal(signal.SIGCONT)
        go_on(4)
        log = fleet.log("collector")
        assert "was frozen for" in log
        assert "after=lost" not in log
        assert {node["state"] for node in fleet.nodes().values()} <= RATED
        heard(senders, lambda s: s.stored == s.seq, "all is stored")
