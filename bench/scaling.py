"""What a sample costs on a host with 3,000 processes, and on one with 512 CPUs.

    python bench/scaling.py
    python bench/scaling.py --processes 500 --rounds 50
    python bench/scaling.py --json

The cost is the processor time of one sample and its encoded frame, caches
warm: the median over the rounds, the loaded case and the plain one taking
turns. Wanted: at most 1.3 times the plain one.

The 512 CPUs are files: this host's tree with a `stat` and a `softnet_stat` of
that many lines. They are compared with the host's own tree in files, and
beside that with its live procfs. What the kernel itself takes to write 512
lines no file shows.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import tree
from bench.report import RESULTS, Report, load1, say, table

from trimtab.agent.clocks import boot_ms
from trimtab.agent.host import Host
from trimtab.agent.sampler import Sampler
from trimtab.wire import Frame, encode

WANTED = 1.3
WARM_UP = 20
FILES = (
    *("stat", "loadavg", "meminfo", "vmstat", "cpuinfo", "1/cgroup"),
    *("pressure/cpu", "pressure/memory", "pressure/io", "pressure/irq"),
    *("net/dev", "net/softnet_stat", "net/route", "net/ipv6_route"),
)
# One shell that forks sleepers, says when all are there, and waits.
SLEEPERS = "i=0; while [ $i -lt {n} ]; do sleep 3600 & i=$((i+1)); done; echo up; wait"


class Cost:
    """The samples of one host, and what each took."""

    def __init__(self, procfs: Path = Path("/proc")) -> None:
        self.host = Host(procfs)
        self._sampler = Sampler(self.host)
        self.taken_ns: list[int] = []

    def once(self) -> None:
        """Take a sample and encode its frame."""
        begun = time.thread_time_ns()
        now = time.monotonic_ns()
        read = self._sampler.sample(now)
        encode(
            Frame(
                1,
                boot_ms(),
                cpu=read.cpu,
                memory=read.memory,
                io=read.io,
                net=read.net,
                holes=read.holes,
            )
        )
        self.taken_ns.append(time.thread_time_ns() - begun)

    def median_us(self) -> float:
        """Return the median cost, without the first samples."""
        return statistics.median(self.taken_ns[WARM_UP:] or self.taken_ns) / 1000


def turns(costs: list[Cost], rounds: int, pause_s: float) -> list[float]:
    """Let each sample in turn; return their medians in microseconds."""
    for cost in costs:
        cost.taken_ns.clear()
    for number in range(rounds + WARM_UP):
        # The first after the pause finds the caches cold: not always the same.
        for cost in costs[number % len(costs) :] + costs[: number % len(costs)]:
            cost.once()
        # Probes rest when they cost more than their share of the time.
        time.sleep(pause_s)
    return [cost.median_us() for cost in costs]


def many_processes(count: int, rounds: int, pause_s: float) -> dict[str, object]:
    """Return the cost without, with and again without so many sleepers."""
    cost = Cost()
    (before,) = turns([cost], rounds, pause_s)
    shell = subprocess.Popen(
        ["/bin/sh", "-c", SLEEPERS.format(n=count)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    try:
        if shell.stdout is None or not shell.stdout.readline():
            raise RuntimeError("the shell could not start the sleepers")
        alive = len(tree.tree(shell.pid)) - 1
        say(f"  {alive} sleepers; load {load1():.2f}")
        (during,) = turns([cost], rounds, pause_s)
    finally:
        for pid in reversed(tree.tree(shell.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        shell.wait()
    (after,) = turns([cost], rounds, pause_s)
    cost.host.close()
    plain = (before + after) / 2
    return {
        "case": f"{alive} processes",
        "plain_us": round(plain, 1),
        "loaded_us": round(during, 1),
        "ratio": round(during / plain, 3),
    }


def copied(folder: Path) -> Path:
    """Return this host's procfs, as far as the probes read it, in files."""
    for name in FILES:
        source = Path("/proc") / name
        if source.exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / name)
    return folder


def widened(folder: Path, cpus: int) -> Path:
    """Make a copied tree one of so many CPUs, with interrupts to match."""
    stat = (folder / "stat").read_text()
    lines = re.findall(r"^cpu\d+ .*$", stat, re.MULTILINE)
    more = "".join(
        re.sub(r"^cpu\d+", f"cpu{n}", lines[n % len(lines)]) + "\n" for n in range(cpus)
    )
    stat = re.sub(r"(?:^cpu\d+ .*\n)+", more, stat, count=1, flags=re.MULTILINE)
    stat = re.sub(
        r"^intr .*$", lambda m: m[0] + " 0" * 8 * cpus, stat, flags=re.MULTILINE
    )
    (folder / "stat").write_text(stat)
    softnet = folder / "net/softnet_stat"
    if softnet.exists():
        softnet.write_text(softnet.read_text().splitlines(True)[0] * cpus)
    return folder


def many_cpus(
    count: int, rounds: int, pause_s: float, folder: Path
) -> list[dict[str, object]]:
    """Return the cost on a tree of so many CPUs against two plain ones."""
    plain = Cost(copied(folder / "plain"))
    wide = Cost(widened(copied(folder / "wide"), count))
    live = Cost()
    medians = turns([plain, wide, live], rounds, pause_s)
    for cost in (plain, wide, live):
        cost.host.close()
    return [
        {
            "case": f"{count} CPUs in files, against {beside}",
            "plain_us": round(medians[index], 1),
            "loaded_us": round(medians[1], 1),
            "ratio": round(medians[1] / medians[index], 3),
        }
        for index, beside in ((0, "the host's tree in files"), (2, "live procfs"))
    ]


def main(argv: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=3000)
    parser.add_argument("--cpus", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--pause", type=float, default=0.02, metavar="S")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for results")
    parser.add_argument("--json", action="store_true", help="JSON in place of a table")
    args = parser.parse_args(given)
    report = Report("scaling", given)
    say(f"processes; load {load1():.2f}")
    rows = [many_processes(args.processes, args.rounds, args.pause)]
    say(f"CPUs; load {load1():.2f}")
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        rows += many_cpus(args.cpus, args.rounds, args.pause, Path(folder))
    for row in rows:
        row["met"] = float(str(row["ratio"])) <= WANTED
    text = report.keep({"wanted": WANTED, "rows": rows}, args.out)
    head = ("case", "plain_us", "loaded_us", "ratio", "met")
    print(text if args.json else table(head, [[r[c] for c in head] for r in rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
