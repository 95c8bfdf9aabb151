"""A short run of bench/fuzz_collector.py, which make fuzz runs for ten minutes."""

import json
import subprocess
import sys
from pathlib import Path

FUZZ = Path(__file__).parents[2] / "bench" / "fuzz_collector.py"


def test_hostile_input_brings_out_nothing_but_refusals() -> None:
    done = subprocess.run(
        [sys.executable, FUZZ, "--seconds", "8", "--seed", "2", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    # A fuzzer that never gets past the first check proves nothing.
    assert report["streams"] > 100
    assert report["bodies"] > 100
    assert report["HTTP 200"] > 20
    assert report["HTTP 400"] > 20
