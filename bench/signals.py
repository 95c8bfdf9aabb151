"""Which signal tells how slow work has become: rank correlation with a victim.

    python bench/signals.py                         all three, about three minutes
    python bench/signals.py --only quota --repeats 5
    python bench/signals.py --json

A victim does the same piece of work over and over and notes how long each
took. Beside it, a level of trouble a window, the windows in shuffled order:
  loops   0 to 6 busy loops on the whole host
  quota   a CPU quota on the victim's own control group, from none to a tenth
  memory  a limit on the memory of its group, around the file it reads
Each signal's mean over a window is ranked against the victim's mean latency
(Spearman), beside load average and utilisation (`cpu.busy`). In `quota` and
`memory` the sampler watches the group, as with --cgroup; `host:` marks what the
whole host shows meanwhile.

Needs root for the groups, which are removed afterwards.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.rank import spearman
from bench.report import RESULTS, Report, load1, say, table

from trimtab.agent.host import Host
from trimtab.agent.sampler import Sampler
from trimtab.wire import State

MOUNT = Path("/sys/fs/cgroup")
MIB = 2**20
LOOPS = (0, 1, 2, 3, 4, 5, 6)
QUOTAS = (None, 0.8, 0.6, 0.4, 0.2, 0.1)  # CPUs
WORK_MIB = 64  # the file that the victim reads
LIMITS = (None, 96, 72, 56, 40, 28)  # MiB
SETTLE_S = 0.5
SAMPLE_S = 0.1

# Joins the groups it is told, then works: spins for a count, or reads a file
# through. A line of latency in ns for each piece of work.
VICTIM = """
import os, sys, time
work, *folders = sys.argv[1:]
for folder in folders:
    with open(folder + "/cgroup.procs", "w") as procs:
        procs.write("0")
file = None if work == "spin" else os.open(work, os.O_RDONLY)
size = 0 if file is None else os.fstat(file).st_size
out = sys.stdout
while True:
    begun = time.monotonic_ns()
    if file is None:
        total = 0
        for number in range(60_000):
            total += number
        time.sleep(0.002)
    else:
        for offset in range(0, size, 1 << 20):
            os.pread(file, 1 << 20, offset)
    out.write(f"{begun} {time.monotonic_ns() - begun}\\n")
    out.flush()
    if file is not None:
        time.sleep(0.01)
"""
LOOP = "while True: pass"


class Unable(RuntimeError):
    """This host can't do a scenario; the text says why."""


class Group:
    """A control group of ours in every hierarchy there is."""

    def __init__(self) -> None:
        self.path = f"/trimtab-bench-{os.getpid()}"
        names = ("cpu", "cpuacct", "memory", "unified")
        if (MOUNT / "cgroup.controllers").exists():
            trees = [MOUNT]
        else:
            trees = [MOUNT / name for name in names if (MOUNT / name).is_dir()]
        # Two controllers of v1 may have one folder under two names.
        self.folders = [t / self.path[1:] for t in {t.resolve() for t in trees}]
        self._made: list[Path] = []

    def __enter__(self) -> Self:
        try:
            for folder in self.folders:
                folder.mkdir()
                self._made.append(folder)
        except OSError as exc:
            self.__exit__()
            raise Unable(f"no control group can be made: {exc}") from exc
        if not self._made:
            raise Unable("no control groups are mounted")
        return self

    def __exit__(self, *error: object) -> None:
        for folder in self._made:
            # The kernel takes a moment to let go of the last process.
            for _ in range(50):
                try:
                    folder.rmdir()
                except OSError:
                    time.sleep(0.05)
                else:
                    break

    def write(self, *choices: tuple[str, str]) -> None:
        """Write the first of these files that there is."""
        for name, text in choices:
            for folder in self.folders:
                if (folder / name).exists():
                    (folder / name).write_text(text)
                    return
        raise Unable(f"no control group here has {choices[0][0]}")

    def quota(self, cpus: float | None) -> None:
        """Limit its CPU time; None lifts the limit."""
        v2 = "max 100000" if cpus is None else f"{round(cpus * 100_000)} 100000"
        v1 = "-1" if cpus is None else str(round(cpus * 100_000))
        self.write(("cpu.max", v2), ("cpu.cfs_quota_us", v1))

    def limit(self, mib: int | None) -> None:
        """Limit its memory; None lifts the limit."""
        v2 = "max" if mib is None else str(mib * MIB)
        v1 = "-1" if mib is None else str(mib * MIB)
        self.write(("memory.max", v2), ("memory.limit_in_bytes", v1))


