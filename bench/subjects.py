"""What is measured: a program, how it is started, and how its samples are seen.

A subject samples once a second, by itself or because `tick` asks it to.
"""

import http.client
import ssl
import subprocess
from pathlib import Path
from typing import Protocol

from tests.processes import Fleet, until


class Missing(RuntimeError):
    """The program is not here; the text says how to get it."""


class Subject(Protocol):
    """One program under measurement."""

    name: str
    note: str

    def start(self) -> subprocess.Popen[bytes]:
        """Start it; raises Missing where it can't be had."""

    def seen(self) -> bool:
        """Whether a sample of this start has arrived."""

    def tick(self) -> None:
        """Do what makes it sample, once a second."""

    def sent_bytes(self) -> int | None:
        """Return the bytes that left it so far; None if none do."""

    def close(self) -> None:
        """End what stands around it."""


class Ours:
    """Our agent, over TLS to a real collector of its own."""

    def __init__(
        self,
        name: str,
        folder: Path,
        fleet: Fleet,
        certificates: "Certificates",
        *,
        mode: str,
        note: str,
        settings: dict[str, object],
    ) -> None:
        self.name = name
        self.note = note
        self._fleet = fleet
        self._settings = {"mode": mode, "gpu": "false", "tls": "true", **settings}
        self._before = 0
        fleet.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._collector = Collector(fleet, certificates)

    def start(self) -> subprocess.Popen[bytes]:
        """Start the agent."""
        self._before = self.frames()
        return self._fleet.agent("agent", **self._settings)

    def frames(self) -> int:
        """Return how many frames the collector has taken."""
        return self._collector.frames()

    def seen(self) -> bool:
        """Whether the collector took a frame of this start."""
        return self.frames() > self._before

    def tick(self) -> None:
        """Nothing to do: it samples by itself."""

    def sent_bytes(self) -> int | None:
        """Return what the collector's kernel acknowledged, TLS included."""
        return acknowledged(self._fleet.frames_port)

    def close(self) -> None:
        """End the collector, and the agent if it still runs."""
        self._fleet.close()


class Collector:
    """A real collector of the benchmark's own, and what it has taken."""

    def __init__(self, fleet: Fleet, certificates: "Certificates | None") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", fleet.http_port)
        over_tls: dict[str, object] = {}
        if certificates is not None:
            over_tls = certificates.of_collector()
            trusted = ssl.create_default_context(cafile=certificates.authority)
            self._connection = http.client.HTTPSConnection(
                "127.0.0.1", fleet.http_port, context=trusted
            )
        self._process = fleet.collector(**over_tls)
        until(self.answers, 20, "the collector answers")

    def answers(self) -> bool:
        """Whether it serves yet; Missing if it ended."""
        if self._process.poll() is not None:
            raise Missing("the collector ended at once; its log says why")
        try:
            self.frames()
        except OSError:
            return False
        return True

    def frames(self) -> int:
        """Return how many frames it has taken."""
        try:
            self._connection.request("GET", "/metrics")
            text = self._connection.getresponse().read()
        except (OSError, http.client.HTTPException) as exc:
            self._connection.close()
            raise OSError(f"the collector does not answer: {exc}") from exc
        for line in text.splitlines():
            if line.startswith(b"trimtab_frames_total "):
                return int(float(line.split()[1]))
        return 0


def acknowledged(port: int) -> int | None:
    """Return bytes_acked of the connections to a port; None without ss."""
    try:
        text = subprocess.run(
            ["ss", "-tinH", "state", "established", f"dport = :{port}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    words = (word.partition(":") for word in text.split())
    return sum(int(value) for key, _, value in words if key == "bytes_acked")


class Certificates:
    """An authority of our own and a collector's certificate under it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.authority = folder / "ca.pem"
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        self._openssl(
            *("req", "-x509", *key, "-days", "2", "-subj", "/CN=bench authority"),
            *("-keyout", "ca.key", "-out", "ca.pem"),
        )
        self._openssl(
            *("req", *key, "-subj", "/CN=collector"),
            *("-keyout", "collector.key", "-out", "collector.csr"),
        )
        (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
        self._openssl(
            *("x509", "-req", "-in", "collector.csr", "-CA", "ca.pem"),
            *("-CAkey", "ca.key", "-CAcreateserial", "-days", "2"),
            *("-extfile", "names", "-out", "collector.pem"),
        )

    def of_collector(self) -> dict[str, object]:
        """Return the collector's settings."""
        return {
            "tls_cert": self._folder / "collector.pem",
            "tls_key": self._folder / "collector.key",
        }

    def bundle(self) -> Path:
        """Return the system's authorities with ours among them."""
        system = ssl.get_default_verify_paths().cafile
        text = Path(system).read_text() if system else ""
        if not text:
            raise Missing("no bundle of authorities: install ca-certificates")
        path = self._folder / "bundle.pem"
        path.write_text(text + self.authority.read_text())
        return path

    def _openssl(self, *argv: str) -> None:
        try:
            subprocess.run(
                ["openssl", *argv], cwd=self._folder, check=True, capture_output=True
            )
        except FileNotFoundError as exc:
            raise Missing("openssl: apt-get install openssl") from exc
