"""What a caller is told when something is in the way."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from trimtab.client import ApiError, Client, NoCollector, WrongServer

from .conftest import Collector, Stray, free_ports

TOKEN = "tt_very-secret"


def test_where_nobody_listens_it_says_how_to_start_one() -> None:
    (port,) = free_ports(1)
    with pytest.raises(NoCollector) as caught:
        Client(f"127.0.0.1:{port}", token=TOKEN).nodes()
    text = str(caught.value)
    assert f"no collector answers at http://127.0.0.1:{port}" in text
    assert "Connection refused" in text
    assert "trimtab-collector run" in text
    assert "TRIMTAB_URL" in text


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (200, "text/html", "<html>welcome</html>"),
        (404, "text/html", "<html>nothing</html>"),
        (502, "text/plain", "bad gateway"),
        (200, "application/json", "[]"),
        (200, "application/json", '{"nodes": [{"node": 7}]}'),
        (200, "application/json", '{"nodes": [{"node": NaN}]}'),
        (200, "application/json", "[" * 100_000),
        (404, "application/json", '{"error": "no"}'),
        (302, "text/html", ""),
        (200, "application/json", ""),
    ],
)
def test_a_server_that_is_no_collector_is_said_to_be_none(
    stray: Callable[..., Stray], status: int, kind: str, body: str
) -> None:
    server = stray(status, kind, body)
    with pytest.raises(
        WrongServer, match=rf"^GET {server.url}/v1/nodes\?limit=1000: no"
    ):
        Client(server.url).nodes()


def test_a_redirect_is_not_followed_with_the_token(
    stray: Callable[..., Stray],
) -> None:
    elsewhere = stray(200, "application/json", "{}")
    server = stray(302, "text/html", "", Location=f"{elsewhere.url}/v1/nodes")
    with pytest.raises(WrongServer, match="302") as caught:
        Client(server.url, token=TOKEN).nodes()
    assert f"It points to '{elsewhere.url}/v1/nodes'" in str(caught.value)
    assert elsewhere.asked == []


def test_a_problem_is_told_with_status_and_detail(stray: Callable[..., Stray]) -> None:
    problem = {"type": "about:blank", "title": "x", "status": 503, "detail": "so busy"}
    server = stray(503, "application/problem+json", json.dumps(problem))
    with pytest.raises(ApiError) as caught:
        Client(server.url).ready()
    expected = f"GET {server.url}/readyz: 503 Service Unavailable: so busy"
    assert str(caught.value) == expected
    assert caught.value.problem == problem


def test_a_token_is_wanted_and_the_right_one_admits(
    closed: tuple[Collector, str],
) -> None:
    collector, token = closed
    with Client(collector.url, token=token) as client:
        assert client.nodes() == ()
        with pytest.raises(ApiError) as narrow:
            client.route({})  # scope read does not route
    assert narrow.value.status == 403
    assert "the token given lacks the scope: a bearer token of scope route" in (
        str(narrow.value)
    )
    with pytest.raises(ApiError, match=r"401 Unauthorized: no token was given: "):
        Client(collector.url).nodes()
    with pytest.raises(ApiError, match="is not known there; it may be revoked") as odd:
        Client(collector.url, token=TOKEN).nodes()
    assert odd.value.status == 401
    assert TOKEN not in f"{odd.value!r} {odd.value.problem}"


def test_an_open_collector_asked_by_a_foreign_name_says_how_to_ask(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
    port = int(collector.url.rpartition(":")[2])
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_: [(*address, ("127.0.0.1", port))]
    )
    with pytest.raises(ApiError) as caught:
        Client(f"http://fleet.example:{port}").nodes()
    text = str(caught.value)
    assert caught.value.status == 403
    assert "an open collector answers this host alone, not 'fleet.example" in text
    assert "set --url or TRIMTAB_URL to a loopback address; from elsewhere" in text


def test_no_repr_holds_the_token() -> None:
    assert repr(Client("fleet.example", token=TOKEN)) == (
        "Client('http://fleet.example:7767')"
    )


@pytest.mark.parametrize("token", ["", "two words", "tt_\r\nX: y", "tt_ü"])
def test_what_can_be_no_token_is_refused_unseen(token: str) -> None:
    with pytest.raises(ValueError, match=r"^a token is printable ASCII") as caught:
        Client(token=token)
    assert not token or token not in str(caught.value)


class Resetting:
    """A server that resets every connection once it has been asked something."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            connection.recv(1)
            linger = struct.pack("ii", 1, 0)  # closing then sends a reset
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def resetting() -> Iterator[Resetting]:
    server = Resetting()
    yield server
    server.close()


def test_a_read_is_asked_once_more_when_the_connection_breaks(
    resetting: Resetting,
) -> None:
    with pytest.raises(NoCollector, match="the connection broke"):
        Client(resetting.url).nodes()
    assert resetting.connections == 2


def test_a_task_is_never_sent_twice(resetting: Resetting) -> None:
    with pytest.raises(NoCollector, match="the connection broke"):
        Client(resetting.url).route({})
    assert resetting.connections == 1


def test_the_port_of_frames_is_told_from_that_of_the_api(collector: Collector) -> None:
    with pytest.raises(NoCollector, match="the API is on port 7767"):
        Client(collector.frames).nodes()


def test_a_server_that_never_answers_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(NoCollector, match="no answer in time"):
            Client(url, timeout_s=0.2).nodes()