class Window(NamedTuple):
    """What one window showed; a signal without a reading is not there."""

    level: str
    latency_ms: float | None
    signals: dict[str, float]


@contextmanager
def victim(folder: Path, work: str, groups: Sequence[Path]) -> Iterator[Path]:
    """Let a victim work for as long as the context; yield its log."""
    log = folder / "latencies"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", VICTIM, work, *map(str, groups)],
            stdin=subprocess.DEVNULL,
            stdout=out,
        )
    try:
        yield log
        if process.poll() is not None:
            raise Unable(f"the victim ended with {process.returncode}")
    finally:
        process.kill()
        process.wait()


@contextmanager
def loops(count: int) -> Iterator[None]:
    """Run so many busy loops for as long as the context."""
    running = [
        subprocess.Popen([sys.executable, "-c", LOOP], stdin=subprocess.DEVNULL)
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait()


def window(
    level: str, window_s: float, log: Path, samplers: dict[str, Sampler]
) -> Window:
    """Return the means over a window that begins after things settled."""
    seen: dict[str, list[float]] = defaultdict(list)
    deadline = time.monotonic() + SETTLE_S
    begun = 0.0
    while (now := time.monotonic()) < deadline or not begun:
        for prefix, sampler in samplers.items():
            sampler.sample(time.monotonic_ns())
            for signal in sampler.signals():
                if begun and signal.state is State.OK and signal.value is not None:
                    seen[prefix + signal.name].append(signal.value)
        if begun:
            seen["load1"].append(load1())
        elif now + SAMPLE_S >= deadline:
            begun, deadline = now, now + window_s
        time.sleep(SAMPLE_S)
    return Window(
        level,
        latency_ms(log, begun, time.monotonic()),
        {name: statistics.fmean(values) for name, values in seen.items()},
    )


def latency_ms(log: Path, begun: float, ended: float) -> float | None:
    """Return the mean latency of the work done meanwhile; None if none was."""
    taken = []
    for line in log.read_text().splitlines()[:-1]:
        start_ns, took_ns = map(int, line.split())
        if begun <= (start_ns + took_ns) / 1e9 <= ended:
            taken.append(took_ns / 1e6)
    return statistics.fmean(taken) if taken else None


def shuffled(levels: Sequence[object], repeats: int, seed: int) -> list[object]:
    order = [level for level in levels for _ in range(repeats)]
    random.Random(seed).shuffle(order)
    return order


def beside_loops(folder: Path, window_s: float, repeats: int) -> list[Window]:
    samplers = {"": Sampler(Host())}
    found = []
    with victim(folder, "spin", ()) as log:
        for level in shuffled(LOOPS, repeats, 1):
            with loops(int(str(level))):
                found.append(window(str(level), window_s, log, samplers))
            tell(found[-1])
    return found


def under(
    folder: Path,
    window_s: float,
    order: Sequence[object],
    work: str,
    set_level: Callable[[Group, object], None],
) -> list[Window]:
    """Return the windows of a victim in a group with a limit that changes."""
    found = []
    with Group() as group:
        samplers = {"": Sampler(Host(cgroup=group.path)), "host: ": Sampler(Host())}
        with victim(folder, work, group.folders) as log:
            time.sleep(SETTLE_S)
            for level in order:
                set_level(group, level)
                found.append(window(str(level), window_s, log, samplers))
                tell(found[-1])
    return found


def under_quota(folder: Path, window_s: float, repeats: int) -> list[Window]:
    def set_level(group: Group, level: object) -> None:
        group.quota(level if isinstance(level, float) else None)

    return under(folder, window_s, shuffled(QUOTAS, repeats, 2), "spin", set_level)


def under_memory(folder: Path, window_s: float, repeats: int) -> list[Window]:
    file = folder / "work"
    with file.open("wb") as out:
        for _ in range(WORK_MIB):
            out.write(os.urandom(MIB))
        os.fsync(out.fileno())
        # Cached pages are charged to who read them first: the victim.
        os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def set_level(group: Group, level: object) -> None:
        group.limit(level if isinstance(level, int) else None)

    return under(folder, window_s, shuffled(LIMITS, repeats, 3), str(file), set_level)


def tell(seen: Window) -> None:
    latency = "-" if seen.latency_ms is None else f"{seen.latency_ms:.1f} ms"
    say(f"  level {seen.level}: {latency}; load {load1():.2f}")


def correlations(windows: Sequence[Window]) -> dict[str, float | None]:
    """Return each signal's correlation with the latency, the highest first."""
    names = sorted({name for seen in windows for name in seen.signals})
    latency = [seen.latency_ms for seen in windows]
    found = {}
    for name in names:
        rho = spearman([seen.signals.get(name) for seen in windows], latency)
        found[name] = None if rho is None else round(rho, 2)
    return dict(
        sorted(found.items(), key=lambda item: 2 if item[1] is None else -abs(item[1]))
    )


def by_level(windows: Sequence[Window]) -> dict[str, float]:
    """Return the mean latency in ms of each level."""
    taken: dict[str, list[float]] = defaultdict(list)
    for seen in windows:
        if seen.latency_ms is not None:
            taken[seen.level].append(seen.latency_ms)
    return {level: round(statistics.fmean(taken[level]), 1) for level in sorted(taken)}


SCENARIOS: dict[str, Callable[[Path, float, int], list[Window]]] = {
    "loops": beside_loops,
    "quota": under_quota,
    "memory": under_memory,
}


def main(argv: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=tuple(SCENARIOS), default=[])
    parser.add_argument("--window", type=float, default=2.0, metavar="S")
    parser.add_argument("--repeats", type=int, default=3, help="windows a level")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for results")
    parser.add_argument("--json", action="store_true", help="JSON in place of tables")
    args = parser.parse_args(given)
    report = Report("signals", given)
    found: dict[str, object] = {}
    lines: list[str] = []
    for name, scenario in SCENARIOS.items():
        if args.only and name not in args.only:
            continue
        say(f"{name}; load {load1():.2f}")
        with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
            try:
                windows = scenario(Path(folder), args.window, args.repeats)
            except Unable as exc:
                found[name] = {"unable": str(exc)}
                lines += [f"{name}: can't be done here: {exc}", ""]
                continue
        rho = correlations(windows)
        levels = by_level(windows)
        found[name] = {
            "spearman": rho,
            "latency_ms": levels,
            "windows": [seen._asdict() for seen in windows],
        }
        lines += [
            f"{name}: {len(windows)} windows; latency by level "
            + ", ".join(f"{level}: {ms} ms" for level, ms in levels.items()),
            table(
                ("signal", "Spearman"),
                [(n, r) for n, r in rho.items() if r is not None],
            ),
            "not read, or never changed: "
            + ", ".join(n for n, r in rho.items() if r is None),
            "",
        ]
    text = report.keep({"scenarios": found}, args.out)
    print(text if args.json else "\n".join(lines))
    unable = any(isinstance(f, dict) and "unable" in f for f in found.values())
    return 1 if unable and os.environ.get("TRIMTAB_REQUIRE_ALL") == "1" else 0


if __name__ == "__main__":
    sys.exit(main())
