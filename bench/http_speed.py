"""Routed decisions a second over HTTP, beside a bare aiohttp handler.

wrk on one core asks a collector on another: one task a request, then batches
of 100. A handler of aiohttp that only parses the same body and answers as
many bytes runs in turn with it, on the same core.

    python bench/http_speed.py --seconds 10 --rounds 3
    python bench/http_speed.py --nodes 1000 --json

Wanted: 10,000 decisions/s singly and 40,000 in batches, p99 under 10 ms, and
at least 0.70 of the bare handler's requests.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.report import Report, as_installed, say, table
from tests.processes import Fleet, until
from tests.senders import Sender, turn

BATCH = 100
CONNECTIONS = 16
TASK = {"class": "interactive", "latency_budget_ms": 100, "cpu": 1}
_LUA = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{body}'
done = function(summary, latency, requests)
  io.write(string.format("RESULT %d %d %d %.1f %d\\n", summary.requests,
    summary.duration, latency:percentile(99), latency.mean,
    summary.errors.status + summary.errors.connect + summary.errors.read +
    summary.errors.timeout))
end
"""


class Figure(NamedTuple):
    """What wrk saw."""

    requests_per_s: float
    p99_ms: float
    errors: int


def wrk(url: str, body: object, seconds: float, folder: Path, core: int) -> Figure:
    """Ask for so long; errors are answers that are no success."""
    script = folder / "ask.lua"
    script.write_text(_LUA.replace("{body}", json.dumps(body)))
    out = subprocess.run(
        [
            *("taskset", "-c", str(core), "wrk", "--latency", "-t1"),
            *(f"-c{CONNECTIONS}", f"-d{seconds:g}s", "-s", str(script), url),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = re.search(r"RESULT (\d+) (\d+) (\d+) (\S+) (\d+)", out)
    if found is None:
        raise SystemExit(f"wrk gave no result:\n{out}")
    requests, took_us, p99_us = (int(found[i]) for i in (1, 2, 3))
    return Figure(requests / took_us * 1e6, p99_us / 1000, int(found[5]))


def serve_bare(port: int, answer_bytes: int) -> None:
    """Serve the peer: parse the body, answer as many bytes."""
    import uvloop
    from aiohttp import web

    answer = {"decision": "0" * 16, "node": "n1", "filler": "x" * answer_bytes}

    async def handle(request: web.Request) -> web.Response:
        json.loads(await request.read())
        return web.json_response(answer)

    async def main() -> None:
        app = web.Application()
        app.router.add_post("/v1/route", handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        loop.run(main())


@contextmanager
def bare(port: int, answer_bytes: int, core: int) -> Iterator[str]:
    """Run the peer; yield its address."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve-bare", str(port), str(answer_bytes)]
    )
    os.sched_setaffinity(process.pid, {core})
    url = f"http://127.0.0.1:{port}/v1/route"
    try:
        until(lambda: _listens(port), 15, "the bare handler serves")
        yield url
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError:
        return False
    return True


class Frames(threading.Thread):
    """Keeps nodes alive: a frame a second each."""

    def __init__(self, number: int, port: int) -> None:
        super().__init__(daemon=True)
        self._senders = [Sender(n, port) for n in range(1, number + 1)]
        self.ending = threading.Event()

    def run(self) -> None:
        """Send until told to end."""
        for sender in self._senders:
            sender.dial()
        turn(self._senders, 1.0)
        while not self.ending.is_set():
            for sender in self._senders:
                sender.sample()
            turn(self._senders, 0.5)
            self.ending.wait(0.5)


class Result(NamedTuple):
    """Medians over the rounds."""

    nodes: int
    answer_bytes: int
    figures: dict[str, dict[str, float]]
    single_of_bare: float
    batched_decisions_per_s: float


def measure(nodes: int, seconds: float, rounds: int, folder: Path) -> Result:
    """Return the figures of both, taken in turns."""
    core_theirs, core_ours = 1, 0
    fleet = Fleet(folder, _free_port)
    collector = fleet.collector(log_level="warning")
    os.sched_setaffinity(collector.pid, {core_ours})
    url = f"http://127.0.0.1:{fleet.http_port}/v1/route"
    until(lambda: fleet.nodes() is not None and _ready(fleet), 15, "it serves")
    frames = Frames(nodes, fleet.frames_port)
    frames.start()
    try:
        until(lambda: fleet.ask("/v1/route", TASK).get("node"), 20, "a node fits")
        answer_bytes = len(json.dumps(fleet.ask("/v1/route", TASK)))
        figures: dict[str, list[Figure]] = {"bare": [], "single": [], "batch": []}
        with bare(_free_port(), answer_bytes, core_ours) as peer:
            for number in range(rounds):
                say(f"round {number + 1} of {rounds}")
                for name, where, body in (
                    ("bare", peer, TASK),
                    ("single", url, TASK),
                    ("batch", url, {"tasks": [TASK] * BATCH}),
                ):
                    figure = wrk(where, body, seconds, folder, core_theirs)
                    figures[name].append(figure)
    finally:
        frames.ending.set()
        frames.join(5)
        fleet.close()
    return _summary(figures, nodes, answer_bytes)


def _ready(fleet: Fleet) -> bool:
    try:
        return bool(fleet.ask("/readyz").get("ready"))
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _summary(figures: dict[str, list[Figure]], nodes: int, answer_bytes: int) -> Result:
    ratios = [
        ours.requests_per_s / theirs.requests_per_s
        for ours, theirs in zip(figures["single"], figures["bare"], strict=True)
    ]
    middle: dict[str, dict[str, float]] = {
        name: {
            "requests_per_s": statistics.median(f.requests_per_s for f in found),
            "p99_ms": statistics.median(f.p99_ms for f in found),
            "errors": sum(f.errors for f in found),
        }
        for name, found in figures.items()
    }
    return Result(
        nodes,
        answer_bytes,
        middle,
        statistics.median(ratios),
        BATCH * middle["batch"]["requests_per_s"],
    )


def main() -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=24)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", action="store_true", help="under bench/results")
    parser.add_argument("--serve-bare", nargs=2, type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve_bare:
        serve_bare(*args.serve_bare)
        return 0
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is not installed: apt-get install wrk")
    if (os.cpu_count() or 1) < 2:
        raise SystemExit("two cores are needed: one for wrk, one for what it asks")
    as_installed()
    report = Report("http_speed", sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        result = measure(args.nodes, args.seconds, args.rounds, Path(name))
    body: dict[str, object] = dict(result._asdict())
    text = report.keep(body) if args.keep else json.dumps(body, indent=1)
    if args.json:
        print(text)
        return 0
    print(
        table(
            ("", "requests/s", "decisions/s", "p99 ms", "errors"),
            [
                (
                    name,
                    f["requests_per_s"],
                    None
                    if name == "bare"
                    else f["requests_per_s"] * (BATCH if name == "batch" else 1),
                    f["p99_ms"],
                    f["errors"],
                )
                for name, f in result.figures.items()
            ],
        )
    )
    print(f"single of bare: {result.single_of_bare:.2f} (wanted 0.70)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
