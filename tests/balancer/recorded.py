"""Readers of the recordings that routing is held against."""

import csv
import gzip
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import NamedTuple


class Probe(NamedTuple):
    """One probe of a path; `rtt_ms` None: never answered."""

    sent_ms: float
    rtt_ms: float | None


def probes(path: Path) -> list[list[Probe]]:
    """Return a recorded path's probes in the order sent, a list for each run."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    runs: dict[str, list[Probe]] = defaultdict(list)
    for row in csv.DictReader(text.splitlines()):
        rtt_ms = float(row["rtt_ms"]) if row["rtt_ms"] else None
        runs[row["run"]].append(Probe(float(row["t_ms"]), rtt_ms))
    return list(runs.values())


class Event(NamedTuple):
    """A probe left, or its answer came."""

    at_ms: float
    answer: bool
    sent_ms: float


def events(run: list[Probe]) -> list[Event]:
    """Return what happens on a path, in the order that it happens."""
    found = [Event(probe.sent_ms, False, probe.sent_ms) for probe in run]
    found += [
        Event(probe.sent_ms + probe.rtt_ms, True, probe.sent_ms)
        for probe in run
        if probe.rtt_ms is not None
    ]
    return sorted(found)


class Second(NamedTuple):
    """One second of a satellite terminal."""

    rtt_ms: float
    lost: float  # share of the pings of that second


def starlink_day(folder: Path, day: str) -> list[Second]:
    """Return the seconds of a day."""
    with gzip.open(folder / "rtt-starlink" / f"{day}.csv.gz", "rt") as file:
        return [
            Second(
                float(row["rtt_ms"]),
                1.0 if row["connected"] == "0" else float(row["drop_rate"]),
            )
            for row in csv.DictReader(file)
        ]


class Done(NamedTuple):
    """One piece of work that a node finished."""

    at_s: float
    node: str
    service_s: float


def worker_steps(folder: Path, job: int) -> list[Done]:
    """Return the steps of a training job's workers, in order of the global step.

    The recorded time is scaled to 0-1000 within the job; it counts as ms. A step
    follows the one before by a tenth of its time, ten workers being at work.
    """
    path = folder / "pai-worker-batch-times" / f"job_{job}.csv"
    done: list[Done] = []
    at_s = 0.0
    with path.open() as file:
        for row in csv.DictReader(file):
            service_s = float(row["batch_time_norm"]) / 1000
            at_s += service_s / 10
            # The fastest step of a job is scaled to nothing.
            done.append(Done(at_s, row["worker"], max(service_s, 0.001)))
    return done


def vm_runs(
    folder: Path, metric: str, *, lower_is_better: bool, a_second: float = 60.0
) -> list[Done]:
    """Return a benchmark's runs on both sizes of VM, as work finished.

    A node is SIZE.VM. Speed becomes a time: 1 ms on the median of the larger size.
    The runs are hours apart and uneven: here the VMs take turns, at this rate,
    until one has no more.
    """
    slow: dict[str, list[float]] = defaultdict(list)
    for size in ("D8s_v5", "B8ms"):
        path = folder / "azure-vm-noise" / f"{metric}_{size}.csv.gz"
        with gzip.open(path, "rt") as file:
            for row in csv.DictReader(file):
                value = float(row["value"])
                node = f"{size}.{row['vm']}"
                slow[node].append(value if lower_is_better else 1 / value)
    large = median(
        value for n, values in slow.items() if n.startswith("D8s") for value in values
    )
    turns = zip(*slow.values(), strict=False)
    return [
        Done((turn * len(slow) + place) / a_second, node, 0.001 * value / large)
        for turn, values in enumerate(turns)
        for place, (node, value) in enumerate(zip(slow, values, strict=True))
    ]
