"""Does the score tell how slow work has become: on this host, under stress-ng.

    python bench/health_truth.py                          all, about 90 minutes
    python bench/health_truth.py --only cpu io --windows 30
    python bench/health_truth.py --rescore                after a change of curves
    python bench/health_truth.py --json

Two victims do the same piece of real work over and over while stress-ng, or a
relay with delay, jitter and loss, makes trouble of another badness each window,
in shuffled order. A real agent and a real collector watch. The
score is asked over HTTP at each window's end, and ranked against the work's
mean time in the window (Spearman), beside load average, utilisation, memory in
use and pressure alone, which are taken over the whole window.

  cpu      busy processes, from a part of one to eight
  quota    busy processes that use up the CPU quota of the work's control group
  memory   processes that hold memory of a control group with a limit
  io       files written and read on the same disk
  network  delay, jitter and loss on the agent's and the work's TCP streams
  mixed    several of these at once, in a control group

The ceiling is how well one victim's slowness tells the other's. Wanted: at
least 0.95 of it in each scenario, no other signal better by more than 0.01.
`all` is over every window of every scenario, by slowness relative to calm.

Each window is a line of JSON, with everything the collector showed, in --log
(var/health_truth-SEED.jsonl); a run goes on where the log ends, and --rescore
judges what is there by the curves as they are now. Needs root and stress-ng;
processes and control groups are removed afterwards, even when the run is killed.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.report import RESULTS, Report, load1, say, table
from bench.signals import Unable
from bench.truth.levels import SCENARIOS, Scenario, drawn
from bench.truth.rescore import rescored
from bench.truth.verdict import Verdict, calm_s, verdict
from bench.truth.windows import started

Window = dict[str, Any]
# Megabytes of raw windows: beside the results, not among them.
KEPT = Path(__file__).parents[1] / "var"


def main(argv: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", choices=tuple(SCENARIOS), default=list(SCENARIOS)
    )
    parser.add_argument("--windows", type=int, default=200, help="of each scenario")
    parser.add_argument("--window", type=float, metavar="S", help="length of each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path, help="windows as JSON lines, to go on with")
    parser.add_argument(
        "--rescore", action="store_true", help="run nothing, judge what the log has"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for results")
    parser.add_argument("--json", action="store_true", help="JSON in place of tables")
    args = parser.parse_args(given)
    log = args.log or KEPT / f"health_truth-{args.seed}.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    # An end in order, so that nothing is left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    report = Report("health_truth", given)
    unable: dict[str, str] = {}
    scenarios = [
        s if args.window is None else s.shortened(args.window)
        for s in (SCENARIOS[name] for name in args.only)
    ]
    if not args.rescore:
        unable = run(scenarios, args.windows, args.seed, log)
    windows = [w for w in read(log) if w["scenario"] in args.only]
    if args.rescore:
        windows = list(map(rescored, windows))
    verdicts = judged(windows)
    body = {
        "unable": unable,
        "verdicts": {
            name: v._asdict()
            | {"share": v.share, "best_rival": v.best_rival, "met": v.met}
            for name, v in verdicts.items()
        },
    }
    text = report.keep(body, args.out)
    print(text if args.json else shown(verdicts, unable))
    strict = os.environ.get("TRIMTAB_REQUIRE_ALL") == "1"
    return 1 if unable and strict else 0


def run(
    scenarios: Sequence[Scenario], count: int, seed: int, log: Path
) -> dict[str, str]:
    """Take the windows that the log lacks; return why a scenario can't be had."""
    unable: dict[str, str] = {}
    if shutil.which("stress-ng") is None:
        mend = "stress-ng is not installed: apt-get install stress-ng"
        return {s.name: mend for s in scenarios}
    for scenario in scenarios:
        taken = {
            w["index"]
            for w in read(log)
            if (w["scenario"], w["seed"], w["of"]) == (scenario.name, seed, count)
        }
        levels = drawn(scenario, count, seed)
        missing = [index for index in range(count) if index not in taken]
        if not missing:
            continue
        say(f"{scenario.name}: {len(missing)} of {count} windows; load {load1():.2f}")
        try:
            with started(scenario) as running, log.open("a") as out:
                if out.tell():
                    out.write("\n")  # after a line that may have been cut short
                begun_s = time.monotonic()
                for done, index in enumerate(missing):
                    window = running.window(levels[index])
                    place = {"seed": seed, "of": count, "index": index}
                    out.write(json.dumps(place | window) + "\n")
                    out.flush()
                    _progress(window, done + 1, len(missing), begun_s)
        except Unable as exc:
            unable[scenario.name] = str(exc)
            say(f"{scenario.name}: can't be done here: {exc}")
    return unable


def _progress(window: Window, done: int, of: int, begun_s: float) -> None:
    left_s = (time.monotonic() - begun_s) / done * (of - done)
    took = " ".join("-" if t is None else f"{t * 1e3:.1f}" for t in window["took_s"])
    look = window["looks"][-1] or {"score": None, "limiting": None}
    say(
        f"  {window['scenario']} {done}/{of}, {left_s / 60:.1f} min left: {took} ms,"
        f" score {look['score']} by {look['limiting']}"
    )


def read(log: Path) -> Iterable[Window]:
    """Return the windows of a log; lines that a kill cut short do not count."""
    if log.exists():
        for line in log.read_text().splitlines():
            with suppress(ValueError):
                yield json.loads(line)


def judged(windows: Sequence[Window]) -> dict[str, Verdict]:
    """Return the verdict on each scenario, and on all of them."""
    calm = calm_s(windows)
    known = [w for w in windows if w["scenario"] in calm]
    found = {
        name: verdict([w for w in known if w["scenario"] == name], calm)
        for name in SCENARIOS
        if name in calm
    }
    return found | ({"all": verdict(known, calm)} if len(found) > 1 else {})


def shown(verdicts: dict[str, Verdict], unable: dict[str, str]) -> str:
    """Return the tables that people read."""
    names = list(dict.fromkeys(name for v in verdicts.values() for name in v.found))
    rows = [
        (
            scenario,
            v.windows,
            *(None if r is None else round(r, 3) for r in map(v.found.get, names)),
            v.ceiling,
            v.share,
            "met" if v.met else "**missed**",
        )
        for scenario, v in verdicts.items()
    ]
    lines = [
        table(("", "windows", *names, "ceiling", "share", ""), rows),
        *(f"{name}: can't be done here: {why}" for name, why in unable.items()),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
