"""The agents beside ours, each as its package starts it, sampling at 1 Hz.

node_exporter answers scrapes, collectd and zabbix-agent2 send to a server that
stands in for theirs, netdata keeps its samples and glances writes a file.
"""

import http.client
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from .report import say
from .subjects import Missing

SEVEN = ("cpu", "meminfo", "loadavg", "pressure", "vmstat", "netdev", "stat")


def program(name: str, package: str) -> str:
    """Return the path of a program; Missing names its package."""
    sbin = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin"))
    found = shutil.which(name, path=sbin)
    if found is None:
        raise Missing(f"{name}: apt-get install --no-install-recommends {package}")
    return found


class Peer:
    """A peer with its folder and ports; the parts that differ are below."""

    name = ""
    note = ""

    def __init__(self, folder: Path, free_port: Callable[[], int]) -> None:
        self.folder = folder / self.name.replace(" ", "-")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()

    def start(self) -> subprocess.Popen[bytes]:
        """Start it; Missing where it can't be had."""
        return self.begin(self.command())

    def command(self) -> list[str]:
        """Return what to run."""
        raise NotImplementedError

    def begin(self, argv: list[str]) -> subprocess.Popen[bytes]:
        """Start it with its output in a log; Missing if that can't be."""
        with (self.folder / "log").open("ab") as log:
            try:
                return subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.folder,
                )
            except OSError as exc:
                raise Missing(f"{argv[0]}: can't be started: {exc.strerror}") from exc

    def tick(self) -> None:
        """Nothing to do: most sample by themselves."""

    def sent_bytes(self) -> int | None:
        """None: nothing leaves it."""
        return None

    def close(self) -> None:
        """Nothing stands around it."""


class NodeExporter(Peer):
    """Scraped over one connection that stays open."""

    name = "node_exporter"
    note = "seven collectors, scraped"
    headers: Mapping[str, str] = {}

    def __init__(self, folder: Path, free_port: Callable[[], int]) -> None:
        super().__init__(folder, free_port)
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port)
        self._scraped = 0

    def command(self) -> list[str]:
        """Return the exporter with its seven collectors."""
        self._connection.close()
        return [
            program("prometheus-node-exporter", "prometheus-node-exporter"),
            "--collector.disable-defaults",
            *(f"--collector.{name}" for name in SEVEN),
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]

    def seen(self) -> bool:
        """Whether it answers a scrape."""
        try:
            self.tick()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return False
        return True

    def tick(self) -> None:
        """Scrape it."""
        self._connection.request("GET", "/metrics", headers=dict(self.headers))
        answer = self._connection.getresponse()
        body = answer.read()
        self._scraped += len(body) + len(str(answer.headers))

    def sent_bytes(self) -> int | None:
        """Return the bytes of all answers, headers included."""
        return self._scraped

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


class NodeExporterGzip(NodeExporter):
    """As Prometheus scrapes it."""

    name = "node_exporter gzip"
    note = "the same, compressed as for Prometheus"
    headers: Mapping[str, str] = {"Accept-Encoding": "gzip"}


COLLECTD = """
Hostname "bench"
FQDNLookup false
Interval 1
BaseDir "{folder}"
PIDFile "{folder}/pid"
PluginDir "/usr/lib/collectd"
LoadPlugin cpu
LoadPlugin load
LoadPlugin memory
LoadPlugin vmem
LoadPlugin swap
LoadPlugin interface
LoadPlugin contextswitch
LoadPlugin network
<Plugin network>
  Server "127.0.0.1" "{port}"
</Plugin>
"""


class Collectd(Peer):
    """Sends datagrams to a socket of ours."""

    name = "collectd"
    note = "cpu load memory vmem swap interface contextswitch; no pressure"

    def __init__(self, folder: Path, free_port: Callable[[], int]) -> None:
        super().__init__(folder, free_port)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self._arrived = 0

    def command(self) -> list[str]:
        """Return the daemon with a configuration of ours."""
        self._drain()
        self._arrived = 0
        config = self.folder / "collectd.conf"
        port = self._socket.getsockname()[1]
        config.write_text(COLLECTD.format(folder=self.folder, port=port))
        return [program("collectd", "collectd-core"), "-f", "-C", str(config)]

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            while True:
                self._arrived += len(self._socket.recv(65_536))

    def seen(self) -> bool:
        """Whether a datagram has come."""
        self._drain()
        return self._arrived > 0

    def tick(self) -> None:
        """Take the datagrams off the socket."""
        self._drain()

    def sent_bytes(self) -> int | None:
        """Return the bytes of all datagrams."""
        self._drain()
        return self._arrived

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


ZABBIX = """
LogType=console
DebugLevel=2
Hostname=bench
Server=127.0.0.1
ListenIP=127.0.0.1
ListenPort={listen}
ServerActive=127.0.0.1:{port}
BufferSend=1
PidFile={folder}/pid
ControlSocket={folder}/control
PluginSocket={folder}/plugin
"""
ZABBIX_ITEMS = (
    "system.cpu.util[,user]",
    "system.cpu.util[,steal]",
    "system.cpu.load[,avg1]",
    "proc.num[,,run]",
    "vm.memory.size[available]",
    "system.swap.in[,pages]",
    "system.swap.out[,pages]",
    "net.if.in[eth0]",
    "net.if.out[eth0]",
    "vfs.file.contents[/proc/pressure/cpu]",
    "vfs.file.contents[/proc/pressure/memory]",
    "vfs.file.contents[/proc/pressure/io]",
)


