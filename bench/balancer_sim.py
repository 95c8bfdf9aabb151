"""The router against published balancers, on a simulated fleet.

    python bench/balancer_sim.py                    all cells, 3 seeds: hours
    python bench/balancer_sim.py --cells main --seeds 5
    python bench/balancer_sim.py --only trimtab C3 --cells "S3 M=1"
    python bench/balancer_sim.py --show             tables of what was run
    python bench/balancer_sim.py --plots docs/plots

Every policy meets the same nodes, arrivals, work and disturbances of a seed
(bench/sim/world.py). Seeds are chosen when the first run starts and kept with
the results, a line a run: what is in the file is not run again, so a run that
was stopped goes on where it was. Ratios are to the best peer of each metric,
paired by seed, with 95 % intervals.
"""

import argparse
import json
import secrets
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from time import monotonic

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.report import RESULTS, Report, say, table
from bench.sim.cells import AROUND, CELLS, LESS, MAIN
from bench.sim.ours import Ours
from bench.sim.peers import ORACLES, PEERS, made
from bench.sim.plot import bars, lines_of
from bench.sim.policy import Policy
from bench.sim.ratios import Ratio, best, paired
from bench.sim.run import run
from bench.sim.world import Cell, make

POLICIES: dict[str, type[Policy]] = {Ours.name: Ours, **PEERS, **ORACLES}
METRICS = ("mean_ms", "std_ms", "p99_ms", "p999_ms", "timeouts")
BESIDE = ("utilisation", "idle", "spread")
# What is wanted of the ratio to the best peer, by metric.
WANTED = {"mean_ms": 0.88, "std_ms": 0.93, "p99_ms": 0.85, "p999_ms": 0.7}
WANTED_TIMEOUTS = 0.35
STEADY = 0.95
LESS_WANTED = 1.02

Found = dict[tuple[str, str], dict[int, dict[str, float]]]


def read(path: Path) -> Found:
    """Return the runs kept, by cell, policy and seed."""
    found: Found = defaultdict(dict)
    if path.exists():
        for line in path.read_text().splitlines():
            one = json.loads(line)
            found[one["cell"], one["policy"]][one["seed"]] = one["result"]
    return found


def seeds_of(found: Found, count: int) -> list[int]:
    """Return the seeds that the kept runs have, and new ones up to the count."""
    seeds = list(dict.fromkeys(seed for runs in found.values() for seed in runs))
    while len(seeds) < count:
        seeds.append(secrets.randbelow(10**9))
    return seeds[:count]


def jobs(
    cells: Iterable[Cell], seeds: Iterable[int], names: Sequence[str]
) -> list[tuple[Cell, str, int]]:
    """Return what is to be run: seed by seed, so that every cell has some."""
    found = []
    for seed in seeds:
        for cell in cells:
            own = [n for n in names if not cell.options or n == Ours.name]
            found += [(cell, name, seed) for name in own]
            if cell.options:  # the peers it is held against
                found += [(cell.plain(), n, seed) for n in names if n != Ours.name]
    return list(dict.fromkeys(found))


def play(path: Path, todo: list[tuple[Cell, str, int]], found: Found) -> None:
    """Run what is missing, and append each result as it comes."""
    missing = [
        job for job in todo if job[2] not in found.get((job[0].name, job[1]), {})
    ]
    began = monotonic()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for number, (cell, name, seed) in enumerate(missing, 1):
            result = asdict(run(make(cell, seed), made(POLICIES[name], seed)))
            line = {"cell": cell.name, "policy": name, "seed": seed, "result": result}
            file.write(json.dumps(line) + "\n")
            file.flush()
            found[cell.name, name][seed] = result
            left_s = (monotonic() - began) / number * (len(missing) - number)
            say(
                f"{number}/{len(missing)} {cell.name}, {name}: "
                f"{result['mean_ms']:.1f} ms, {result['cpu_s']:.0f} s; "
                f"{left_s / 60:.0f} min left"
            )


def values(
    found: Found, cell: str, name: str, metric: str, seeds: Sequence[int]
) -> list[float]:
    """Return a metric by seed."""
    return [found[cell, name][seed][metric] for seed in seeds]


def shared(found: Found, pairs: Iterable[tuple[str, str]]) -> list[int]:
    """Return the seeds that all of these have."""
    sets = [set(found.get(pair, {})) for pair in pairs]
    return sorted(set.intersection(*sets)) if sets else []


def whole(found: Found, cell: Cell) -> str | None:
    """Return the table of a cell, policy by policy; None if nothing was run."""
    names = [name for name in POLICIES if found.get((cell.name, name))]
    seeds = shared(found, [(cell.name, name) for name in names])
    if not seeds:
        return None
    rows = []
    for name in names:
        mean = {
            metric: fmean(values(found, cell.name, name, metric, seeds))
            for metric in (*METRICS, *BESIDE)
        }
        rows.append(
            [
                name,
                *(round(mean[m], 1) for m in METRICS[:4]),
                f"{100 * mean['timeouts']:.4f}",
                *(round(mean[m], 3) for m in BESIDE),
            ]
        )
    head = ["", "mean", "std", "p99", "p99.9", "timeouts %", *BESIDE]
    return f"{cell.name}, {len(seeds)} seeds\n\n{table(head, rows)}"


