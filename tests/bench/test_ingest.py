"""bench/ingest.py with a handful of connections: it runs, and its result is whole."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "ingest.py"


@pytest.mark.timeout(120)
def test_ingest_holds_a_few_connections_and_says_what_they_cost(need, tmp_path):
    need("cc")
    need("taskset")
    argv = ("--connections", "20", "--seconds", "2", "--only", "held")
    ended = subprocess.run(
        [sys.executable, SCRIPT, *argv, "visible", "--json", "--out", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    (kept,) = tmp_path.glob("ingest-*.json")
    assert json.loads(kept.read_text()) == result
    assert result["connections"] == 20
    assert 20 < result["frame_bytes"] < 300
    assert [row["frames_a_read"] for row in result["held"]] == [10, 1]
    for row in result["held"]:
        assert row["held_s"] > 1000
        assert 0 < row["us_frame"] < 1000
    for row in result["visible"]:
        assert row["frames"] > 0
        assert 0 < row["median_ms"] <= row["p99_ms"] <= row["most_ms"]


def test_help_has_examples():
    text = subprocess.run(
        [sys.executable, SCRIPT, "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert "python bench/ingest.py --" in text
