"""What the collector's ingest holds on one core, and what a frame costs it.

    python bench/ingest.py
    python bench/ingest.py --connections 2000 --seconds 10 --only held visible
    python bench/ingest.py --seconds 5 --json

One real collector, pinned to one core, its store's thread included; real
agents' frames, values varied, over as many TCP connections, from a generator
on another core. Parts:

memory   resident memory a node of the table, and a connection
held     100,000 frames/s with ten frames a read, 60,000 with one
visible  time from a frame's arrival to its score in the API, at half that rate
most     more than it can take: what it holds, and that its memory does not grow
scaling  processor time a frame, in one process, by the number of nodes
peer     the same values scraped by Prometheus
"""

import argparse
import gc
import http.client
import json
import logging
import math
import os
import random
import re
import resource
import socket
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Self

import structlog

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import scraping
from bench.load import (
    BOOT_BASE_MS,
    VARIED,
    Absent,
    Generator,
    captured,
    hello,
    varied,
)
from bench.report import RESULTS, Report, as_installed, load1, say, table
from bench.scraping import cpu_s
from tests.processes import Fleet, rss_kib, until

from trimtab.agent.clocks import boot_ms
from trimtab.balancer import Router
from trimtab.collector.core import Collector
from trimtab.collector.readings import WIDTH
from trimtab.collector.session import Session
from trimtab.collector.settings import Settings
from trimtab.collector.store import Store
from trimtab.wire import Cpu, Frame, Stream, Welcome, encode

Row = dict[str, Any]
COUNTED = re.compile(r"^trimtab_frames_total (\S+)", re.MULTILINE)

