"""How good is the forecast, and what does it cost: on recorded series.

    python bench/forecast.py --data ../shared/data
    python bench/forecast.py --only nyc_taxi grok_asg_anomaly
    python bench/forecast.py --json

Each series is fed step by step, as a collector would. At origins spread evenly
over the last 40 %, the next 30 steps are foreseen. The error is scaled (MASE,
Hyndman and Koehler 2006): mean |error| over the mean change from one step to
the next in the window before the origin, 8 days for series with a daily
pattern, else 2,000 points. 1 is what guessing the last value costs one step
ahead; at 30 steps that costs more.

Beside ours stands each method alone, and `hindsight`: the one method that
proved best for the series, which nobody can know before. `against mean` is ours
over the better of the two exponential means. `covered` is the share of readings
in the band, of which 0.9 is wanted. The first nine series are those that
are judged; methods were chosen with an eye on them, so the others are the
fairer test.
"""

import argparse
import csv
import gzip
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.report import RESULTS, Report, say, table

from trimtab.balancer.forecast import Expected, Kind, Series

STEPS = 30
LAST = 0.4  # of a series, where the origins are
WINDOW = 2_000  # steps of the scale, for series without a pattern
WANTED_MASE = 1.10
WANTED_US = 1_000
WANTED_AGAINST_MEAN = 1.1
WANTED_FROM_MEAN = ("mean, gain 0.2", "mean, gain 0.05")


class Source(NamedTuple):
    """A recorded series."""

    name: str
    path: str
    column: str
    step_s: float
    daily: bool = False  # a daily pattern, by the README of the recording
    judged: bool = False
    plain: bool = False  # without any pattern, by the README
    counts: bool = False


def _nab(name: str, **more: bool) -> Source:
    step_s = 1800.0 if name == "nyc_taxi" else 300.0
    return Source(name, f"nab-metrics/{name}.csv", "value", step_s, **more)


SOURCES = (
    _nab("ec2_cpu_utilization_5f5533", judged=True),
    _nab("ec2_cpu_utilization_825cc2", judged=True, plain=True),
    _nab("ec2_cpu_utilization_fe7f93", judged=True, plain=True),
    _nab("ec2_cpu_utilization_53ea38", judged=True, daily=True),
    _nab("rds_cpu_utilization_e47b3b", judged=True, daily=True),
    _nab("grok_asg_anomaly", judged=True, daily=True),
    _nab("elb_request_count_8c0756", judged=True, counts=True),
    _nab("nyc_taxi", judged=True, daily=True, counts=True),
    _nab("art_daily_small_noise", judged=True, daily=True),
    _nab("ec2_cpu_utilization_24ae8d"),
    _nab("ec2_cpu_utilization_c6585a"),
    _nab("ec2_network_in_257a54"),
    _nab("ec2_disk_write_bytes_1ef3de"),
    _nab("ec2_request_latency_system_failure"),
    _nab("art_daily_jumpsup", daily=True),
    _nab("art_load_balancer_spikes"),
    _nab("Twitter_volume_AAPL", counts=True, plain=True),
    _nab("Twitter_volume_AMZN", counts=True),
    _nab("Twitter_volume_FB", counts=True),
    Source(
        "nasa, requests a minute",
        "nasa-http-1995-07/rate_60s.csv.gz",
        "requests",
        60.0,
        daily=True,
        counts=True,
    ),
    Source(
        "azure llm, requests per 10 s",
        "azure-llm-2023/conv_rate_10s.csv",
        "n",
        10.0,
        counts=True,
        plain=True,
    ),
)


class Origin(NamedTuple):
    """What was foreseen at one point of a series, and what came."""

    came: list[float]
    scale: float
    ours: list[Expected]
    each: dict[str, list[float | None]]


class Result(NamedTuple):
    """One series: scaled errors, coverage, and cost."""

    ours: float
    each: dict[str, float]
    covered: float | None
    method: str  # of the last forecast, at 30 steps
    update_us: float
    forecast_us: float

    @property
    def hindsight(self) -> float:
        """The error of the method that proved best."""
        return min(self.each.values())

    @property
    def against_mean(self) -> float:
        """Ours over the better exponential mean."""
        return self.ours / min(self.each[name] for name in WANTED_FROM_MEAN)


def main(argv: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [source.name for source in SOURCES]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="S")
    parser.add_argument("--origins", type=int, default=15, help="of each series")
    shared = Path(__file__).parents[1] / ".." / "shared" / "data"
    parser.add_argument("--data", type=Path, default=shared, help="the recordings")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for results")
    parser.add_argument("--json", action="store_true", help="JSON in place of tables")
    args = parser.parse_args(given)
    report = Report("forecast", given)
    results: dict[str, Result] = {}
    for source in SOURCES:
        if source.name in args.only:
            say(source.name)
            values = read(args.data / source.path, source.column)
            results[source.name] = measured(source, values, args.origins)
    body = {
        "origins": args.origins,
        "rows": {
            name: result._asdict()
            | {"hindsight": result.hindsight, "against_mean": result.against_mean}
            for name, result in results.items()
        },
        "wanted": wanted(results),
    }
    text = report.keep(body, args.out)
    print(text if args.json else shown(results))
    return 0


