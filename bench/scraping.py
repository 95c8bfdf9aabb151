"""A peer for bench/ingest.py: Prometheus, scraping as many values from exporters.

One small server plays all the exporters: each answers with the same number of
values as a frame has columns, changing from scrape to scrape. What is measured
is the processor time of Prometheus alone, storage included.
"""

import http.server
import itertools
import shutil
import subprocess
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROGRAM = "prometheus"
WARM_UP_S = 5.0


class Absent(RuntimeError):
    """Prometheus is not here; the text says how to get it."""


class Scraped(NamedTuple):
    """What Prometheus took for what it scraped."""

    version: str
    targets: int
    values_s: float
    cpu_us_value: float  # processor time a value, in microseconds


class _Exporters(http.server.ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Let go of a scrape that Prometheus did not wait for."""


def exporters(port: int, values: int) -> http.server.ThreadingHTTPServer:
    """Return a running server whose every path is an exporter's page."""
    scrapes = itertools.count()

    class Page(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            number = next(scrapes)
            body = "".join(
                f"node_value_{i} {(number * 7 + i) % 1000 / 1000}\n"
                for i in range(values)
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = _Exporters(("127.0.0.1", port), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _config(port: int, targets: int) -> str:
    groups = "\n".join(
        f"  - targets: ['127.0.0.1:{port}']\n"
        f"    labels: {{__metrics_path__: '/{n}', node: 'n{n}'}}"
        for n in range(targets)
    )
    return (
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
        f"scrape_configs:\n- job_name: nodes\n  static_configs:\n{groups}\n"
    )


def scraped(
    folder: Path, ports: tuple[int, int], targets: int, values: int, seconds: float
) -> Scraped:
    """Return what Prometheus takes for so many values a target each second."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise Absent("apt-get install prometheus")
    told = subprocess.run([program, "--version"], capture_output=True, text=True)
    config = folder / "prometheus.yml"
    config.write_text(_config(ports[0], targets))
    server = exporters(ports[0], values)
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{ports[1]}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        time.sleep(WARM_UP_S)
        before, cpu_before_s, begun = _appended(ports[1]), cpu_s(process.pid), _now()
        time.sleep(seconds)
        taken = _appended(ports[1]) - before
        took_s, passed_s = cpu_s(process.pid) - cpu_before_s, _now() - begun
    finally:
        process.kill()
        process.wait()
        server.shutdown()
        server.server_close()
    return Scraped(
        version=" ".join((told.stdout or told.stderr).split()[:3]).rstrip(","),
        targets=targets,
        values_s=round(taken / passed_s),
        cpu_us_value=round(took_s / taken * 1e6, 2),
    )


def cpu_s(pid: int) -> float:
    """Return the processor time that a process and its threads took so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_S


def _now() -> float:
    return time.monotonic()


def _appended(port: int) -> float:
    """Return how many values Prometheus has stored."""
    name = "prometheus_tsdb_head_samples_appended_total"
    with (
        suppress(OSError),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page,
    ):
        lines = page.read().decode().splitlines()
        return sum(float(li.split()[-1]) for li in lines if li.startswith(name))
    return 0.0


_TICKS_S = 100  # USER_HZ, as procfs has it on every Linux
