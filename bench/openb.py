"""Placing a recorded GPU cluster's tasks, beside the published results.

    python bench/openb.py                                everything, half an hour
    python bench/openb.py --workload default --policy 06-FGD --seeds 3
    python bench/openb.py --json

Alibaba's cluster of 2023: 1,213 nodes, 6,212 GPUs (the recording `openb-gpu-2023`,
whose folder TRIMTAB_RECORDINGS names). A run is made as the published ones: the
tasks shuffled, more drawn from them (or some dropped) until they ask for 130 % of
the GPUs, placed one by one, never removed; one that fits nowhere is dropped. Nodes
stand in an order of chance, which decides between equals. Host memory limits a
placement but is no part of the fragment. A figure is the mean over the tasks that
arrive within half a point of it, and over the seeds.

Runs are kept in a file, a line each; those already in it are not made again.
"""

import argparse
import csv
import gzip
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import fmean
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.openb_policies import POLICIES
from bench.report import RESULTS, Report, say, table

from trimtab.balancer.gpus import Ask, Room, typical

ROOT = Path(__file__).parents[1]
WORKLOADS = (
    *("default", "cpu100", "cpu200", "gpushare40", "gpushare80"),
    *("multigpu20", "multigpu40", "gpuspec10", "gpuspec33"),
)
ARRIVES = 1.3  # of the cluster's GPUs are asked for in the end
ALLOWED = 0.5  # points from the published figure
MEASURES = ("alloc_pct", "frag_pct_of_total", "frag_pct_of_idle")
SHOWN = {"alloc_pct": (100, 130), "frag_pct_of_total": (50, 80, 90)}


class Run(NamedTuple):
    """One run: by measure, then by arrived percent, every 5."""

    figures: dict[str, dict[int, float]]
    tasks: int
    mean_ms: float  # CPU time of a placement
    p99_ms: float
    worst_ms: float


def recordings() -> Path:
    """Return the folder of the recording."""
    folder = os.environ.get("TRIMTAB_RECORDINGS")
    return Path(folder or ROOT.parent / "shared" / "data") / "openb-gpu-2023"


def nodes(folder: Path) -> list[tuple[str, Room]]:
    """Return the GPU nodes, empty."""
    with (folder / "openb_node_list_gpu_node.csv").open() as file:
        return [
            (
                row["sn"],
                Room(
                    int(row["cpu_milli"]),
                    int(row["memory_mib"]),
                    (1000,) * int(row["gpu"]),
                    row["model"],
                ),
            )
            for row in csv.DictReader(file)
        ]


def asks(folder: Path, workload: str) -> list[Ask]:
    """Return what each task of a list asks for."""
    with gzip.open(folder / f"openb_pod_list_{workload}.csv.gz", "rt") as file:
        return [_ask(row) for row in csv.DictReader(file)]


def _ask(row: dict[str, str]) -> Ask:
    devices = int(row["num_gpu"])
    models = row.get("gpu_spec") or ""
    return Ask(
        int(row["cpu_milli"]),
        int(row["memory_mib"]),
        devices,
        int(row["gpu_milli"]) if devices else 0,
        tuple(models.split("|")) if devices and models else (),
    )


def published(folder: Path) -> dict[tuple[str, str, str, int], float]:
    """Return the means by measure, workload, policy and arrived percent."""
    with (folder / "expected_by_policy.csv").open() as file:
        return {
            (
                row["measure"],
                row["workload"],
                row["sc_policy"],
                int(row["arrived_pct"]),
            ): float(row["mean"])
            for row in csv.DictReader(file)
        }


def arrivals(tasks: Sequence[Ask], capacity: int, rng: Random) -> list[Ask]:
    """Return the tasks in the order of a run, asking for 130 % of the GPUs."""
    found = rng.sample(tasks, len(tasks))
    asked = sum(task.devices * task.each for task in found)
    while asked > ARRIVES * capacity:  # one list asks for more
        task = found.pop(rng.randrange(len(found)))
        asked -= task.devices * task.each
    while True:
        task = rng.choice(tasks)
        # The published one counts a single device of the last task too.
        if asked + task.each > ARRIVES * capacity:
            return found
        found.append(task)
        asked += task.devices * task.each


def replay(folder: Path, workload: str, policy: str, seed: int) -> Run:
    """Make one run."""
    rng = Random(seed)
    kept, tasks = nodes(folder), asks(folder, workload)
    mix = typical(Counter(tasks))
    if mix is None:
        raise ValueError(f"tasks expected in the list {workload}, got none")
    capacity = sum(sum(room.free) for _, room in kept)
    order = arrivals(tasks, capacity, rng)
    floor, place = POLICIES[policy](mix, rng)
    for name, room in rng.sample(kept, len(kept)):
        floor.put(name, room, room.free)
    fragment = sum(mix.fragment(room) for _, room in kept)
    idle, arrived = capacity, 0
    seen: dict[str, dict[int, list[float]]] = {m: defaultdict(list) for m in MEASURES}
    spent: list[float] = []
    for task in order:
        arrived += task.devices * task.each
        begun = time.thread_time()
        placed = place(task)
        spent.append(time.thread_time() - begun)
        if placed is not None:
            idle -= task.devices * task.each
            fragment += mix.fragment(placed.left) - mix.fragment(placed.before)
        percent = round(100 * arrived / capacity)
        if percent % 5 == 0:
            seen["alloc_pct"][percent].append(100 * (capacity - idle) / capacity)
            seen["frag_pct_of_total"][percent].append(100 * fragment / capacity)
            seen["frag_pct_of_idle"][percent].append(100 * fragment / idle)
    spent.sort()
    return Run(
        {m: {at: fmean(values) for at, values in seen[m].items()} for m in MEASURES},
        len(order),
        1000 * fmean(spent),
        1000 * spent[int(0.99 * len(spent))],
        1000 * spent[-1],
    )