class Zabbix(Peer):
    """Active checks: it asks our server what to measure, and sends it there."""

    name = "zabbix-agent2"
    note = f"{len(ZABBIX_ITEMS)} active items a second"

    def __init__(self, folder: Path, free_port: Callable[[], int]) -> None:
        super().__init__(folder, free_port)
        self._server = socket.create_server(("127.0.0.1", self.port))
        self._arrived = 0
        self._readings = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def command(self) -> list[str]:
        """Return the agent with a configuration of ours."""
        self._readings = self._arrived = 0
        config = self.folder / "agent.conf"
        # It takes no port of the ephemeral range, and nobody asks it there.
        text = ZABBIX.format(
            listen=10_000 + self.port % 20_000, port=self.port, folder=self.folder
        )
        config.write_text(text)
        return [program("zabbix_agent2", "zabbix-agent2"), "-f", "-c", str(config)]

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:  # closed
                return
            with connection, suppress(OSError, ValueError, EOFError):
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        file = connection.makefile("rb")
        head = file.read(13)  # "ZBXD", flags, length, reserved or whole length
        if len(head) < 13:
            raise EOFError
        flags, size, _ = struct.unpack("<xxxxBII", head)
        body = file.read(size)
        self._arrived += len(head) + len(body)
        asked = json.loads(zlib.decompress(body) if flags & 2 else body)
        answer: dict[str, object] = {"response": "success"}
        if asked["request"] == "active checks":
            answer["data"] = [
                {"key": key, "itemid": n, "delay": "1s", "lastlogsize": 0, "mtime": 0}
                for n, key in enumerate(ZABBIX_ITEMS, 1)
            ]
        else:
            answer["info"] = "taken"
            self._readings += len(asked.get("data", ()))
        text = json.dumps(answer).encode()
        connection.sendall(struct.pack("<4sBII", b"ZBXD", 1, len(text), 0) + text)

    def seen(self) -> bool:
        """Whether a value has come."""
        return self._readings > 0

    def sent_bytes(self) -> int | None:
        """Return the bytes of all that it said."""
        return self._arrived

    def close(self) -> None:
        """Close the server."""
        self._server.close()


NETDATA = """
[global]
  run as user = {user}
  hostname = bench
[db]
  mode = ram
  update every = 1
[web]
  bind to = 127.0.0.1:{port}
[directories]
  cache = {folder}/cache
  lib = {folder}/lib
  log = {folder}/log.d
[logs]
  access = none
[registry]
  enabled = no
"""


class Netdata(Peer):
    """Samples for itself; nothing leaves it."""

    name = "netdata"
    note = "plugins as packaged, memory only"

    def command(self) -> list[str]:
        """Return the daemon with a configuration of ours."""
        import getpass

        for name in ("cache", "lib", "log.d"):
            (self.folder / name).mkdir(exist_ok=True)
        config = self.folder / "netdata.conf"
        config.write_text(
            NETDATA.format(user=getpass.getuser(), port=self.port, folder=self.folder)
        )
        return [program("netdata", "netdata-core"), "-D", "-c", str(config)]

    def seen(self) -> bool:
        """Whether it tells of a sample."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", "/api/v1/data?chart=system.cpu&after=-2")
            answer = connection.getresponse()
            body = answer.read()
            return answer.status == 200 and bool(json.loads(body)["data"])
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            return False
        finally:
            connection.close()


class Glances(Peer):
    """Writes its samples into a CSV file."""

    name = "glances"
    note = "quiet, export to CSV, process list as by default"
    program: str | None = None  # of --glances; None: our own environment's

    def command(self) -> list[str]:
        """Return glances without a screen."""
        self._csv.unlink(missing_ok=True)
        return [
            self.program or str(glances()),
            *("--quiet", "--disable-check-update", "--time", "1"),
            *("--export", "csv", "--export-csv-file", str(self._csv)),
        ]

    @property
    def _csv(self) -> Path:
        return self.folder / "glances.csv"

    def seen(self) -> bool:
        """Whether a line follows the heading."""
        with suppress(OSError):
            return self._csv.read_bytes().count(b"\n") > 1
        return False

    def sent_bytes(self) -> int | None:
        """Return the size of the file."""
        return self._csv.stat().st_size


def glances() -> Path:
    """Return glances of an environment of its own, made at the first call."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    environment = cache / "trimtab-bench" / "glances"
    found = environment / "bin" / "glances"
    if not found.exists():
        say(f"installing glances into {environment.name}, once")
        try:
            subprocess.run([sys.executable, "-m", "venv", environment], check=True)
            subprocess.run(
                [environment / "bin" / "pip", "install", "--quiet", "glances"],
                check=True,
                stdout=sys.stderr,
            )
        except (OSError, subprocess.CalledProcessError) as exc:
            raise Missing(f"glances from PyPI can't be installed: {exc}") from exc
    return found


PEERS = (NodeExporter, NodeExporterGzip, Collectd, Zabbix, Netdata, Glances)
