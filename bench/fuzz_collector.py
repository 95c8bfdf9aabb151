"""Hostile input to a whole collector: its ingest, and each HTTP body.

Two parts take turns. Ingest: broken streams go through a conversation into a
fleet, which is scored, published and routed over; nothing but a refusal may
come out, and no number may end outside its range. HTTP: broken bodies go to a
collector process; any answer but a server's fault (5xx) is right, and it must
be sound JSON.

    python bench/fuzz_collector.py --seconds 30 --seed 1

A finding ends the run: what was sent, what happened, exit status 1.
"""

import argparse
import asyncio
import http.client
import json
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.fuzz_wire import hostile

from trimtab.balancer import Router, parse_task
from trimtab.collector.core import Collector
from trimtab.collector.logs import configure
from trimtab.collector.session import Rejected, Session
from trimtab.collector.settings import Settings
from trimtab.collector.store import Store
from trimtab.wire import Hello, encode

TURN_S = 1.0
JSON_TYPE = {"Content-Type": "application/json"}


class HandClock:
    """Both clocks, moved by hand."""

    now = 1000.0

    def monotonic(self) -> float:
        """Seconds, never going back."""
        return self.now

    def unix(self) -> float:
        """Seconds since 1970."""
        return self.now + 1.8e9


class IngestFuzz:
    """A collector in this process."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._chance = chance
        self._clock = HandClock()
        settings = Settings(state_dir=folder, max_nodes=50)
        self._store = Store(settings.database)
        router = Router(random.Random(1))
        self._collector = Collector(settings, self._store, self._clock, router)

    def turn(self, seen: Counter[str]) -> None:
        """Send one broken stream, and look at what became of the fleet."""
        chance, collector = self._chance, self._collector
        hello = encode(Hello(chance.randbytes(1) * 16, b"b" * 16, "fuzz"))
        data = chance.choice((b"", hello)) + hostile(chance)
        session = Session(collector.intake)
        try:
            with suppress(Rejected):
                piece = chance.choice((9, 200, 1 << 20))
                for start in range(0, len(data), piece):
                    session.feed(data[start : start + piece])
            self._clock.now += chance.choice((0.0, 0.2, 0.9))
            collector.tick()
            self._check()
        except Exception as exc:
            exc.add_note(f"stream: {data.hex()}")
            raise
        seen["streams"] += 1
        if seen["streams"] % 200 == 0:
            asyncio.run(collector.commit())
            collector.router.route(parse_task({}), self._clock.now)

    def _check(self) -> None:
        fleet = self._collector.fleet
        rows = fleet.rows()
        for column in (fleet.score[rows], fleet.headroom[rows]):
            known = column[~np.isnan(column)]
            if not ((known >= 0) & (known <= 1)).all():
                raise AssertionError(f"a headroom outside 0..1: {known}")

    def close(self) -> None:
        """Let go of the files."""
        self._collector.committer.close()
        self._store.close()


# A right body of each route that takes one.
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/v1/route"): {
        "class": "interactive",
        "latency_budget_ms": 50,
        "from": "lyon",
        "cpu": 1,
        "memory_mib": 512,
        "gpus": 1,
        "gpu_memory_mib": 1000,
        "data": ["a"],
        "labels": {"disk": "nvme"},
        "avoid": ["rack-1"],
    },
    ("POST", "/v1/route?"): {"tasks": [{}, {"class": "batch"}, {"cpu": 2}]},
    ("POST", "/v1/outcomes"): [
        {"decision": "00ff", "outcome": "ok", "latency_ms": 5, "service_ms": 3}
    ],
    ("PUT", "/v1/nodes/one/drain"): {"deadline_s": 60, "reason": "a new disk"},
    ("PUT", "/v1/nodes/one/holds"): {"holds": ["model-a"]},
}
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1e308, -1e308, 2**63, 2**70, 0.1, "", "x" * 5000),
    *("\x00", "é☀", "\ud800", [], {}, [[]], {"a": {}}, [None], float("nan")),
    *(float("inf"), [1] * 2000, {"": ""}, "../..", "node\r\nX: y"),
)


def mutate(value: Any, chance: random.Random) -> Any:
    """Return the value with something odd in one place of it."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(list(value))
        if chance.random() < 0.1:
            return {**value, chance.choice(("", "__class__", key * 40)): 1}
        return {**value, key: mutate(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.8:
        place = chance.randrange(len(value))
        return [*value[:place], mutate(value[place], chance), *value[place + 1 :]]
    return chance.choice(ODD)


def body_of(value: Any, chance: random.Random) -> bytes:
    """Return JSON of a mutated value, now and then broken as text too."""
    for _ in range(chance.choice((0, 1, 1, 2))):
        value = mutate(value, chance)
    text = json.dumps(value, ensure_ascii=chance.random() < 0.5)
    data = text.encode("utf-8", "surrogatepass")
    breaks: tuple[Callable[[bytes], bytes], ...] = (
        lambda d: d[: chance.randrange(len(d) + 1)],
        lambda d: d + chance.randbytes(3),
        lambda d: b"[" * 5000 + d,
        lambda d: b"\xff\xfe" + d,
        lambda d: d.replace(b'"', b"'"),
    )
    return chance.choice(breaks)(data) if chance.random() < 0.2 else data


class HttpFuzz:
    """A collector as a process, with one node."""

    def __init__(self, port: int, chance: random.Random) -> None:
        self._chance = chance
        self._port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

    def turn(self, seen: Counter[str]) -> None:
        """Send one broken body."""
        chance = self._chance
        (method, path), right = chance.choice(list(BODIES.items()))
        if chance.random() < 0.1:
            method, path, body = "POST", "/v1/frames", hostile(chance)
            headers = {"Content-Type": "application/msgpack"}
        else:
            body, headers = body_of(right, chance), JSON_TYPE
        try:
            self._ask(method, path, body, headers, seen)
        except Exception as exc:
            exc.add_note(f"{method} {path}: {body!r:.2000}")
            raise
        seen["bodies"] += 1

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes,
        headers: dict[str, str],
        seen: Counter[str],
    ) -> None:
        try:
            self._connection.request(method, path, body=body, headers=headers)
            answer = self._connection.getresponse()
            text = answer.read()
        except (ConnectionError, http.client.HTTPException):
            self._connection.close()  # it may close after a body it would not read
            seen["closed"] += 1
            return
        seen[f"HTTP {answer.status}"] += 1
        if answer.status >= 500:
            raise AssertionError(f"answered {answer.status}: {text!r:.500}")
        if "json" in answer.headers.get("Content-Type", ""):
            json.loads(text, parse_constant=_refuse)


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} in an answer")


