"""Trees that no kernel writes: nothing hangs, nothing ends the agent."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FILES = ("stat", "meminfo", "vmstat", "loadavg", "cpuinfo", "pressure/cpu",
         "pressure/memory", "pressure/io", "net/dev", "1/cgroup",
         "sys/kernel/random/boot_id")  # fmt: skip


def fifo(path):
    os.mkfifo(path)


def folder(path):
    path.mkdir()


def huge_number(path):
    path.write_text("MemTotal: " + "9" * 5000 + " kB\ncpu  " + "9" * 5000 + " 0 0 0\n")


def binary(path):
    path.write_bytes(os.urandom(5000))


def endless(path):
    path.symlink_to("/dev/zero")


def loop(path):
    path.symlink_to(path.name)


def empty(path):
    path.write_text("")


@pytest.mark.parametrize(
    "made", [fifo, folder, huge_number, binary, endless, loop, empty]
)
def test_whatever_stands_in_a_files_place_is_a_hole(tmp_path: Path, made):
    proc = tmp_path / "proc"
    for name in FILES:
        (proc / name).parent.mkdir(parents=True, exist_ok=True)
        made(proc / name)
    argv = ["--procfs", str(proc), "--sysfs", str(proc)]
    sample = run("sample", "--json", "--interval=0.05", *argv)
    assert sample.returncode == 0, sample.stderr
    for name, signal in json.loads(sample.stdout)["signals"].items():
        assert signal["value"] is None, (name, signal)
    state = tmp_path / "state"
    agent = subprocess.Popen(
        [sys.executable, "-m", "trimtab.agent", "run", "--state-dir", str(state),
         "--collector", "127.0.0.1:9", *argv],
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            agent.wait(1.5)  # it goes on
    finally:
        agent.terminate()
        _, said = agent.communicate(timeout=10)
    assert agent.returncode == 0, said
    assert "Traceback" not in said


def run(*argv):
    return subprocess.run(
        [sys.executable, "-m", "trimtab.agent", *argv],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
