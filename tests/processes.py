"""Real collectors and agents as processes on loopback, ended by their pid."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


class Fleet:
    """The processes of one test; `close` ends whatever still runs."""

    def __init__(self, folder: Path, free_port: Callable[[], int]) -> None:
        self.folder = folder
        self.frames_port = free_port()
        self.http_port = free_port()
        self.running: list[subprocess.Popen[bytes]] = []

    def _start(
        self, name: str, *argv: str, **environment: str
    ) -> "subprocess.Popen[bytes]":
        clean = {k: v for k, v in os.environ.items() if not k.startswith("TRIMTAB_")}
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *argv],
                env=clean | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.running.append(process)
        return process

    def collector(self, **settings: object) -> "subprocess.Popen[bytes]":
        """Start a collector; settings go in as TRIMTAB_… variables."""
        return self._start(
            "collector",
            "trimtab.collector",
            "run",
            TRIMTAB_FRAMES_LISTEN=f"127.0.0.1:{self.frames_port}",
            TRIMTAB_HTTP_LISTEN=f"127.0.0.1:{self.http_port}",
            TRIMTAB_STATE_DIR=str(self.folder / "collector"),
            **{f"TRIMTAB_{k.upper()}": str(v) for k, v in settings.items()},
        )

    def agent(self, name: str, **settings: object) -> "subprocess.Popen[bytes]":
        """Start an agent of that name."""
        own = {
            "collector": f"127.0.0.1:{self.frames_port}",
            "name": name,
            "state_dir": self.folder / name,
        }
        given = {f"TRIMTAB_{k.upper()}": str(v) for k, v in (own | settings).items()}
        return self._start(name, "trimtab.agent", "run", **given)

    def log(self, name: str) -> str:
        """Return what a process has said so far."""
        return (self.folder / f"{name}.log").read_text()

    def ask(self, path: str, body: object = None) -> Any:
        """Return the JSON answer; a problem document is an answer too."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.http_port}{path}",
            data=None if body is None else json.dumps(body).encode(),
        )
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as problem:
            return json.load(problem)

    def nodes(self) -> dict[str, Any]:
        """Return the first 1,000 by name; empty while nobody answers."""
        with suppress(OSError):
            return {
                n["node"]: n for n in self.ask("/v1/nodes?limit=1000").get("nodes", ())
            }
        return {}

    def stop(self, process: "subprocess.Popen[bytes]") -> int:
        """End a process in order; return its exit status."""
        process.send_signal(signal.SIGTERM)
        return process.wait(10)

    def close(self) -> None:
        """End whatever still runs."""
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait()


def until(condition: Callable[[], object], timeout_s: float, what: str) -> float:
    """Wait for it; return how long that took. AssertionError names it."""
    started = time.monotonic()
    while not condition():
        waited = time.monotonic() - started
        assert waited < timeout_s, f"{what}: not within {timeout_s:g} s"
        time.sleep(0.02)
    return time.monotonic() - started


def rss_kib(pid: int) -> int:
    """Return a process's resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError(f"process {pid} has no VmRSS")
