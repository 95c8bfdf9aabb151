"""Run every command of an installed trimtab: `installed.py BIN STATE`.

For clean environments, so the standard library only. Ends with status 1 and
a word on what failed.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

HTTP = "127.0.0.1:17767"
FRAMES = "127.0.0.1:17766"


def main() -> None:
    folder, state = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    state.mkdir()
    os.chdir(state)  # nothing is to be found in the current folder

    def command(*argv: str) -> list[str]:
        return [str(folder / argv[0]), *argv[1:]]

    def run(*argv: str, statuses: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            command(*argv), capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode not in statuses:
            sys.exit(f"{argv}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    for program in ("trimtab", "trimtab-agent", "trimtab-collector"):
        assert "examples" in run(program, "--help")
        assert "0." in run(program, "--version")
    os.environ |= {
        "TRIMTAB_FRAMES_LISTEN": FRAMES,
        "TRIMTAB_HTTP_LISTEN": HTTP,
        "TRIMTAB_STATE_DIR": str(state / "collector"),
        "TRIMTAB_URL": f"http://{HTTP}",
    }
    assert "no problem" in run("trimtab-collector", "check-config", "/dev/null")
    assert "No token" in run("trimtab-collector", "token", "list")
    services = [
        subprocess.Popen(command("trimtab-collector", "run")),
        subprocess.Popen(
            command("trimtab-agent", "run", "--collector", FRAMES, "--name", "here",
                    "--state-dir", str(state / "agent"))
        ),
    ]  # fmt: skip
    try:
        node = first_score()
        assert node["node"] == "here", node
        run("trimtab-agent", "doctor", "--json", "--collector", FRAMES, statuses=(0, 1))
        assert "here" in run("trimtab", "nodes")
        assert json.loads(run("trimtab", "node", "here", "--json"))["node"] == "here"
        decision = json.loads(run("trimtab", "route", "--json"))
        assert decision["node"] == "here", decision
        assert "here" in run("trimtab", "explain", decision["decision"])
        run("trimtab", "drain", "here", "--reason", "a try")
        assert "a try" in run("trimtab", "events")
        run("trimtab", "undrain", "here")
    finally:
        for service in reversed(services):
            service.terminate()
        statuses = [service.wait(10) for service in services]
    assert statuses == [0, 0], statuses
    print(f"{folder.parent.name}: every command runs")


def first_score() -> dict[str, object]:
    """Wait for the agent's first score."""
    for _ in range(100):
        time.sleep(0.1)
        try:
            with urllib.request.urlopen(f"http://{HTTP}/v1/nodes", timeout=5) as answer:
                nodes = json.load(answer)["nodes"]
        except OSError:
            continue
        if nodes and nodes[0]["score"] is not None:
            found: dict[str, object] = nodes[0]
            return found
    sys.exit("no score within 10 s")


if __name__ == "__main__":
    main()
