"""Each benchmark with tiny counts: that it runs, and that its result is whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bench(tmp_path):
    def run(name, *argv, **environment):
        script, out = ROOT / "bench" / f"{name}.py", tmp_path / "results"
        ended = subprocess.run(
            [sys.executable, str(script), "--json", "--out", str(out), *map(str, argv)],
            capture_output=True,
            text=True,
            timeout=100,
            env=os.environ | {"TRIMTAB_REQUIRE_ALL": "0"} | environment,
        )
        assert ended.stdout, ended.stderr
        result = json.loads(ended.stdout)
        (kept,) = out.iterdir()
        assert kept.name.startswith(f"{name}-20")
        assert json.loads(kept.read_text()) == result
        assert {"machine", "commit", "command", "load1_before"} <= set(result)
        return ended.returncode, result

    return run


@pytest.mark.parametrize("name", ["footprint", "soak", "scaling", "signals"])
def test_help_has_examples(name):
    script = ROOT / "bench" / f"{name}.py"
    text = subprocess.run(
        [sys.executable, script, "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert f"python bench/{name}.py --" in text


def test_a05_footprint_tells_the_pss_of_the_whole_tree(bench, need):
    need("openssl")
    only = ("--only", "standard", "edge pinned", "edge system", "node_exporter")
    status, result = bench("footprint", "--seconds", "2", "--starts", "1", *only)
    assert status == 0
    for name in ("standard", "edge pinned", "edge system"):
        row = result["rows"][name]
        assert 0 < row["uss_mib"] <= row["pss_mib"] <= row["rss_mib"]
        assert row["cpu_ms"] > 0
        assert row["wakes_s"] > 0
        assert 0 < row["start_s"] < 30
    assert result["rows"]["standard"]["frames"] >= 1
    wanted = {(v["subject"], v["what"]) for v in result["wanted"]}
    assert {("standard", "pss_mib"), ("edge pinned", "start_s")} <= wanted


def test_a_peer_that_is_not_installed_is_named(bench, tmp_path):
    nowhere = tmp_path / "glances"
    argv = ("--seconds", "1", "--only", "glances", "--glances", nowhere)
    status, result = bench("footprint", *argv)
    assert status == 0
    assert "glances" in result["rows"]["glances"]["missing"]
    status, _ = bench("footprint", *argv, TRIMTAB_REQUIRE_ALL="1")
    assert status == 1


@pytest.mark.parametrize("mode", ["standard", "edge"])
def test_soak_runs_each_mode_past_its_settings(bench, need, mode):
    need("openssl")
    status, result = bench("soak", "--mode", mode, "--samples", "200")
    points = result["modes"][mode]["points"]
    assert points[-1]["samples"] >= 200
    assert all(p["private_kib"] > 0 and p["descriptors"] > 3 for p in points)
    # So few samples are still warming up: memory proves nothing yet.
    assert status == bool(result["modes"][mode]["grew"])


def test_scaling_ends_its_processes_and_compares_both_cases(bench):
    before = {p.name for p in Path("/proc").iterdir()}
    quick = ("--processes", "50", "--cpus", "64", "--rounds", "10", "--pause", "0.001")
    status, result = bench("scaling", *quick)
    assert status == 0
    assert [row["case"].split()[0] for row in result["rows"]] == ["50", "64", "64"]
    assert all(row["ratio"] > 0 for row in result["rows"])
    left = {p.name for p in Path("/proc").iterdir()} - before
    assert not [pid for pid in left if sleeper(pid)]


def sleeper(pid):
    try:
        return b"sleep\x003600" in (Path("/proc") / pid / "cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.parametrize("scenario", ["quota", "memory", "loops"])
def test_signals_correlates_every_signal_with_the_victim(bench, scenario):
    quick = ("--repeats", "1", "--window", "0.3", "--only", scenario)
    _, result = bench("signals", *quick)
    found = result["scenarios"][scenario]
    if "unable" in found:
        pytest.skip(found["unable"])
    assert len(found["windows"]) >= 6
    assert {"cpu.busy", "load1"} <= set(found["spearman"])
    assert not list(Path("/sys/fs/cgroup").glob("*/trimtab-bench-*"))