def read(path: Path, column: str) -> list[float]:
    """Return a column of a CSV file, zipped or not."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        return [float(row[column]) for row in csv.DictReader(lines)]


def measured(source: Source, values: Sequence[float], origins: int) -> Result:
    """Feed a series, and foresee it at the origins."""
    series = Series(Kind(source.step_s, least=0.0, counts=source.counts))
    at = {*spread(len(values), origins)}
    window = round(8 * 86_400 / source.step_s) if source.daily else WINDOW
    found: list[Origin] = []
    spent_s = {"update": 0.0, "forecast": 0.0}
    for place, value in enumerate(values):
        begun_s = time.process_time()
        series.update(place * source.step_s, value)
        spent_s["update"] += time.process_time() - begun_s
        if place in at:
            begun_s = time.process_time()
            ours = series.forecast(STEPS)
            spent_s["forecast"] += time.process_time() - begun_s
            steps = [series.each(ahead) for ahead in range(1, STEPS + 1)]
            each = {name: [step[name] for step in steps] for name in steps[0]}
            before = values[max(0, place - window) : place + 1]
            came = list(values[place + 1 : place + 1 + STEPS])
            found.append(Origin(came, changes(before), ours, each))
    return Result(
        ours=mean(scaled([e.value for e in o.ours], o) for o in found),
        each={
            name: mean(scaled(o.each[name], o) for o in found) for name in found[0].each
        },
        covered=covered(found),
        method=series.explain(STEPS).method,
        update_us=spent_s["update"] / len(values) * 1e6,
        forecast_us=spent_s["forecast"] / len(found) * 1e6,
    )


def spread(count: int, origins: int) -> list[int]:
    """Return places spread evenly over the last 40 % of a series."""
    first, last = round(count * (1 - LAST)), count - STEPS - 1
    gap = (last - first) / max(1, origins - 1)
    return [round(first + gap * i) for i in range(origins)]


def changes(values: Sequence[float]) -> float:
    """Return the mean change from one value to the next."""
    return mean(abs(b - a) for a, b in pairwise(values))


def scaled(expected: Sequence[float | None], origin: Origin) -> float:
    """Return the mean scaled error; inf where a method could not tell."""
    if None in expected:
        return float("inf")
    pairs = zip(expected, origin.came, strict=True)
    return mean(abs(e - c) for e, c in pairs if e is not None) / origin.scale


def covered(origins: Sequence[Origin]) -> float | None:
    """Return the share of readings within their band; None: there was no band."""
    inside = [
        step.low <= value <= step.high
        for origin in origins
        for step, value in zip(origin.ours, origin.came, strict=True)
        if step.low is not None and step.high is not None
    ]
    return sum(inside) / len(inside) if inside else None


def mean(values: Iterable[float]) -> float:
    """Return the plain mean."""
    held = list(values)
    return sum(held) / len(held)


def wanted(results: dict[str, Result]) -> list[dict[str, object]]:
    """Return what is wanted, what was measured, and whether it is met."""
    judged = [results[s.name].ours for s in SOURCES if s.judged and s.name in results]
    plain = {
        s.name: results[s.name].against_mean
        for s in SOURCES
        if s.plain and s.name in results
    }
    cost = [r.update_us + r.forecast_us for r in results.values()]
    rows: list[tuple[str, float, float]] = []
    if len(judged) == sum(s.judged for s in SOURCES):
        rows.append(("mean MASE of the nine", mean(judged), WANTED_MASE))
    for name, ratio in plain.items():
        rows.append((f"against mean, {name}", ratio, WANTED_AGAINST_MEAN))
    rows.append(("µs an update and a forecast, worst", max(cost), WANTED_US))
    return [
        {"what": what, "measured": found, "at_most": most, "met": found <= most}
        for what, found, most in rows
    ]


def shown(results: dict[str, Result]) -> str:
    """Return the tables that people read."""
    head = ("", "ours", "hindsight", "against mean", "covered", "method", "µs")
    rows: list[tuple[object, ...]] = [
        (
            name,
            r.ours,
            r.hindsight,
            r.against_mean,
            r.covered,
            r.method,
            r.update_us + r.forecast_us,
        )
        for name, r in results.items()
    ]
    judged = [s.name for s in SOURCES if s.judged and s.name in results]
    if judged:
        nine = [results[name] for name in judged]
        rows.append(
            (
                f"mean of the {len(nine)} judged",
                mean(r.ours for r in nine),
                mean(r.hindsight for r in nine),
            )
            + (None,) * 4
        )
    alone = [
        (name, *(r.each[name] for r in results.values()))
        for name in next(iter(results.values())).each
    ]
    verdict = [
        (w["what"], w["measured"], w["at_most"], "met" if w["met"] else "**missed**")
        for w in wanted(results)
    ]
    return "\n\n".join(
        (
            table(head, rows),
            table(("each method alone", *(n[-12:] for n in results)), alone),
            table(("", "measured", "at most", ""), verdict),
        )
    )


if __name__ == "__main__":
    sys.exit(main())
