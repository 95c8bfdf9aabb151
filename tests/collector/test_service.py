"""The service as a process: floods, freezes, closed streams, a second one."""

import contextlib
import http.client
import re
import signal
import socket
import subprocess
import time

import pytest
from tests.processes import until

from trimtab.wire import Echo, Frame, Hello, Refused, Stream, Welcome, encode

RATED = {"healthy", "strained", "saturated"}


def serving(fleet, **settings):
    collector = fleet.collector(**settings)
    until(lambda: "collector_started" in fleet.log("collector"), 10, "it serves")
    return collector


def dial(fleet):
    return socket.create_connection(("127.0.0.1", fleet.frames_port), timeout=10)


def answers(peer):
    data = b""
    with contextlib.suppress(TimeoutError, ConnectionError):
        while piece := peer.recv(65536):
            data += piece
    return list(Stream().feed(data))


def test_strangers_may_say_hello_and_nothing_else(fleet):
    serving(fleet)
    with dial(fleet) as peer:
        with contextlib.suppress(ConnectionError):
            for _ in range(100):  # a flood of messages of an unknown kind
                peer.sendall(b"\x91\x7f" * 16_000)
        (refused,) = answers(peer)
    assert isinstance(refused, Refused)
    assert "hello first" in refused.text


def test_a_flood_of_one_node_does_not_hold_up_another(fleet):
    serving(fleet)
    fleet.agent("calm", interval_s=0.2)
    until(lambda: fleet.nodes().get("calm", {}).get("state") in RATED, 10, "rated")
    hello = encode(Hello(b"f" * 16, b"b" * 16, "flood"))
    burst = b"\x91\x7f" * 200_000
    with dial(fleet) as peer:
        peer.sendall(hello)
        ends = time.monotonic() + 4
        peer.settimeout(0.5)
        while time.monotonic() < ends:
            with contextlib.suppress(TimeoutError):
                peer.sendall(burst)
            assert fleet.nodes()["calm"]["state"] in RATED
    assert not re.search(r"node=calm .*after=stale", fleet.log("collector"))


def test_a_peer_that_reads_nothing_is_cut_and_gives_its_place_back(fleet):
    serving(fleet, max_connections=2)
    hello = encode(Hello(b"d" * 16, b"b" * 16, "deaf"))
    question = encode(Echo(False, 2**50, 2**50)) * 1000
    with dial(fleet) as deaf, dial(fleet) as other:
        other.sendall(b"\x05")  # refused, and gone at once
        deaf.sendall(hello)
        deaf.settimeout(0.5)
        with contextlib.suppress(TimeoutError, ConnectionError):
            for _ in range(1000):
                deaf.sendall(question)
        with contextlib.suppress(OSError):
            deaf.sendall(b"\x05")
        fleet.agent("patient", interval_s=0.2)
        until(
            lambda: fleet.nodes().get("patient", {}).get("state") in RATED,
            40,
            "there is a place again",
        )


def test_silent_sockets_keep_nobody_out(fleet):
    serving(fleet)
    with contextlib.ExitStack() as stack:
        for _ in range(600):
            stack.enter_context(dial(fleet))
        fleet.agent("honest", interval_s=0.2)
        until(
            lambda: fleet.nodes().get("honest", {}).get("state") in RATED,
            10,
            "an honest agent is let in",
        )


def test_a_frozen_collector_calls_nobody_lost(fleet):
    """A37: after the freeze what waited is read first."""
    collector = serving(fleet, lost_after_s=2)
    fleet.agent("one", interval_s=0.2)
    until(lambda: fleet.nodes().get("one", {}).get("state") in RATED, 10, "rated")
    collector.send_signal(signal.SIGSTOP)
    time.sleep(4)
    collector.send_signal(signal.SIGCONT)
    until(lambda: "was frozen for" in fleet.log("collector"), 5, "it notices")
    until(lambda: fleet.nodes()["one"]["state"] in RATED, 5, "all is well")
    assert "after=lost" not in fleet.log("collector")


def test_a_second_collector_on_the_same_state_is_refused(fleet, free_port):
    serving(fleet)
    fleet.frames_port, fleet.http_port = free_port(), free_port()
    second = fleet.collector()
    assert second.wait(10) == 2
    assert "another collector (pid" in fleet.log("collector")


