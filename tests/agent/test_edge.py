"""The edge agent as a process, against a real collector."""

import json
import subprocess
import time
from pathlib import Path

from tests.processes import until

RATED = {"healthy", "strained", "saturated"}


def node(fleet):
    return fleet.nodes().get("box", {})


def edge(fleet, **settings):
    return fleet.agent("box", mode="edge", interval_s=0.2, **settings)


def test_it_is_scored_with_tcp_info_alone_and_stops_in_order(fleet):
    collector = fleet.collector()
    agent = edge(fleet, heartbeat_s=2)
    until(lambda: node(fleet).get("state") in RATED, 10, "the node is rated")
    details = fleet.ask("/v1/nodes/box")
    (link,) = details["links"]
    assert link["method"] == "tcp_info"
    assert link["rtt_us"] is not None
    assert link["rtt_p95_us"] is None
    assert link["loss"] is None
    holes = {hole["signal"]: hole["state"] for hole in details["holes"]}
    assert holes["link.loss"] == "unsupported"
    assert details["stale_after_ms"] == 3000  # 1.5 times the announced silence
    threads = Path(f"/proc/{agent.pid}/task")
    assert len(list(threads.iterdir())) == 1
    assert fleet.stop(agent) == 0
    assert "lost=0" in fleet.log("box")
    assert fleet.stop(collector) == 0


def test_an_edge_node_hears_an_echo_and_an_ack_at_most_each_10_s(fleet):
    import socket

    from trimtab.wire import Ack, Echo, Frame, Hello, Inventory, Stream, encode

    fleet.collector(commit_s=0.2)
    until(lambda: "nodes" in str(_safe(fleet)), 10, "it serves")
    hello = Hello(b"i" * 16, b"b" * 16, "box", inventory=Inventory(mode="edge"))
    heard = []
    with socket.create_connection(("127.0.0.1", fleet.frames_port)) as peer:
        peer.sendall(encode(hello))
        peer.settimeout(0.1)
        stream, started = Stream(), time.monotonic()
        for seq in range(1, 125):
            peer.sendall(encode(Frame(seq, seq * 100)))
            try:
                heard += [
                    (time.monotonic() - started, m) for m in stream.feed(peer.recv(999))
                ]
            except TimeoutError:
                continue
    spoken = [(at, m) for at, m in heard if isinstance(m, Ack | Echo)]
    assert len(spoken) == 2
    assert all(9.5 < at < 12 for at, _ in spoken)


def test_it_outlasts_a_collector_that_is_away_and_loses_nothing(fleet, tmp_path):
    collector = fleet.collector()
    agent = edge(fleet, heartbeat_s=1)
    until(lambda: node(fleet).get("state") in RATED, 10, "the node is rated")
    collector.kill()
    collector.wait()
    time.sleep(3)
    assert agent.poll() is None
    fleet.collector()
    until(lambda: node(fleet).get("state") in RATED, 60, "the node is back")
    assert fleet.ask("/v1/nodes/box")["gaps"] == 0
    log = fleet.log("box")
    assert log.count("event=connected") == 2
    assert "Traceback" not in log


def test_nothing_is_written_after_enrolment(fleet, tmp_path):
    fleet.collector()
    edge(fleet)
    until(lambda: node(fleet).get("state") in RATED, 10, "the node is rated")
    state = tmp_path / "box"
    before = {p: p.stat().st_mtime_ns for p in state.iterdir()}
    assert [p.name for p in before] == ["identity.json"]
    time.sleep(1)
    assert {p: p.stat().st_mtime_ns for p in state.iterdir()} == before


def test_targets_are_pinged_in_the_same_loop(fleet):
    fleet.collector()
    agent = edge(fleet, targets=json.dumps(["127.0.0.1"]), heartbeat_s=1)
    until(
        lambda: (
            len(fleet.ask("/v1/nodes/box").get("links", [])) == 2
            and fleet.ask("/v1/nodes/box")["links"][1]["rtt_us"] is not None
            if node(fleet)
            else False
        ),
        15,
        "the target is measured",
    )
    link = fleet.ask("/v1/nodes/box")["links"][1]
    assert link["to"] == "127.0.0.1"
    assert link["loss"] == 0
    assert len(list(Path(f"/proc/{agent.pid}/task").iterdir())) == 1


def test_over_tls_with_one_pinned_authority(fleet, tmp_path, need):
    openssl = need("openssl")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", str(key), "-out", str(cert)],
        check=True,
        capture_output=True,
    )  # fmt: skip
    fleet.collector(tls_cert=cert, tls_key=key)
    until(lambda: "collector_started" in fleet.log("collector"), 10, "it serves")
    address = f"localhost:{fleet.frames_port}"
    edge(fleet, collector=address, tls="true", tls_ca=cert)
    until(lambda: "event=connected" in fleet.log("box"), 15, "it is welcomed")
    fleet.agent(
        "stranger",
        mode="edge",
        collector=address,
        tls="true",  # trusts the system's authorities, of which ours is none
    )
    until(lambda: "tls_ca" in fleet.log("stranger"), 15, "it says what to do")
    fleet.agent("plain", mode="edge", collector=address)
    until(lambda: "tls = true" in fleet.log("plain"), 40, "it says what to do")


def test_a_host_without_psi_and_without_a_network_still_samples(fleet, fixtures):
    tree = fixtures / "no-psi"
    agent = edge(fleet, procfs=tree / "proc", sysfs=tree / "sys", ring_kib=16)
    until(lambda: "cannot_connect" in fleet.log("box"), 10, "nobody answers")
    time.sleep(1)
    assert agent.poll() is None
    assert fleet.log("box").count("cannot_connect") == 1  # said once, not each try
    assert fleet.stop(agent) == 0


def _safe(fleet):
    try:
        return fleet.ask("/v1/nodes")
    except OSError:
        return None
