"""20,000 samples at a fast cadence: memory, descriptors and threads must not grow.

    python bench/soak.py                     both modes at once, four minutes
    python bench/soak.py --mode edge --samples 100000
    python bench/soak.py --json

The real agent, over the wire to a real collector, only faster than its
settings allow. A line is laid through the sizes after the first quarter
(Theil and Sen: the median of all slopes between two points, which a few
outliers don't move).

Growth, and exit status 1, is: private memory rising by more than 16 bytes a
sample, the size of the smallest Python object, so that a single one leaked in
each sample shows; or more descriptors or threads at the end than before. PSS
is printed beside: it holds shares of pages that depend on who else runs.
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import tree
from bench.footprint import end, free_port
from bench.report import RESULTS, Report, as_installed, load1, say, table
from bench.subjects import Certificates, Collector
from tests.processes import Fleet

LEAK_BYTES = 16.0  # a sample: sys.getsizeof(object())
STALLED_S = 20.0
MODES = ("standard", "edge")

Point = dict[str, int]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the median slope between any two points (Theil and Sen).

    0 without two points that differ in x.
    """
    slopes = [
        (y2 - y1) / (x2 - x1)
        for (x1, y1), (x2, y2) in itertools.combinations(points, 2)
        if x1 != x2
    ]
    return statistics.median(slopes) if slopes else 0.0


def judge(points: Sequence[Point]) -> dict[str, object]:
    """Return slopes in bytes a sample, the other sizes, and what grew."""
    settled = points[len(points) // 4 :]
    half = len(settled) // 2
    slopes = {
        what: slope([(p["samples"], p[f"{what}_kib"] * 1024) for p in settled])
        for what in ("private", "pss")
    }
    grew = ["private memory"] if slopes["private"] > LEAK_BYTES else []
    most = {}
    for what in ("descriptors", "threads"):
        early = max((p[what] for p in settled[:half]), default=0)
        late = max((p[what] for p in settled[half:]), default=0)
        most[what] = [early, late]
        if late > early:
            grew.append(what)
    return {
        "private_bytes_a_sample": round(slopes["private"], 2),
        "pss_bytes_a_sample": round(slopes["pss"], 2),
        **most,
        "grew": grew,
    }


def agent(mode: str, hz: float) -> None:
    """Be the agent, at a cadence that settings don't allow."""
    from trimtab.agent import sampler, service, settings, starting

    # Else most probes would rest: at such a pace they take more than their share.
    sampler.BUDGET_SHARE = 1.0
    own = settings.load(None, os.environ, {"mode": mode})
    # In edge mode each sample is sent: the heartbeat is due at each.
    start = starting.prepare(
        own._replace(
            interval_s=1 / hz, calm_interval_s=1 / hz, heartbeat_s=0.0, gpu=False
        )
    )
    service.serve(start)


def soak(mode: str, samples: int, hz: float, folder: Path) -> dict[str, object]:
    """Return the points of one mode's run, and the verdict."""
    folder = folder / mode
    certificates = Certificates(folder / "tls")
    fleet = Fleet(folder, free_port)
    collector = Collector(fleet, certificates)
    given = {
        "TRIMTAB_COLLECTOR": f"127.0.0.1:{fleet.frames_port}",
        "TRIMTAB_STATE_DIR": str(folder / "agent"),
        "TRIMTAB_TLS": "true",
        "TRIMTAB_TLS_CA": str(certificates.authority),
        "TRIMTAB_TARGETS": '["127.0.0.1"]',
    }
    with (folder / "agent.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, __file__, "--agent", mode, "--hz", str(hz)],
            env={k: v for k, v in os.environ.items() if not k.startswith("TRIMTAB_")}
            | given,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    points: list[Point] = []
    try:
        points = watch(mode, process, collector, samples)
    finally:
        end(process)
        fleet.close()
    return {"points": points, **judge(points)}


def watch(
    mode: str, process: subprocess.Popen[bytes], collector: Collector, samples: int
) -> list[Point]:
    """Return the sizes, about a hundred times along the way."""
    points: list[Point] = []
    last, moved_at = 0, time.monotonic()
    step = max(1, samples // 100)
    while last < samples:
        time.sleep(0.1)
        if process.poll() is not None:
            raise RuntimeError(f"the agent ended with {process.returncode}")
        frames = collector.frames()
        if frames >= last + step:
            last, moved_at = frames, time.monotonic()
            pids = tree.tree(process.pid)
            held = tree.memory(pids)
            points.append(
                {
                    "samples": frames,
                    "pss_kib": held.pss,
                    "private_kib": held.uss,
                    "descriptors": tree.descriptors(pids),
                    "threads": tree.threads(pids),
                }
            )
            if len(points) % 10 == 0:
                at = f"{mode}: {frames} samples, {held.uss} KiB private"
                say(f"{at}; load {load1():.2f}")
        elif time.monotonic() - moved_at > STALLED_S:
            raise RuntimeError(f"no frame for {STALLED_S:g} s, after {last}")
    return points


def show(results: dict[str, dict[str, object]]) -> str:
    rows = []
    for mode, result in results.items():
        points = result["points"]
        assert isinstance(points, list)  # noqa: S101
        grew = result["grew"]
        rows.append(
            (
                *(mode, points[-1]["samples"], points[len(points) // 4]["pss_kib"]),
                *(points[-1]["pss_kib"], result["pss_bytes_a_sample"]),
                *(result["private_bytes_a_sample"], result["descriptors"]),
                *(result["threads"], f"GREW: {grew}" if grew else "no growth"),
            )
        )
    head = (
        *("mode", "samples", "PSS KiB at 1/4", "at the end", "PSS B/sample"),
        *("private B/sample", "descriptors", "threads", ""),
    )
    return table(head, rows)


def main(argv: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mode", choices=MODES, help="this one only")
    parser.add_argument("--samples", type=int, default=20_000)
    # 10 ms is the shortest interval that a hello can tell.
    parser.add_argument("--hz", type=float, default=100.0, help="at most 100, as is")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for results")
    parser.add_argument("--json", action="store_true", help="JSON in place of a table")
    parser.add_argument("--agent", choices=MODES, help=argparse.SUPPRESS)
    args = parser.parse_args(given)
    if args.agent:
        agent(args.agent, args.hz)
        return 0
    as_installed()
    report = Report("soak", given)
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        modes = (args.mode,) if args.mode else MODES
        say(f"{args.samples} samples at {args.hz:g} Hz; load {load1():.2f}")
        with ThreadPoolExecutor(len(modes)) as side_by_side:
            running = {
                mode: side_by_side.submit(
                    soak, mode, args.samples, args.hz, Path(folder)
                )
                for mode in modes
            }
        results = {mode: run.result() for mode, run in running.items()}
    text = report.keep({"modes": results}, args.out)
    print(text if args.json else show(results))
    return 1 if any(result["grew"] for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
