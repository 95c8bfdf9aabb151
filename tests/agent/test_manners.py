"""What the agent touches, as Python's audit hooks see it: little, and the same."""

import json
import subprocess
import sys

import pytest

WATCHED = """
import json, sys
opened, connected, started = set(), set(), set()
def hook(event, args):
    if event == "open" and isinstance(args[0], str):
        opened.add(args[0])
    elif event == "socket.connect":
        connected.add(str(args[1]))
    elif event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"):
        started.add(event)
    elif event in ("os.listdir", "os.scandir"):
        opened.add(f"{args[0]}/*")
from trimtab.agent.host import Host
from trimtab.agent.sampler import Sampler
host = Host()
sampler = Sampler(host)
sys.addaudithook(hook)
for second in range(40):
    sampler.sample(second * 1_000_000_000)
print(json.dumps([sorted(opened), sorted(connected), sorted(started)]))
"""


@pytest.fixture(scope="module")
def touched():
    done = subprocess.run(
        [sys.executable, "-c", WATCHED], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_only_procfs_sysfs_and_control_groups_are_read(touched):
    """A27, A47: no mount is looked into and no disk is woken."""
    opened, _, _ = touched
    assert opened
    for path in opened:
        assert path.startswith(("/proc/", "/sys/class/net", "/sys/devices/system/cpu",
                                "/sys/fs/cgroup")), path  # fmt: skip
        assert "/block" not in path
        assert "mounts" not in path


def test_no_process_is_looked_at_but_the_first(touched):
    """A02, A03: the cost does not grow with the number of processes."""
    opened, _, _ = touched
    for path in opened:
        parts = path.split("/")
        if path.startswith("/proc/") and parts[2].isdigit():
            assert parts[2] == "1", path
        assert path != "/proc/*"


def test_sampling_connects_to_nobody_and_starts_nothing(touched):
    """A44."""
    _, connected, started = touched
    assert connected == []
    assert started == []


def test_the_agent_has_no_command_that_updates_it_or_takes_orders():
    """A42, A45: packages only, and no command channel of any kind."""
    from trimtab.agent.commands import parser

    (commands,) = [a for a in parser()._actions if a.choices]
    assert set(commands.choices or ()) <= {
        "run", "sample", "doctor", "install", "uninstall", "pause-gpu",
    }  # fmt: skip


def test_a_collector_can_ask_an_agent_for_cadence_and_pings_alone():
    """A42: whatever else arrives, the agent does nothing with it."""
    from trimtab.wire import Welcome

    assert set(Welcome._fields) == {
        "name", "server_ms", "interval_ms", "peers", "stored_seq", "protocol",
    }  # fmt: skip
