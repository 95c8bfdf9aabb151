"""A scenario run: windows of stress beside two victims, and what was seen.

The agent and the collector are the real ones. A window's score and readings
are asked of the collector over HTTP at its end, and a few times before that.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from bench.outage import free_port
from bench.signals import Group, Unable

from . import rivals
from .guardian import Guardian
from .levels import Level, Scenario
from .victim import RECORD

HERE = Path(__file__).parent
NODE = "stressed"
LOOK_S = 0.25  # between looks at the collector; the last is at a window's end
VICTIMS = 2
STARTED_S = 20.0
# Work that is slower than its window is waited for.
PATIENCE_S = 15.0


class Victim:
    """One victim's log, read as it grows."""

    def __init__(self, path: Path, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._log = path.open("rb")
        self._pieces: list[tuple[float, float]] = []

    def took_s(self, begun_s: float, ended_s: float) -> float | None:
        """Return the mean time of the pieces that ended meanwhile; None: none did."""
        if self.process.poll() is not None:
            raise Unable(f"a victim ended with {self.process.returncode}")
        left = self._log.read()
        self._log.seek(-(len(left) % RECORD.size), os.SEEK_CUR)
        whole = len(left) - len(left) % RECORD.size
        self._pieces += RECORD.iter_unpack(left[:whole])
        self._pieces = [piece for piece in self._pieces if piece[0] >= begun_s]
        taken = [took_s for at_s, took_s in self._pieces if at_s <= ended_s]
        return sum(taken) / len(taken) if taken else None

    def close(self) -> None:
        """Let go of the log."""
        self._log.close()


class Run:
    """A scenario's processes, and its windows one by one."""

    def __init__(
        self, scenario: Scenario, guardian: Guardian, group: Group | None
    ) -> None:
        self.scenario = scenario
        self._guardian = guardian
        self._group = group
        # Without a limit, only the tree that keeps pressure and the processes.
        self._joined = () if group is None else tuple(group.folders)
        self._http = free_port()
        self._relay: subprocess.Popen[bytes] | None = None
        frames, service = self._collector()
        self._agent(frames)
        self.victims = [self._victim(n, service) for n in range(VICTIMS)]
        _until(self._rated, "the collector rates the node")

    def _collector(self) -> tuple[int, int]:
        """Start it; return the ports for frames and for the work's service."""
        frames = free_port()
        self._start(
            "collector",
            frames_listen=f"127.0.0.1:{frames}",
            http_listen=f"127.0.0.1:{self._http}",
            state_dir=self._guardian.folder / "collector",
            tick_s=0.05,
        )
        _until(lambda: self._ask("/livez") is not None, "the collector answers")
        if not self.scenario.relay:
            return frames, 0
        self._relay = self._guardian.start(
            [sys.executable, str(HERE / "relay.py"), str(frames)],
            log="relay.log",
            talks=True,
        )
        line = b"" if self._relay.stdout is None else self._relay.stdout.readline()
        collector, service = map(int, line.split())
        return collector, service

    def _agent(self, frames: int) -> None:
        watched = {} if self._group is None else {"cgroup": self._group.path}
        self._start(
            "agent",
            collector=f"127.0.0.1:{frames}",
            name=NODE,
            state_dir=self._guardian.folder / "agent",
            interval_s=self.scenario.interval_s,
            gpu="false",
            **watched,
        )

    def _start(self, program: str, **settings: object) -> None:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("TRIMTAB_")}
        given = {f"TRIMTAB_{k.upper()}": str(v) for k, v in settings.items()}
        self._guardian.start(
            [sys.executable, "-m", f"trimtab.{program}", "run"],
            log=f"{program}.log",
            environment=clean | given,
        )

    def _victim(self, number: int, service: int) -> Victim:
        log = self._guardian.folder / f"victim-{number}"
        log.touch()
        process = self._guardian.start(
            [
                *(sys.executable, str(HERE / "victim.py"), self.scenario.work),
                *(str(log), "--port", str(service)),
            ],
            log="victims.log",
            groups=self._joined,
            talks=True,
        )
        if process.stdout is None or process.stdout.readline() != b"ready\n":
            raise Unable("a victim can't do its work here; see its message above")
        return Victim(log, process)

    def _ask(self, path: str) -> Any:
        """Return the collector's answer; None while there is none."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._http}{path}", timeout=5
            ) as answer:
                return json.load(answer)
        except (OSError, ValueError, urllib.error.URLError):
            return None

    def _rated(self) -> bool:
        node = self._ask(f"/v1/nodes/{NODE}")
        return node is not None and node["score"] is not None

    def window(self, level: Level) -> dict[str, Any]:
        """Return what one window showed; a level stands from before its begin."""
        with self._stressed(level):
            time.sleep(self.scenario.settle_s)
            begun_s = time.monotonic()
            before = rivals.counters(self._joined)
            looks = []
            count = max(1, round(self.scenario.window_s / LOOK_S))
            for look in range(count):
                due_s = begun_s + self.scenario.window_s * (look + 1) / count
                time.sleep(max(0.0, due_s - time.monotonic()))
                looks.append(self._look())
            ended_s = time.monotonic()
            after = rivals.counters(self._joined)
            seen = rivals.between(before, after)
            seen["memory %"] = rivals.memory_used(self._joined)
            took_s = [self._took_s(v, begun_s, ended_s) for v in self.victims]
        return {
            "scenario": self.scenario.name,
            "level": level._asdict(),
            "took_s": took_s,
            "rivals": seen,
            "disk": rivals.disk(before, after),
            "looks": looks,
        }

    def _took_s(self, victim: Victim, begun_s: float, ended_s: float) -> float | None:
        took_s = victim.took_s(begun_s, ended_s)
        while took_s is None and time.monotonic() < ended_s + PATIENCE_S:
            time.sleep(0.1)
            took_s = victim.took_s(begun_s, time.monotonic())
        return took_s

    def _look(self) -> dict[str, Any] | None:
        """Return the node as the collector shows it; None if it doesn't answer."""
        node = self._ask(f"/v1/nodes/{NODE}")
        kept = ("score", "limiting", "headroom", "state", "age_ms", "signals")
        return node and {name: node[name] for name in kept}

    @contextmanager
    def _stressed(self, level: Level) -> Iterator[None]:
        self._set_path(level)
        if not level.stress:
            yield
            return
        work = self._guardian.folder / "stress"
        work.mkdir(exist_ok=True)
        stress = self._guardian.start(
            ["stress-ng", *level.stress, "--temp-path", str(work), "--quiet"],
            log="stress.log",
            groups=self._joined,
        )
        try:
            yield
        finally:
            self._guardian.stop(stress)

    def _set_path(self, level: Level) -> None:
        if self._relay is not None and self._relay.stdin is not None:
            line = f"{level.delay_ms} {level.jitter_ms} {level.loss}\n"
            self._relay.stdin.write(line.encode())


def _until(condition: Any, what: str) -> None:
    deadline_s = time.monotonic() + STARTED_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise Unable(f"{what}: not within {STARTED_S:g} s")
        time.sleep(0.05)


@contextmanager
def started(scenario: Scenario) -> Iterator[Run]:
    """Run a scenario's processes for as long as the context; Unable says why not."""
    with ExitStack() as stack:
        path = stack.enter_context(tempfile.TemporaryDirectory(prefix="trimtab-bench-"))
        group = stack.enter_context(Group() if scenario.group else nullcontext())
        folders: Sequence[Path] = () if group is None else group.folders
        guardian = stack.enter_context(Guardian(Path(path), folders))
        if group is not None:
            group.limit(scenario.limit_mib)
            group.quota(scenario.quota_cpus)
        run = Run(scenario, guardian, group)
        for victim in run.victims:
            stack.callback(victim.close)
        yield run
