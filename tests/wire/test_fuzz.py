"""A short run of bench/fuzz_wire.py: a fixed number of hostile inputs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[2] / "bench" / "fuzz_wire.py"


@pytest.mark.parametrize("seed", [1, 2])
def test_hostile_bytes_bring_out_nothing_but_wire_errors(seed: int) -> None:
    done = subprocess.run(
        [sys.executable, FUZZ, "--count", "10000", "--seed", str(seed), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["inputs"] == 10_000
    # A fuzzer that never gets past the first check proves nothing.
    assert report["messages"] > 1000
    assert report["Malformed"] > 1000
    assert report["TooLarge"] > 100
    assert report["memory_growth_mib"] < 32