def test_sighup_reads_credentials_again_and_ends_nothing(fleet):
    collector = serving(fleet)
    collector.send_signal(signal.SIGHUP)
    until(lambda: "collector_reloaded" in fleet.log("collector"), 5, "it reloads")
    assert fleet.stop(collector) == 0


@pytest.mark.parametrize("redirection", ["2>/dev/full", "0<&- 1>&- 2>&-"])
def test_a_log_that_cannot_be_written_stops_nothing(fleet, redirection):
    script = f'exec "$0" -m trimtab.collector run {redirection}'  # $0: this Python
    import os
    import sys

    process = subprocess.Popen(
        ["/bin/sh", "-c", script, sys.executable],
        env=os.environ
        | {
            "TRIMTAB_FRAMES_LISTEN": f"127.0.0.1:{fleet.frames_port}",
            "TRIMTAB_HTTP_LISTEN": f"127.0.0.1:{fleet.http_port}",
            "TRIMTAB_STATE_DIR": str(fleet.folder / "collector"),
        },
    )
    fleet.running.append(process)
    fleet.agent("one", interval_s=0.2)
    until(lambda: fleet.nodes().get("one", {}).get("state") in RATED, 15, "rated")
    assert fleet.stop(process) == 0


def test_a_malformed_request_never_brings_its_token_into_the_log(fleet):
    serving(fleet)
    head = b"GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\n"
    with socket.create_connection(("127.0.0.1", fleet.http_port), timeout=5) as peer:
        peer.sendall(head + b"Authorization: Bearer tt_verysecret\x00\r\n\r\n")
        assert b"400" in peer.recv(4096)
    assert "verysecret" not in fleet.log("collector")
    assert "Traceback" not in fleet.log("collector")


def test_a_body_that_is_not_as_encoded_is_the_senders_fault(fleet):
    serving(fleet)
    connection = http.client.HTTPConnection("127.0.0.1", fleet.http_port, timeout=5)
    for encoding in ("gzip", "deflate"):
        headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
        connection.request("POST", "/v1/route", body=b"not packed", headers=headers)
        with connection.getresponse() as response:
            response.read()
            assert response.status == 400
        connection.close()


def test_a_damaged_database_stops_neither_scoring_nor_the_service(fleet):
    collector = serving(fleet, commit_s=0.2)
    fleet.agent("one", interval_s=0.2)
    until(lambda: fleet.nodes().get("one", {}).get("state") in RATED, 10, "rated")
    for name in ("collector.db-wal", "collector.db-shm", "collector.db"):
        (fleet.folder / "collector" / name).write_bytes(b"\xa5" * 65536)
    time.sleep(6)  # the credentials are read each 5 s
    assert collector.poll() is None
    assert fleet.nodes()["one"]["state"] in RATED
    assert fleet.ask("/readyz")["ready"] is True


def test_frames_go_on_being_taken_in_one_piece_or_many(fleet):
    serving(fleet, commit_s=0.2)
    data = encode(Hello(b"p" * 16, b"b" * 16, "pieces"))
    data += b"".join(encode(Frame(seq, seq)) for seq in range(1, 8000))
    with dial(fleet) as peer:
        peer.sendall(data)  # far more than one turn takes
        until(
            lambda: "acked" if _acked(peer) == 7999 else "", 10, "every frame is stored"
        )


def _acked(peer):
    peer.settimeout(0.5)
    from trimtab.wire import Ack

    try:
        said = list(Stream().feed(peer.recv(65536)))
    except TimeoutError:
        return None
    return max((m.seq for m in said if isinstance(m, Ack)), default=None)


def test_wrong_keys_are_braked_with_a_time_to_stay_away(fleet):
    serving(fleet)
    agent = Hello(b"k" * 16, b"b" * 16, "keyed", key=b"k" * 32)
    with dial(fleet) as peer:
        peer.sendall(encode(agent))
        peer.recv(100)
    retries = []
    for _ in range(13):
        with dial(fleet) as peer:
            peer.sendall(encode(agent._replace(key=b"x" * 32)))
            (refused,) = answers(peer)
            retries.append(refused.retry_s)
    assert retries[0] is None
    assert retries[-1] >= 1
    with dial(fleet) as peer:  # the right one passes all the same
        peer.sendall(encode(agent))
        assert isinstance(next(iter(Stream().feed(peer.recv(1000)))), Welcome)