class Runs:
    """The runs made so far, in a file of a line each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._made: dict[tuple[str, str, int], Run] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                kept = json.loads(line)
                figures = {
                    measure: {int(at): value for at, value in found.items()}
                    for measure, found in kept["run"].pop("figures").items()
                }
                key = kept["workload"], kept["policy"], kept["seed"]
                self._made[key] = Run(figures, **kept["run"])

    def of(self, folder: Path, workload: str, policy: str, seed: int) -> Run:
        """Return a run, made now if it was not."""
        key = workload, policy, seed
        if key not in self._made:
            run = self._made[key] = replay(folder, workload, policy, seed)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                kept = {"workload": workload, "policy": policy, "seed": seed}
                file.write(json.dumps(kept | {"run": run._asdict()}) + "\n")
        return self._made[key]


def compare(
    runs: Sequence[Run],
    known: dict[tuple[str, str, str, int], float],
    key: Sequence[str],
) -> dict[str, object]:
    """Return our means beside the published ones, for one workload and policy."""
    row: dict[str, object] = {"workload": key[0], "policy": key[1], "seeds": len(runs)}
    for measure in MEASURES:
        ours = {
            at: fmean(run.figures[measure][at] for run in runs)
            for at in runs[0].figures[measure]
            if all(at in run.figures[measure] for run in runs)
        }
        theirs = {at: known[measure, key[0], key[1], at] for at in ours}
        for at in SHOWN.get(measure, ()):
            row[f"{measure} {at}"] = round(ours[at], 2)
            row[f"published {measure} {at}"] = theirs[at]
        away = {at: ours[at] - theirs[at] for at in ours}
        worst = max(away, key=lambda at: abs(away[at]))
        row[f"{measure} most away"] = round(away[worst], 2)
        row[f"{measure} most away at"] = worst
    row["mean_ms"] = round(fmean(run.mean_ms for run in runs), 3)
    row["p99_ms"] = round(fmean(run.p99_ms for run in runs), 3)
    row["worst_ms"] = round(max(run.worst_ms for run in runs), 2)
    away_most = (row[f"{m} most away"] for m in ("alloc_pct", "frag_pct_of_total"))
    row["met"] = all(abs(float(str(away))) <= ALLOWED for away in away_most)
    return row


def shown(rows: Sequence[dict[str, object]]) -> str:
    """Return the comparison as a table: ours (difference to the published)."""
    names = {"alloc_pct": "allocated", "frag_pct_of_total": "fragment"}
    columns = [(m, at) for m, points in SHOWN.items() for at in points]
    head = ["workload", "policy", *(f"{names[m]} at {at} %" for m, at in columns)]
    head += ["most away", "ms", "p99 ms", "met"]
    return table(head, [list(_cells(row, columns)) for row in rows])


def _cells(
    row: dict[str, object], columns: Sequence[tuple[str, int]]
) -> Iterator[object]:
    yield row["workload"]
    yield row["policy"]
    for measure, at in columns:
        ours = float(str(row[f"{measure} {at}"]))
        theirs = float(str(row[f"published {measure} {at}"]))
        yield f"{ours:.2f} ({ours - theirs:+.2f})"
    yield "{} / {}".format(*(f"{row[f'{m} most away']:+}" for m in MEASURES[:2]))
    yield row["mean_ms"]
    yield row["p99_ms"]
    yield "yes" if row["met"] else "no"


def main(argv: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", action="append", choices=WORKLOADS)
    parser.add_argument("--policy", action="append", choices=POLICIES)
    parser.add_argument("--seeds", type=int, default=10, help="runs of each")
    parser.add_argument("--from-seed", type=int, default=0)
    parser.add_argument("--runs", type=Path, default=ROOT / "var" / "openb.jsonl")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for results")
    parser.add_argument("--json", action="store_true", help="JSON in place of a table")
    args = parser.parse_args(given)
    folder = recordings()
    if not folder.is_dir():
        say(f"no recording at {folder}; TRIMTAB_RECORDINGS names their folder")
        return 2
    report, runs, known = Report("openb", given), Runs(args.runs), published(folder)
    seeds = range(args.from_seed, args.from_seed + args.seeds)
    rows = []
    for workload in args.workload or WORKLOADS:
        for policy in args.policy or POLICIES:
            made = []
            for seed in seeds:
                begun = time.monotonic()
                made.append(runs.of(folder, workload, policy, seed))
                if (took := time.monotonic() - begun) > 0.1:
                    say(f"{workload} {policy} seed {seed}: {took:.0f} s")
            rows.append(compare(made, known, (workload, policy)))
    text = report.keep({"allowed_points": ALLOWED, "rows": rows}, args.out)
    print(text if args.json else shown(rows))
    return 0 if all(row["met"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
