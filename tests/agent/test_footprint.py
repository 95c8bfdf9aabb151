"""What a running agent has loaded: only what it uses."""

import subprocess
import sys

import pytest
from tests.processes import until

# Nothing else is to come in with a plain start; each costs memory and time.
HEAVY = {
    "argparse", "asyncio", "bz2", "concurrent", "dataclasses", "difflib",
    "encodings.idna", "inspect", "lzma", "logging", "multiprocessing", "numpy",
    "pathlib", "psutil", "pynvml", "queue", "random", "shutil", "ssl", "subprocess",
    "tempfile", "threading", "tomllib", "unicodedata", "urllib", "uuid",
}  # fmt: skip
AT_WORK = """
import sys, time
from trimtab.agent import cli, service
from trimtab.agent.agent import Agent
from trimtab.agent.notify import Manager
def serve(start):
    agent = Agent(start, Manager({}))
    agent.begin()
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        agent._loop.turn(until)
    print(*sys.modules)
service.serve = serve
cli.main(sys.argv[1:])
"""


def loaded(fleet, tmp_path, *more):
    argv = ["run", "--collector", f"127.0.0.1:{fleet.frames_port}"]
    argv += ["--state-dir", str(tmp_path / "state"), "--procfs", "/proc", *more]
    done = subprocess.run(
        [sys.executable, "-S", "-c", AT_WORK, *argv],
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "event=connected" in done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("mode", ["standard", "edge"])
def test_a_plain_start_loads_only_what_it_uses(fleet, tmp_path, mode):
    fleet.collector()
    until(lambda: "collector_started" in fleet.log("collector"), 10, "it serves")
    modules = loaded(fleet, tmp_path, "--mode", mode)
    assert "trimtab.agent.uplink" in modules
    assert HEAVY & modules == set()
    pings = {"trimtab.agent.probes.ping", "trimtab.agent.probes.icmp"}
    assert not pings & modules  # there is no target
    gpus = {name for name in modules if name.startswith("trimtab.agent.gpu.")}
    assert gpus <= {"trimtab.agent.gpu.presence"}
