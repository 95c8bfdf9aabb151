"""A collector away for two minutes: what of the samples and the memory is left.

An agent over a tree without PSI, and a collector that is killed in between:

    python bench/outage.py --away 125
    python bench/outage.py --away 20 --json
"""

import argparse
import json
import socket
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.processes import Fleet, rss_kib, until

TREE = Path(__file__).parents[1] / "tests" / "fixtures" / "no-psi"
RATED = {"healthy", "strained", "saturated"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def outage(folder: Path, away_s: float) -> dict[str, object]:
    """Return the minutes' samples, gaps and memory around the outage."""
    fleet = Fleet(folder, free_port)

    def rated() -> bool:
        return fleet.nodes().get("away", {}).get("state") in RATED

    try:
        collector = fleet.collector()
        agent = fleet.agent("away", procfs=TREE / "proc", sysfs=TREE / "sys")
        until(rated, 15, "the node is rated")
        print("waiting for a whole minute to begin", file=sys.stderr)
        time.sleep(60 - time.time() % 60 + 5)
        before_kib = rss_kib(agent.pid)
        collector.kill()
        collector.wait()
        print(f"the collector is away for {away_s:g} s", file=sys.stderr)
        time.sleep(away_s)
        after_kib = rss_kib(agent.pid)
        fleet.collector()
        back_s = until(rated, 60, "the node is back")
        time.sleep(62 - time.time() % 60)  # the last minute is whole
        history = fleet.ask("/v1/nodes/away/history")
        return {
            "samples_a_minute": history["samples"],
            "gaps": fleet.ask("/v1/nodes/away")["gaps"],
            "back_s": round(back_s, 1),
            "rss_kib": [before_kib, after_kib],
        }
    finally:
        fleet.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--away", type=float, default=125.0, help="seconds")
    parser.add_argument("--json", action="store_true", help="as a JSON document")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = outage(Path(folder), args.away)
    if args.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:18} {value}")
    samples = result["samples_a_minute"]
    whole = isinstance(samples, list) and all(n == 60 for n in samples[1:-1])
    return 0 if whole and result["gaps"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