def against(found: Found, cells: Iterable[Cell]) -> str:
    """Return the ratios to the best peer of each metric, cell by cell."""
    rows: list[list[object]] = []
    for cell in cells:
        plain = cell.plain().name
        peers = [name for name in PEERS if found.get((plain, name))]
        seeds = shared(
            found, [(cell.name, Ours.name), *((plain, name) for name in peers)]
        )
        if not seeds or not peers:
            continue
        row: list[object] = [cell.name, len(seeds)]
        for metric in METRICS:
            own = values(found, cell.name, Ours.name, metric, seeds)
            theirs = {n: values(found, plain, n, metric, seeds) for n in peers}
            name = best(theirs)
            row.append(said(paired(own, theirs[name]), name, wanted(cell, metric)))
        oracles = [name for name in ORACLES if found.get((plain, name))]
        if oracles and shared(found, [(plain, n) for n in oracles]):
            both = [s for s in seeds if all(s in found[plain, n] for n in oracles)]
            theirs = {n: values(found, plain, n, "mean_ms", both) for n in oracles}
            own = values(found, cell.name, Ours.name, "mean_ms", both)
            name = best(theirs)
            limit = 1.15 if cell.balancers == 64 else 1.10
            row.append(said(paired(own, theirs[name]), name, limit))
        else:
            row.append(None)
        rows.append(row)
    head = ["", "seeds", "mean", "std", "p99", "p99.9", "timeouts", "mean to oracle"]
    return table(head, rows)


def wanted(cell: Cell, metric: str) -> float | None:
    """Return what is wanted of the ratio to the best peer; None: nothing said."""
    if cell.options in (("no labels",), ("no bus",)):
        return LESS_WANTED
    if cell in MAIN:
        if cell.scenario == "steady":
            return STEADY
        return WANTED.get(metric, WANTED_TIMEOUTS)
    return LESS_WANTED if cell.nodes == 100 else None


def said(ratio: Ratio | None, name: str, limit: float | None) -> str:
    """Return a ratio with its interval, whom it is to, and if it is missed."""
    if ratio is None:
        return f"– ({name})"
    text = f"{ratio.value:.2f}"
    if ratio.low is not None:
        text += f" [{ratio.low:.2f}–{ratio.high:.2f}]"
    text = f"{text} {name}".rstrip()
    return f"**{text}**" if limit is not None and ratio.value > limit else text


def robust(found: Found) -> str:
    """Return the mean beside the centre's, for what should hardly matter."""
    centre = Cell().name
    rows: list[list[object]] = []
    for cell in (*AROUND[4:9], *LESS[5:]):
        seeds = shared(found, [(centre, Ours.name), (cell.name, Ours.name)])
        if seeds:
            row: list[object] = [cell.name, len(seeds)]
            for metric in METRICS[:4]:
                own = values(found, cell.name, Ours.name, metric, seeds)
                plain = values(found, centre, Ours.name, metric, seeds)
                row.append(said(paired(own, plain), "", None))
            rows.append(row)
    return table(["beside the centre", "seeds", "mean", "std", "p99", "p99.9"], rows)


def show(found: Found) -> str:
    """Return every table."""
    parts = [whole(found, cell) for cell in CELLS]
    return "\n\n".join(
        (*(part for part in parts if part), against(found, CELLS), robust(found))
    )


def draw(found: Found, folder: Path) -> None:
    """Write the plots."""
    folder.mkdir(parents=True, exist_ok=True)
    for cell in MAIN:
        names = [n for n in POLICIES if found.get((cell.name, n))]
        seeds = shared(found, [(cell.name, name) for name in names])
        for metric, title in (("mean_ms", "mean latency"), ("p999_ms", "p99.9")):
            if seeds:
                means = {
                    name: fmean(values(found, cell.name, name, metric, seeds))
                    for name in names
                }
                text = bars(
                    f"{title}, {cell.name}", means, "ms", 4 * min(means.values())
                )
                file = f"balancer-{_word(cell)}-{metric.removesuffix('_ms')}.svg"
                (folder / file).write_text(text)
    steps = [AROUND[4], AROUND[5], Cell(), AROUND[6], AROUND[7]]
    points = {
        name: [
            (
                f"{cell.period_s:g}+{cell.delay_s:g} s",
                fmean(run["mean_ms"] for run in found[cell.name, name].values()),
            )
            for cell in steps
        ]
        for name in (Ours.name, "C3", "ORCA weights")
        if all(found.get((cell.name, name)) for cell in steps)
    }
    if points:
        text = lines_of("Mean latency by age of reports, S3", points, "ms")
        (folder / "balancer-staleness.svg").write_text(text)


def _word(cell: Cell) -> str:
    return cell.name.lower().replace(" ", "-").replace("=", "")


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_RAW)
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--cells", nargs="*", help="main, less, around, or their names")
    parser.add_argument("--only", nargs="*", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--results", type=Path, default=RESULTS / "balancer_sim.jsonl")
    parser.add_argument("--show", action="store_true", help="run nothing")
    parser.add_argument("--plots", type=Path, help="write plots here, run nothing")
    options = parser.parse_args(argv)
    found = read(options.results)
    if options.plots is not None:
        draw(found, options.plots)
        return
    if not options.show:
        groups = {"main": MAIN, "less": LESS, "around": AROUND}
        cells = [
            cell
            for cell in CELLS
            if not options.cells
            or cell.name in options.cells
            or any(cell in groups.get(word, ()) for word in options.cells)
        ]
        seeds = seeds_of(found, options.seeds)
        play(options.results, jobs(cells, seeds, options.only), found)
    head = Report("balancer_sim", argv).head
    sys.stdout.write(f"{json.dumps(head)}\n\n{show(found)}\n")


_RAW = argparse.RawDescriptionHelpFormatter

if __name__ == "__main__":
    main(sys.argv[1:])