@contextmanager
def process(folder: Path) -> Iterator[int]:
    """Run a collector with one node; yield its HTTP port."""
    frames, http_port = _free_port(), _free_port()
    log = (folder / "log").open("wb")
    collector = subprocess.Popen(
        [sys.executable, "-m", "trimtab.collector", "run"],
        env={
            "TRIMTAB_FRAMES_LISTEN": f"127.0.0.1:{frames}",
            "TRIMTAB_HTTP_LISTEN": f"127.0.0.1:{http_port}",
            "TRIMTAB_STATE_DIR": str(folder / "state"),
            "TRIMTAB_LOG_LEVEL": "error",
        },
        stderr=log,
    )
    try:
        _greet(frames)
        yield http_port
        if collector.poll() is not None:
            raise AssertionError(f"the collector ended with {collector.returncode}")
    finally:
        collector.terminate()
        collector.wait(20)
        log.close()
        said = (folder / "log").read_text(errors="replace")
        if "Traceback" in said:
            raise AssertionError(f"a traceback in its log:\n{said[-4000:]}")


def _greet(port: int) -> None:
    ends = time.monotonic() + 20
    while not _greeted(port):
        if time.monotonic() > ends:
            raise AssertionError("the collector does not listen after 20 s")
        time.sleep(0.1)


def _greeted(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as peer:
            peer.sendall(encode(Hello(b"1" * 16, b"b" * 16, "one")))
            return bool(peer.recv(100))
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def run(seed: int, seconds: float) -> Counter[str]:
    """Return what was sent and answered."""
    chance = random.Random(seed)
    seen: Counter[str] = Counter()
    ends = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with process(folder) as port:
            ingest, bodies = IngestFuzz(folder / "own", chance), HttpFuzz(port, chance)
            while time.monotonic() < ends:
                for part in (ingest, bodies):
                    until = min(ends, time.monotonic() + TURN_S)
                    while time.monotonic() < until:
                        part.turn(seen)
            ingest.close()
    return seen


def main() -> int:
    """Run until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    configure("logfmt", "error")
    seen = run(args.seed, args.seconds)
    if args.json:
        print(json.dumps({"seed": args.seed, **seen}))
    else:
        for name, count in sorted(seen.items()):
            print(f"{name:<12} {count}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
