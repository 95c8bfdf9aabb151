"""A real collector with a real agent, and servers that are no collector."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_server
from typing import NamedTuple

import pytest

from trimtab.client import ApiError, Client
from trimtab.console.child import Child

UP_S = 30.0


class Collector(NamedTuple):
    url: str
    frames: str
    config: Path

    def token(self, scope: str) -> str:
        command = ["token", "create", "--scope", scope, "--config", str(self.config)]
        return subprocess.run(
            [sys.executable, "-m", "trimtab.collector", *command],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()


def free_ports(n: int) -> list[int]:
    with ExitStack() as held:
        sockets = [
            held.enter_context(create_server(("127.0.0.1", 0))) for _ in range(n)
        ]
        return [int(each.getsockname()[1]) for each in sockets]


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + UP_S
    while not true():
        assert time.monotonic() < deadline, f"waited {UP_S} s in vain: {what}"
        time.sleep(0.05)


class Certificate(NamedTuple):
    """One that vouches for itself, and its key."""

    cert: Path
    key: Path


Certify = Callable[[str], Certificate]


@pytest.fixture(scope="session")
def certify(tmp_path_factory: pytest.TempPathFactory) -> Certify:
    """Return what makes a certificate for a name such as IP:127.0.0.1."""
    openssl = shutil.which("openssl")
    if openssl is None:
        assert os.environ.get("TRIMTAB_REQUIRE_ALL") != "1", "openssl is not installed"
        pytest.skip("openssl is not installed")

    def make(name: str) -> Certificate:
        folder = tmp_path_factory.mktemp("certificate")
        made = Certificate(folder / "cert.pem", folder / "key.pem")
        command = [openssl, "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"]
        command += ["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=test"]
        command += ["-addext", f"subjectAltName={name}"]
        command += ["-out", str(made.cert), "-keyout", str(made.key)]
        subprocess.run(command, check=True, capture_output=True)
        return made

    return make


def start_collector(
    folder: Path, certificate: Certificate | None = None
) -> tuple[Collector, Child]:
    http, frames = free_ports(2)
    config = folder / "collector.toml"
    config.write_text(
        f'state_dir = "{folder}"\n'
        f'http_listen = "127.0.0.1:{http}"\n'
        f'frames_listen = "127.0.0.1:{frames}"\n'
    )
    if certificate is not None:
        with config.open("a") as more:
            more.write(f'tls_cert = "{certificate.cert}"\n')
            more.write(f'tls_key = "{certificate.key}"\n')
    command = ["trimtab.collector", "run", "--config", str(config)]
    child = Child("collector", command, {}, folder / "collector.log")
    until(lambda: child.up, "the collector's start")
    scheme = "http" if certificate is None else "https"
    url = f"{scheme}://127.0.0.1:{http}"
    return Collector(url, f"127.0.0.1:{frames}", config), child


def start_agent(folder: Path, collector: Collector, name: str) -> Child:
    command = ["trimtab.agent", "run", "--config", "/dev/null", "--name", name]
    command += ["--state-dir", str(folder / name), "--collector", collector.frames]
    return Child("agent", command, {}, folder / f"{name}.log")


def settled(client: Client, name: str) -> bool:
    try:
        node = client.node(name)
        return node.state != "joining" and client.history(name).time != ()
    except ApiError:
        return False


@pytest.fixture(scope="session")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """An open collector that knows one node, host-one, with a score."""
    folder = tmp_path_factory.mktemp("open")
    collector, child = start_collector(folder)
    agent = start_agent(folder, collector, "host-one")
    try:
        with Client(collector.url) as client:
            assert client.ready().store == "ok"
            until(lambda: settled(client, "host-one"), "a node at work")
        yield collector
    finally:
        for each in (agent, child):
            each.stop(time.monotonic() + 5)


class Secure(NamedTuple):
    collector: Collector
    certificate: Certificate


@pytest.fixture(scope="session")
def secure(
    tmp_path_factory: pytest.TempPathFactory, certify: Certify
) -> Iterator[Secure]:
    """A collector that speaks TLS, with an authority of its own."""
    certificate = certify("IP:127.0.0.1")
    collector, child = start_collector(tmp_path_factory.mktemp("tls"), certificate)
    yield Secure(collector, certificate)
    child.stop(time.monotonic() + 5)


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[tuple[Collector, str]]:
    """A collector that wants a token, and a token of scope read."""
    collector, child = start_collector(tmp_path)
    token = collector.token("read")
    try:
        with Client(collector.url) as client:
            until(lambda: refuses(client), "the token to be taken up")
        yield collector, token
    finally:
        child.stop(time.monotonic() + 5)


def refuses(client: Client) -> bool:
    try:
        client.nodes()
    except ApiError as exc:
        return exc.status == 401
    return False


class Stray(NamedTuple):
    """A server that answers everything alike, and what it was asked."""

    url: str
    asked: list[str]


@pytest.fixture
def stray() -> Iterator[Callable[..., Stray]]:
    servers: list[ThreadingHTTPServer] = []

    def start(status: int, kind: str, body: str, **headers: str) -> Stray:
        asked: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(f"{self.command} {self.path}")
                self.send_response(status)
                content = body.encode()
                told = {"Content-Type": kind, "Content-Length": str(len(content))}
                for name, value in (told | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET  # noqa: N815 - named by the library

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return Stray(f"http://127.0.0.1:{server.server_port}", asked)

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
