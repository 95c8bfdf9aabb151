"""Control groups of this very machine, made for the test, filled and removed.

Their tasks are ours: one process, busy for a second and a half at most.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from trimtab.agent import inventory
from trimtab.agent.host import Host
from trimtab.agent.sampler import Readings, Sampler
from trimtab.wire import Scope

MOUNT = Path("/sys/fs/cgroup")
MIB = 2**20

# Joins the groups, tells so, works when told to, tells so, waits to be ended.
WORKER = """
import os, sys, time
work, *folders = sys.argv[1:]
for folder in folders:
    with open(folder + "/cgroup.procs", "w") as procs:
        procs.write("0")
print("joined", flush=True)
sys.stdin.readline()
held = os.urandom(24 * 2**20) if work != "spin" else None
file = os.open(work, os.O_RDONLY) if work != "spin" else None
end = time.monotonic() + 1.5
while time.monotonic() < end:
    if file is not None:
        for offset in range(0, 64 * 2**20, 2**20):
            os.pread(file, 2**20, offset)
print("worked", flush=True)
sys.stdin.readline()
"""


class Made:
    """A group of one name in every tree."""

    def __init__(self) -> None:
        self.path = f"/trimtab-test-{os.getpid()}"
        if (MOUNT / "cgroup.controllers").exists():
            trees = [MOUNT]
        else:
            names = ("cpu", "cpuacct", "memory", "unified")
            trees = [MOUNT / name for name in names if (MOUNT / name).is_dir()]
        # Two v1 controllers may have one folder under two names.
        self.folders = [tree / self.path[1:] for tree in {t.resolve() for t in trees}]

    def make(self) -> None:
        for folder in self.folders:
            folder.mkdir()

    def remove(self) -> None:
        for folder in self.folders:
            with suppress(FileNotFoundError):
                folder.rmdir()

    def limit(self, *limits: tuple[str, str]) -> None:
        """Write the first of these files that there is."""
        for name, text in limits:
            for folder in self.folders:
                if (folder / name).exists():
                    (folder / name).write_text(text)
                    return
        pytest.skip(f"no control group here has {limits[0][0]} or the like of v1")


@pytest.fixture
def made() -> Iterator[Made]:
    group = Made()
    try:
        group.make()
    except OSError as exc:
        group.remove()
        pytest.skip(f"control groups can't be made here: {exc}")
    yield group
    group.remove()


def before_and_after(group: Made, work: str) -> tuple[Readings, Readings]:
    """Return what is said over the work by watching the group, and the host."""
    command = [sys.executable, "-c", WORKER, work, *map(str, group.folders)]
    samplers = [Sampler(host) for host in (Host(cgroup=group.path), Host())]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            if worker.stdout.readline() != "joined\n":
                pytest.skip("a process can't be put into control groups here")
            for sampler in samplers:
                sampler.sample(time.monotonic_ns())
            worker.stdin.write("\n")
            worker.stdin.flush()
            assert worker.stdout.readline() == "worked\n"
            watched, host = (s.sample(time.monotonic_ns()) for s in samplers)
        finally:
            worker.kill()
    return watched, host


def test_a_real_quota_of_a_fifth_of_a_cpu_shows_as_saturation(made: Made) -> None:
    made.limit(("cpu.max", "20000 100000"), ("cpu.cfs_quota_us", "20000"))
    watched, host = before_and_after(made, "spin")
    cpu = watched.cpu
    assert cpu.throttled is not None
    assert cpu.throttled > 0.4
    assert cpu.throttled_periods is not None
    assert cpu.throttled_periods > 0.5
    assert cpu.busy is not None
    assert cpu.busy > 0.7
    assert cpu.scope is Scope.CONTAINER
    assert (host.cpu.throttled, host.cpu.scope) == (0.0, None)
    if cpu.stall is not None:  # the kernel keeps pressure
        assert cpu.stall > 0.4
    assert inventory.cpu_quota(Host(cgroup=made.path)) == pytest.approx(0.2)


def test_a_real_memory_limit_shows_as_pressure(made: Made, tmp_path: Path) -> None:
    if os.major(tmp_path.stat().st_dev) == 0:
        pytest.skip(f"{tmp_path} is on no disk, so nothing of it can be evicted")
    made.limit(("memory.max", str(48 * MIB)), ("memory.limit_in_bytes", str(48 * MIB)))
    file = tmp_path / "read-again-and-again"
    with file.open("wb") as out:
        out.write(bytes(64 * MIB))
        out.flush()
        os.fsync(out.fileno())
        # Else it is in the cache already, at the expense of our own group.
        os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    watched, host = before_and_after(made, str(file))
    memory = watched.memory
    assert memory.refaults_s is not None
    assert memory.refaults_s > 100
    assert memory.max_events is not None
    assert memory.max_events > 0
    assert memory.oom_kills == 0
    assert memory.available is not None
    assert host.memory.available is not None
    assert memory.available < min(0.6, host.memory.available)
    assert memory.scope is Scope.CONTAINER
    assert inventory.memory_limit_mib(Host(cgroup=made.path)) == 48


def test_a_real_group_that_is_removed_and_made_again_is_found(made: Made) -> None:
    made.limit(("cpu.max", "20000 100000"), ("cpu.cfs_quota_us", "20000"))
    host = Host(cgroup=made.path)
    sampler = Sampler(host)
    assert sampler.sample(1_000_000_000).cpu.scope is None  # nothing to compare with
    assert sampler.sample(2_000_000_000).cpu.throttled == 0.0
    made.remove()
    for second in (3, 4):
        assert sampler.sample(second * 1_000_000_000).cpu.throttled is None
    made.make()
    made.limit(("cpu.max", "30000 100000"), ("cpu.cfs_quota_us", "30000"))
    sampler.sample(5_000_000_000)
    readings = sampler.sample(6_000_000_000)
    assert readings.cpu.throttled == 0.0
    (throttled,) = (s for s in sampler.signals() if s.name == "cpu.throttled")
    assert throttled.reason.startswith("quota of 0.3 CPUs")
    host.close()
