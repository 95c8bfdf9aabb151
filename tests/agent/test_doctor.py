"""What doctor says of the way to collectors and targets."""

import socket
import threading

import pytest
from tests.processes import until

from trimtab.agent import doctor
from trimtab.agent.doctor import Verdict
from trimtab.agent.settings import load


def network(tmp_path, **settings):
    given = {"state_dir": str(tmp_path / "state"), "gpu": False, **settings}
    return doctor._network(load(None, {}, given))


@pytest.fixture
def speaker():
    """Return a function that listens and says the same to each who connects."""
    opened = []

    def listen(says):
        server = socket.create_server(("127.0.0.1", 0))
        opened.append(server)

        def serve():
            peer, _ = server.accept()
            with peer:
                peer.recv(100)
                peer.sendall(says)

        threading.Thread(target=serve, daemon=True).start()
        return f"127.0.0.1:{server.getsockname()[1]}"

    yield listen
    for server in opened:
        server.close()


def test_a_collector_is_known_by_how_it_refuses_and_no_node_is_made(fleet, tmp_path):
    fleet.collector()
    address = f"127.0.0.1:{fleet.frames_port}"
    until(lambda: "collector_started" in fleet.log("collector"), 10, "it serves")
    (finding,) = network(tmp_path, collector=address)
    assert finding.verdict is Verdict.GOOD
    assert finding.says == f"{address} speaks trimtab"
    assert fleet.nodes() == {}


def test_each_collector_that_can_not_be_reached_has_its_reason(
    tmp_path, free_port, speaker
):
    findings = network(
        tmp_path,
        collector=[
            f"127.0.0.1:{free_port()}",
            "no.such.name.invalid:7766",
            speaker(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            speaker(b""),
        ],
    )
    assert {finding.verdict for finding in findings} == {Verdict.DEGRADED}
    refused, unknown, web, silent = (finding.says for finding in findings)
    assert "does trimtab-collector run there" in refused
    assert "no.such.name.invalid" in unknown
    assert "this looks like the HTTP port" in web
    assert "closed the connection" in silent


def test_a_collector_that_says_nothing_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "REACH_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        (finding,) = network(tmp_path, collector=address)
    assert finding.verdict is Verdict.DEGRADED
    assert "no answer: no welcome" in finding.says
    assert "tls = true" in finding.says


def test_a_target_is_pinged_and_how_is_told(tmp_path, free_port):
    collector = f"127.0.0.1:{free_port()}"
    targets = ["127.0.0.1", "no.such.name.invalid"]
    _, near, nowhere = network(tmp_path, collector=collector, targets=targets)
    assert near.verdict is Verdict.GOOD
    assert " ms by " in near.says
    assert nowhere.verdict is Verdict.DEGRADED
    assert "no answer" in nowhere.says
