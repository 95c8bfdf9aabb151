"""Does foresight pay where loading takes long: a model cache, simulated.

    python bench/prewarm.py
    python bench/prewarm.py --seeds 1 2 3 --only reactive forecast
    python bench/prewarm.py --json

12 nodes with 3 places each serve 24 models; a model takes 12 s to load into a
place, which then serves 2 tasks at once. Popularity falls as 1/rank. Every 240 s
three pairs of models have a burst of 40 s, one pair after the other; each time up
to 8 s early or late, and up to 30 % smaller or larger. The first half of a run is
for learning, the second is measured. All see the same arrivals and service times.

The planned policies run the shipped plan (`trimtab.balancer.plan`) every 20 s and
route to the replica with the fewest tasks, never loading on demand. They differ
only in the demand they hand to the plan:

  reactive, last   the last 10 s, held
  reactive, mean   an exponential mean of gain 0.5, held
  forecast         the shipped forecast (`trimtab.balancer.forecast`), and not less
                   than the last 10 s
  known            what will come, without chance: a bound, not a policy
  static           no plan: a placement by mean demand, and no move

The others load on demand, evicting what was used longest ago:

  blind            the node with the fewest tasks, whatever it holds
  hash-bounded     consistent hashing with bounded loads, 1.25 (Mirrokni 2018)
  cache-aware      a holder, unless loads are too uneven (SGLang's router)
  myopic           the least of wait, load and what the evicted would wait

A task that has not begun after 15 s is given up and counts as that late. Seeds 1
to 8 were used to choose how cautious the demand is (balancer/plan/demand.py); the
usual ones are others. Fluctuation is the standard deviation of the mean response
time of each second.
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.prewarming import on_demand, planned
from bench.prewarming.cache import Outcome, Policy, simulate
from bench.prewarming.load import Load, drawn
from bench.report import RESULTS, Report, say, table

WANTED = 0.25  # lower fluctuation than the better reactive plan
REACTIVE = ("reactive, last", "reactive, mean")

POLICIES: dict[str, Callable[[Load], Policy]] = {
    "reactive, last": planned.last,
    "reactive, mean": planned.mean,
    "forecast": planned.foreseen,
    "known": planned.known,
    "static": planned.static,
    "blind": on_demand.Blind,
    "hash-bounded": on_demand.HashBounded,
    "cache-aware": on_demand.CacheAware,
    "myopic": on_demand.Myopic,
}


def main(argv: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(11, 21)))
    parser.add_argument(
        "--only", nargs="+", choices=list(POLICIES), default=list(POLICIES), metavar="P"
    )
    parser.add_argument("--minutes", type=float, default=40.0, help="of each run")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for results")
    parser.add_argument("--json", action="store_true", help="JSON in place of tables")
    args = parser.parse_args(given)
    report = Report("prewarm", given)
    rows: dict[str, list[Outcome]] = {name: [] for name in args.only}
    for seed in args.seeds:
        load = drawn(seed, args.minutes * 60)
        for name in args.only:
            found = simulate(load, POLICIES[name](load))
            rows[name].append(found)
            say(
                f"seed {seed}, {name}: mean {found.mean_s:.3f} s,"
                f" fluctuation {found.fluctuation_s:.3f} s, {found.loads} loads"
            )
    verdict = judged(rows)
    body: dict[str, object] = {
        "rows": {name: [o._asdict() for o in found] for name, found in rows.items()},
        "verdict": verdict,
    }
    text = report.keep(body, args.out)
    print(text if args.json else shown(rows, verdict))
    return 0


def judged(rows: dict[str, list[Outcome]]) -> dict[str, object] | None:
    """Return how much lower the forecast's fluctuation is; None if it wasn't run.

    Against the reactive plan that does better over all seeds, seed by seed.
    """
    rivals = [rows[name] for name in REACTIVE if name in rows]
    if "forecast" not in rows or not rivals:
        return None
    rival = min(rivals, key=_fluctuation)
    pairs = list(zip(rows["forecast"], rival, strict=True))
    lower = 1 - _fluctuation(rows["forecast"]) / _fluctuation(rival)
    return {
        "lower_by": lower,
        "lower_by_seed": [1 - a.fluctuation_s / b.fluctuation_s for a, b in pairs],
        "wanted": WANTED,
        "met": lower >= WANTED,
    }


def _fluctuation(found: Sequence[Outcome]) -> float:
    return statistics.fmean(one.fluctuation_s for one in found)


def shown(rows: dict[str, list[Outcome]], verdict: dict[str, object] | None) -> str:
    """Return the tables that people read."""
    head = ("means over seeds", *Outcome._fields)
    cells = [
        (name, *(statistics.fmean(column) for column in zip(*found, strict=True)))
        for name, found in rows.items()
    ]
    lines = [table(head, cells)]
    if verdict is not None:
        lines.append(table(tuple(verdict), [tuple(map(_short, verdict.values()))]))
    return "\n\n".join(lines)


def _short(value: object) -> object:
    if isinstance(value, list):
        return " ".join(f"{one:.2f}" for one in value)
    return value


if __name__ == "__main__":
    sys.exit(main())
