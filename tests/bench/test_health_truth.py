"""The benchmark of the score against real work: its parts, and a short run."""

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from bench.health_truth import judged, read
from bench.truth import relay
from bench.truth.levels import SCENARIOS, Level, drawn
from bench.truth.rescore import rescored
from bench.truth.rivals import Counters, Disk, between, disk
from bench.truth.verdict import calm_s, verdict
from tests.processes import until

SCRIPT = Path(__file__).parents[2] / "bench" / "health_truth.py"


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_levels_are_the_seeds_own_and_a_tenth_of_them_calm(scenario):
    levels = drawn(scenario, 200, 1)
    assert levels == drawn(scenario, 200, 1) != drawn(scenario, 200, 2)
    assert levels.count(Level()) >= 20
    # stress-ng has few levels of I/O; the rest have as many as windows.
    assert len(set(levels)) >= (30 if scenario.name == "io" else 100)


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_levels_come_in_no_order(scenario):
    """A signal that remembers the window before is of no help."""
    calm = [level == Level() for level in drawn(scenario, 200, 1)]
    assert any(calm[:60])
    assert any(calm[-60:])


def test_a_path_delays_jitters_and_stalls_by_a_retransmission_timeout():
    rng = random.Random(1)
    assert relay.parse("0 0 0\n").wait_s(rng) == 0
    assert relay.parse("30 0 0\n").wait_s(rng) == 0.03
    jittered = [relay.parse("0 10 0").wait_s(rng) for _ in range(4000)]
    assert sum(jittered) / 4000 == pytest.approx(0.01, rel=0.1)
    lossy = [relay.parse("0 0 0.1").wait_s(rng) for _ in range(4000)]
    assert {round(s, 1) for s in lossy} <= {0, 0.2, 0.6, 1.4, 3.0, 6.2}
    assert sum(s > 0 for s in lossy) / 4000 == pytest.approx(0.1, abs=0.02)


def window(took_ms, score, *, load1=1.0, stress=("--cpu", "1"), scenario="cpu"):
    return {
        "scenario": scenario,
        "level": Level(tuple(stress))._asdict(),
        "took_s": [took_ms / 1000, took_ms / 900],
        "rivals": {"load1": load1},
        "looks": [None, {"score": score, "signals": {}}],
    }


def test_a_score_that_falls_as_work_slows_is_at_the_ceiling():
    windows = [window(10 + n, 1 - n / 20) for n in range(20)]
    found = verdict(windows, {"cpu": 0.01})
    assert found.ceiling == pytest.approx(1)
    assert found.found["score"] == pytest.approx(1)
    assert found.share == pytest.approx(1)
    assert found.met


def test_a_rival_that_is_better_by_more_than_a_hundredth_is_a_miss():
    windows = [window(10 + n, 1 - n / 20, load1=float(n)) for n in range(20)]
    windows[3]["looks"][1]["score"], windows[9]["looks"][1]["score"] = 0.4, 0.9
    found = verdict(windows, {"cpu": 0.01})
    name, rho = found.best_rival
    assert name == "load1"
    assert rho == pytest.approx(1)
    assert found.share == pytest.approx(0.9, abs=0.09)
    assert not found.met


def test_a_score_that_never_moves_is_no_correlation_and_no_success():
    found = verdict([window(10 + n, 1.0) for n in range(20)], {"cpu": 0.01})
    assert found.found["score"] is None
    assert not found.met


def test_a_window_in_which_no_work_was_done_is_left_out():
    windows = [window(10 + n, 1 - n / 20) for n in range(20)]
    windows[4]["took_s"][1] = None
    assert verdict(windows, {"cpu": 0.01}).windows == 19


def test_calm_is_what_the_work_takes_with_nothing_beside_it():
    windows = [window(10, 1.0, stress=()), window(90, 0.1)]
    assert calm_s(windows)["cpu"] == pytest.approx((0.010 + 10 / 900) / 2)


def test_scenarios_are_judged_together_by_slowness_and_not_by_time():
    """The I/O work is slow by nature: that is no trouble."""
    windows = [
        window(took * n, 1 / n, stress=() if n == 1 else ("--x",), scenario=name)
        for name, took, by in (("cpu", 10, (1, 2, 4, 6)), ("io", 1000, (1, 3, 5, 7)))
        for n in by
    ]
    assert judged(windows)["all"].share == pytest.approx(1, abs=0.01)


def test_a_line_that_a_kill_cut_short_does_not_count(tmp_path):
    log = tmp_path / "log"
    log.write_text('{"index": 0}\n{"ind\n{"index": 2}\n')
    assert [w["index"] for w in read(log)] == [0, 2]


def test_recorded_windows_are_judged_anew_by_the_curves_of_today():
    seen = window(10, 0.123)
    seen["looks"][1]["signals"] = {"cpu.run_queue": 0.8, "memory.available": None}
    (none, look) = rescored(seen)["looks"]
    assert none is None
    assert (look["score"], look["limiting"]) == (0.5, "cpu")
    assert rescored(window(10, 0.123))["looks"][1]["score"] is None


def test_what_else_could_tell_is_of_the_whole_window():
    before = Counters(10.0, 100, 1000, {"psi.cpu.some": 0}, {"vda": Disk(5, 10)})
    after = Counters(12.0, 150, 1400, {"psi.cpu.some": 500_000}, {"vda": Disk(9, 50)})
    seen = between(before, after)
    assert seen["cpu %"] == 50 / 400
    assert seen["psi.cpu.some"] == 0.25
    assert disk(before, after) == {"disk.request_ms": 10.0, "disk.queue": 0.02}
    assert disk(after, after._replace(at_s=13.0))["disk.request_ms"] is None


def children(folder):
    """Return the processes that name a folder of the benchmark's, or stress it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if str(folder).encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_a_run_that_is_killed_leaves_nothing_and_goes_on_where_it_was(tmp_path, need):
    need("stress-ng")
    log = tmp_path / "windows.jsonl"
    command = [
        *(sys.executable, SCRIPT, "--only", "cpu", "--windows", "4"),
        *("--window", "0.3", "--log", log, "--out", tmp_path / "results", "--json"),
    ]
    own = tmp_path / "tmp"
    own.mkdir()
    environment = os.environ | {"TMPDIR": str(own)}
    killed = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    until(lambda: log.exists() and log.read_text().count("\n"), 30, "a window")
    assert len(children(own)) > 4
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    until(lambda: not children(own), 10, "its processes end")
    until(lambda: not list(own.iterdir()), 10, "its folder is gone")
    done = len(list(read(log)))
    with log.open("a") as cut:
        cut.write('{"scenario": "cp')
    again = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    )
    assert f"cpu: {4 - done} of 4 windows" in again.stderr
    result = json.loads(again.stdout)
    assert result["verdicts"]["cpu"]["windows"] == 4
    assert {"score", "load1", "cpu %", "psi.cpu.some"} <= set(
        result["verdicts"]["cpu"]["found"]
    )
    looks = [w["looks"][-1] for w in read(log)]
    assert all(0 <= look["score"] <= 1 for look in looks)
    assert not math.isnan(sum(w["rivals"]["memory %"] for w in read(log)))
    assert not children(own)


@pytest.mark.skipif(shutil.which("stress-ng") is None, reason="needs no stress-ng")
def test_without_stress_ng_it_says_how_to_get_it(tmp_path):
    done = subprocess.run(
        [sys.executable, SCRIPT, "--only", "cpu", "--out", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": str(tmp_path)},
    )
    assert "apt-get install stress-ng" in done.stdout