PARTS = ("memory", "held", "visible", "most", "scaling", "peer")
# Frames a read, and frames a second that are to be held so.
HELD = ((10, 100_000), (1, 60_000))
SHARE_HELD = 0.99
NODE_KIB, CONNECTION_KIB = 2.0, 4.0
VISIBLE_MS = 300.0
SCALED = 1.2
GROWTH, GROWN_MIB = 1.1, 16
CONNECTIONS = 10_000
SPARE_DESCRIPTORS = 200
SCALING_NODES = (100, 10_000, 100_000)
# A tick's worth at 60,000 frames/s.
TICK_FRAMES, TICK_S = 12_000, 0.2
PROBES = count(2**32)  # their numbers as nodes
PROBE_EVERY_S = 0.35
POLL_S = 0.005
PEER_TARGETS = 200


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def pinned(cpu: int | None) -> Iterator[None]:
    """Let what is started here run on one core only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before if cpu is None else {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Bench:
    """One collector after the other over the same state, and the load on it."""

    def __init__(self, folder: Path, connections: int) -> None:
        cores = sorted(os.sched_getaffinity(0))
        self.core, self.other = cores[0], cores[-1]
        self.connections = connections
        self.fleet = Fleet(folder, free_port)
        frame = captured(self.fleet)
        rng = random.Random(1)
        self.frames = [encode(varied(frame, rng)) for _ in range(VARIED)]
        self.frame_bytes = round(statistics.mean(map(len, self.frames)), 1)
        self.generator: Generator | None = None

    def start(self) -> int:
        """Start the collector; return its resident memory, KiB."""
        with pinned(self.core):
            self.collector = self.fleet.collector(
                max_connections=self.connections + 100, log_level="error"
            )
        until(self._serves, 60, "the collector serves")
        time.sleep(1.5)
        return rss_kib(self.collector.pid)

    def _serves(self) -> bool:
        try:
            return self.counted() >= 0
        except OSError:
            return False

    def counted(self) -> float:
        """Return the frames that arrived so far."""
        url = f"http://127.0.0.1:{self.fleet.http_port}/metrics"
        with urllib.request.urlopen(url, timeout=60) as page:
            found = re.search(
                r"^trimtab_frames_total (\S+)", page.read().decode(), re.MULTILINE
            )
        return 0.0 if found is None else float(found[1])

    def connect(self) -> Generator:
        """Return the generator with every connection up."""
        port = self.fleet.frames_port
        self.generator = Generator(
            self.fleet.folder, port, self.connections, self.frames, self.other
        )
        time.sleep(2.5)  # what the hellos left to store
        return self.generator

    def disconnect(self) -> None:
        """End the generator."""
        if self.generator is not None:
            self.generator.close()
            self.generator = None

    def close(self) -> None:
        """End what still runs."""
        self.disconnect()
        self.fleet.close()

    def memory(self) -> Row:
        """Return resident memory a node, its connection, its first frames."""
        empty_kib = self.start()
        self.connect()
        self.disconnect()
        self.fleet.stop(self.collector)
        known_kib = self.start()
        generator = self.connect()
        connected_kib = rss_kib(self.collector.pid)
        generator.send(self.connections, 1, 3.0)
        speaking_kib = rss_kib(self.collector.pid)
        node_kib = (known_kib - empty_kib) / self.connections
        connection_kib = (connected_kib - known_kib) / self.connections
        return {
            "node_kib": round(node_kib, 2),
            "connection_kib": round(connection_kib, 2),
            "first_frames_kib": round(
                (speaking_kib - connected_kib) / self.connections, 2
            ),
            "met": node_kib <= NODE_KIB and connection_kib <= CONNECTION_KIB,
        }

    def held(self, rate: float, each: int, seconds: float) -> Row:
        """Return what is held of so many frames a second."""
        generator = self.generator or self.connect()
        time.sleep(1.0)
        pid = self.collector.pid
        before, cpu_before_s, kib = self.counted(), cpu_s(pid), rss_kib(pid)
        begun = time.monotonic()
        load = generator.send(rate, each, seconds)
        cpu, passed_s = cpu_s(pid) - cpu_before_s, time.monotonic() - begun
        frames = self.counted() - before
        return {
            "frames_a_read": each,
            "offered_s": round(load.frames / load.seconds),
            "held_s": round(frames / passed_s),
            "cores": round(cpu / passed_s, 2),
            "us_frame": round(cpu / max(frames, 1) * 1e6, 2),
            "rss_mib": [round(kib / 1024), round(rss_kib(pid) / 1024)],
        }

    def visible(self, rate: float, each: int, seconds: float) -> Row:
        """Return how long a score takes to be seen in the API under that load."""
        generator = self.generator or self.connect()
        generator.begin(rate, each, seconds)
        with Probe(self.fleet.frames_port, self.fleet.http_port) as probe:
            until_s = time.monotonic() + seconds - 1.0
            rng = random.Random(2)
            while time.monotonic() < until_s:
                probe.once()
                time.sleep(PROBE_EVERY_S * rng.random())
        load = generator.wait()
        took_ms = sorted(1000 * s for s in probe.took_s)
        return {
            "frames_a_read": each,
            "offered_s": round(load.frames / load.seconds),
            "frames": len(took_ms),
            "median_ms": round(statistics.median(took_ms), 1),
            "p99_ms": round(took_ms[math.ceil(0.99 * len(took_ms)) - 1], 1),
            "most_ms": round(took_ms[-1], 1),
        }


class Probe:
    """One more agent: changes its load, and looks for it in the API."""

    def __init__(self, frames_port: int, http_port: int) -> None:
        self.took_s: list[float] = []
        # A score of an earlier probe must not be taken for this one's.
        self._number = next(PROBES)
        self._seq = boot_ms()
        self._busy = 0.0
        self._agent = socket.create_connection(("127.0.0.1", frames_port))
        self._agent.sendall(encode(hello(self._number)._replace(boot_ms=boot_ms())))
        said = list(Stream().feed(self._agent.recv(4096)))
        if [type(message) for message in said] != [Welcome]:
            raise RuntimeError(f"the collector does not welcome the probe: {said}")
        self._http = http.client.HTTPConnection("127.0.0.1", http_port, timeout=30)
        self._send()
        until(lambda: self._score() is not None, 30, "the probe has a score")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._agent.close()
        self._http.close()

    def _send(self) -> None:
        self._seq += 1
        frame = Frame(self._seq, boot_ms(), cpu=Cpu(busy=self._busy))
        self._agent.sendall(encode(frame))

    def _score(self) -> float | None:
        self._http.request("GET", f"/v1/nodes/n{self._number}")
        with self._http.getresponse() as response:
            score: float | None = json.load(response)["score"]
        return score

    def once(self) -> None:
        """Send another load than before, and wait until the score is another."""
        before = self._score()
        self._busy = 1.0 - self._busy
        begun = time.monotonic()
        self._send()
        while self._score() == before:
            if time.monotonic() - begun > 30:
                raise RuntimeError("the probe's score did not change in 30 s")
            time.sleep(POLL_S)
        self.took_s.append(time.monotonic() - begun)


class HandClock:
    """Both clocks, moved by hand."""

    now = 1000.0

    def monotonic(self) -> float:
        """Seconds, never going back."""
        return self.now

    def unix(self) -> float:
        """Seconds since 1970."""
        return self.now + 1.8e9


def scaling(frames: Sequence[bytes], nodes: int, folder: Path) -> Row:
    """Return the processor time a frame in this process, its tick included."""
    clock = HandClock()
    settings = Settings(state_dir=folder / f"scaling-{nodes}", max_nodes=nodes)
    store = Store(settings.database)
    collector = Collector(settings, store, clock, Router(random.Random(1)))
    sessions = []
    for number in range(nodes):
        sessions.append(Session(collector.intake, _never))
        sessions[-1].feed(encode(hello(number)))
    # Everybody has joined and held its state before anything is measured.
    warm_up, measured, sent, taken_ns = 5 * max(nodes // TICK_FRAMES, 5), 10, 0, 0
    for tick in range(warm_up + measured):
        clock.now += TICK_S
        batch = [
            _stamped(frames[(sent + i) % len(frames)], sent + i, clock.now)
            for i in range(TICK_FRAMES)
        ]
        begun = time.process_time_ns()
        for data in batch:
            sessions[sent % nodes].queue(data, clock.now)
            sent += 1
        collector.tick()
        if tick >= warm_up:
            taken_ns += time.process_time_ns() - begun
        collector.fleet.rollups.drain()
    store.close()
    gc.collect()
    return {
        "nodes": nodes,
        "us_frame": round(taken_ns / (measured * TICK_FRAMES) / 1000, 2),
    }


def _never(refused: object) -> None:
    raise RuntimeError(f"a frame of the load was refused: {refused}")


def _stamped(frame: bytes, number: int, now: float) -> bytes:
    """Return the frame with its own sequence and boot clock, as load.c does."""
    seq = (0x01000000 + number).to_bytes(4, "big")
    boot = (BOOT_BASE_MS + round((now - 1000.0) * 1000)).to_bytes(4, "big")
    return frame[:3] + seq + frame[7:8] + boot + frame[12:]


def held(bench: Bench, seconds: float) -> Iterator[Row]:
    """Yield what is held of the rates that are wanted."""
    for each, rate in HELD:
        row = bench.held(rate, each, seconds)
        yield row | {"met": row["held_s"] >= SHARE_HELD * rate}


def visible(bench: Bench, seconds: float) -> Iterator[Row]:
    """Yield how soon scores are seen at half of them."""
    for each, rate in HELD:
        row = bench.visible(rate / 2, each, seconds)
        yield row | {"met": row["p99_ms"] < VISIBLE_MS}


def most(bench: Bench, seconds: float) -> Iterator[Row]:
    """Yield what is held of more than it can take."""
    for each, _ in HELD:
        row = bench.held(0, each, seconds)
        before, after = row["rss_mib"]
        yield row | {"met": after <= GROWTH * before + GROWN_MIB}


def scalings(frames: Sequence[bytes], folder: Path) -> Iterator[Row]:
    """Yield the time a frame takes in fleets of several sizes."""
    least = None
    for nodes in SCALING_NODES:
        row = scaling(frames, nodes, folder)
        least = least or row["us_frame"]
        ratio = round(row["us_frame"] / least, 2)
        yield row | {"ratio": ratio, "met": ratio <= SCALED}


def peer(folder: Path, seconds: float) -> Row:
    """Return what Prometheus takes for as many values a node."""
    ports = (free_port(), free_port())
    try:
        found = scraping.scraped(folder, ports, PEER_TARGETS, WIDTH, seconds)
    except scraping.Absent as exc:
        return {"missing": f"prometheus: {exc}"}
    return found._asdict()


def run(
    folder: Path, only: Sequence[str], connections: int, seconds: float
) -> dict[str, Any]:
    """Return the rows of each part asked for."""
    result: dict[str, Any] = {}
    bench = Bench(folder, connections)
    result |= {"connections": connections, "frame_bytes": bench.frame_bytes}

    def part(name: str, rows: Iterable[Row]) -> None:
        if name in only:
            say(f"{name}; load {load1():.2f}")
            result[name] = list(rows)

    try:
        if "memory" in only:
            part("memory", [bench.memory()])
        elif {"held", "visible", "most"} & set(only):
            bench.start()
        part("held", held(bench, seconds))
        part("visible", visible(bench, seconds))
        part("most", most(bench, seconds))
    finally:
        bench.close()
    part("scaling", scalings(bench.frames, folder))
    if "peer" in only:
        part("peer", [peer(folder, seconds)])
    return result


def show(result: dict[str, Any]) -> str:
    """Return the result as tables."""
    parts = [
        f"{result['connections']} connections, {result['frame_bytes']} bytes a frame"
    ]
    for part in PARTS:
        rows = result.get(part)
        if rows:
            head = list(rows[0])
            cells = [[_shown(row[name]) for name in head] for row in rows]
            parts.append(f"{part}\n\n{table(head, cells)}")
    return "\n\n".join(parts)


def _shown(value: object) -> object:
    if isinstance(value, bool):
        return "met" if value else "missed"
    if isinstance(value, list):
        return " → ".join(map(str, value))
    return value


def most_connections() -> int:
    """Return how many connections the limit on descriptors allows, at most."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(CONNECTIONS, soft - SPARE_DESCRIPTORS)


def main(argv: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--connections", type=int, default=most_connections())
    parser.add_argument("--seconds", type=float, default=60.0, help="of each run")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for results")
    parser.add_argument("--json", action="store_true", help="JSON in place of a table")
    args = parser.parse_args(given)
    as_installed()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR)
    )
    report = Report("ingest", given)
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        try:
            result = run(Path(folder), args.only, args.connections, args.seconds)
        except Absent as exc:
            say(f"can't be measured here: {exc}")
            return 1 if os.environ.get("TRIMTAB_REQUIRE_ALL") == "1" else 0
    text = report.keep(result, args.out)
    print(text if args.json else show(result))
    missing = "missing" in str(result.get("peer"))
    return 1 if missing and os.environ.get("TRIMTAB_REQUIRE_ALL") == "1" else 0


if __name__ == "__main__":
    sys.exit(main())
