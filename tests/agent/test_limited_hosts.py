"""Hosts whose own figures say that all is well, while a control group is full."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.agent.trees import IDLE_HOST, Tree, stalled, ticks

from trimtab.agent.host import Host
from trimtab.agent.sampler import RETRY_S, Readings, Sampler, Signal
from trimtab.wire import Scope, State

S = 1_000_000_000
CG = "sys/fs/cgroup"
MIB = 2**20
CPUS = {"sys/devices/system/cpu/online": "0-3\n"}

# A second under a quota of 0.2 CPUs, of which the group uses all: by layout,
# the files at its start and end.
QUOTA_V2 = {
    "cgroup.controllers": "cpu memory\n",
    "cgroup.events": "populated 1\n",
    "cpu.max": "20000 100000\n",
}


def v2_cpu(second: int) -> dict[str, str]:
    return {
        "cpu.stat": f"usage_usec {200_000 * second}\nnr_periods {10 * second}\n"
        f"nr_throttled {9 * second}\nthrottled_usec {780_000 * second}\n",
        "cpu.pressure": stalled(830_000 * second, 0),
    }


def v1_cpu(second: int) -> dict[str, str]:
    return {
        "cpu/cpu.stat": f"nr_periods {10 * second}\nnr_throttled {9 * second}\n"
        f"throttled_time {780_000_000 * second}\n",
        "cpuacct/cpuacct.usage": f"{200_000_000 * second}\n",
    }


QUOTA_V1 = {"cpu/cpu.cfs_quota_us": "20000\n", "cpu/cpu.cfs_period_us": "100000\n"}


def idle(tree: Tree, second: int) -> None:
    tree.write(IDLE_HOST | CPUS)
    tree.write(
        {
            "proc/stat": ticks(second, busy=0.05),
            "proc/pressure/cpu": stalled(20_000 * second),
            "proc/pressure/memory": stalled(0, 0),
            "proc/pressure/io": stalled(0, 0),
        }
    )


class Taken(NamedTuple):
    """A sample, as frames and as people are told of it."""

    readings: Readings
    signals: dict[str, Signal]


def two_samples(host: Host, change: Callable[[int], None]) -> Taken:
    sampler = Sampler(host)
    for second in range(2):
        change(second)
        taken = sample(sampler, second)
    host.close()
    return taken


def sample(sampler: Sampler, second: int) -> Taken:
    readings = sampler.sample(second * S)
    return Taken(readings, {signal.name: signal for signal in sampler.signals()})


def test_a_container_s_cpu_quota_shows_as_saturation_v2(tmp_path: Path) -> None:
    """A14: the host is 5 % busy; the container has all of its 0.2 CPUs in use."""
    tree = Tree(tmp_path)
    tree.write(QUOTA_V2, CG)

    def change(second: int) -> None:
        idle(tree, second)
        tree.write(v2_cpu(second), CG)

    cpu = two_samples(tree.host(), change).readings.cpu
    assert cpu.busy == pytest.approx(1.0)
    assert cpu.throttled == pytest.approx(0.78)
    assert cpu.throttled_periods == pytest.approx(0.9)
    assert cpu.stall == pytest.approx(0.83)
    assert cpu.run_queue == 0.0
    assert cpu.scope is Scope.CONTAINER


def test_a_container_s_cpu_quota_shows_as_saturation_v1(tmp_path: Path) -> None:
    """A14."""
    tree = Tree(tmp_path, {"proc/1/cgroup": "2:cpuacct:/docker/1\n1:cpu:/docker/1\n"})
    tree.write(QUOTA_V1, CG)

    def change(second: int) -> None:
        idle(tree, second)
        tree.write(v1_cpu(second), CG)

    cpu = two_samples(tree.host(), change).readings.cpu
    assert cpu.busy == pytest.approx(1.0)
    assert cpu.throttled == pytest.approx(0.78)
    assert cpu.throttled_periods == pytest.approx(0.9)
    assert cpu.stall == pytest.approx(0.02)  # v1 has no pressure: the host's
    assert cpu.scope is Scope.CONTAINER


def test_a_container_stalls_with_its_host(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write(QUOTA_V2, CG)

    def change(second: int) -> None:
        idle(tree, second)
        tree.write(v2_cpu(second), CG)
        tree.write({"proc/stat": ticks(second, busy=0.99)})
        tree.write({"cpu.max": "max 100000\n"}, CG)
        tree.write({"proc/pressure/cpu": stalled(950_000 * second)})

    cpu = two_samples(tree.host(), change).readings.cpu
    assert cpu.stall == pytest.approx(0.95)
    assert cpu.busy == pytest.approx(0.99)
    assert (cpu.throttled, cpu.throttled_periods) == (0.0, 0.0)
    assert cpu.scope is None


def test_a_watched_group_stands_in_place_of_the_host(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write({"cgroup.controllers": "cpu memory io\n"}, CG)

    def change(second: int) -> None:
        idle(tree, second)
        tree.write(
            {
                "proc/stat": ticks(second, busy=0.99),
                "proc/pressure/cpu": stalled(950_000 * second),
                "proc/pressure/io": stalled(900_000 * second, 800_000 * second),
            }
        )
        tree.write(
            {
                "cpu.max": "max 100000\n",
                "cpu.stat": f"usage_usec {second * 1_000_000}\nnr_periods 0\n"
                "nr_throttled 0\nthrottled_usec 0\n",
                "cpu.pressure": stalled(100_000 * second),
                "memory.pressure": stalled(20_000 * second, 10_000 * second),
                "io.pressure": stalled(30_000 * second, 0),
            },
            f"{CG}/a/b",
        )

    readings, signals = two_samples(tree.host("/a/b"), change)
    assert readings.cpu.busy == pytest.approx(1 / 4)  # one of four CPUs
    assert readings.cpu.stall == pytest.approx(0.1)
    assert readings.memory.stall_some == pytest.approx(0.02)
    assert readings.memory.stall_full == pytest.approx(0.01)
    assert readings.io.stall_some == pytest.approx(0.03)
    assert readings.io.stall_full == 0.0
    assert readings.cpu.run_queue is None
    assert signals["cpu.run_queue"].state is State.UNSUPPORTED


def test_a_watched_group_of_v1_alone_has_no_pressure(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write({name.replace("/", "/a/"): text for name, text in QUOTA_V1.items()}, CG)

    def change(second: int) -> None:
        idle(tree, second)
        files = {
            name.replace("/", "/a/"): text for name, text in v1_cpu(second).items()
        }
        tree.write(files, CG)

    readings, signals = two_samples(tree.host("/a"), change)
    assert readings.cpu.busy == pytest.approx(1.0)
    for name in ("cpu.stall", "memory.stall_some", "memory.refaults"):
        assert signals[name].state is State.UNSUPPORTED
        assert "/a" in signals[name].reason


def test_the_worst_level_up_the_tree_counts(tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"proc/1/cgroup": "0::/pod/box\n"})
    tree.write({"cgroup.controllers": "cpu memory\n"}, CG)

    def change(second: int) -> None:
        idle(tree, second)
        for folder, quota, usage, throttled in (
            ("pod", "100000 100000", 950_000, 400_000),
            ("pod/box", "50000 100000", 100_000, 1_000),
        ):
            tree.write(
                {
                    "cpu.max": f"{quota}\n",
                    "cpu.stat": f"usage_usec {usage * second}\n"
                    f"nr_periods {10 * second}\nnr_throttled {second}\n"
                    f"throttled_usec {throttled * second}\n",
                },
                f"{CG}/{folder}",
            )

    readings, signals = two_samples(tree.host(), change)
    assert readings.cpu.busy == pytest.approx(0.95)
    assert readings.cpu.throttled == pytest.approx(0.4)
    assert signals["cpu.throttled"].reason == ("quota of 1 CPUs, fs/cgroup/pod")


def memory_v2(second: int) -> dict[str, str]:
    return {
        "cgroup.controllers": "cpu memory\n",
        "cgroup.events": "populated 1\n",
        "memory.max": f"{48 * MIB}\n",
        "memory.current": f"{47 * MIB}\n",
        "memory.stat": f"anon 1\ninactive_file {5 * MIB}\n"
        f"workingset_refault_anon {1000 * second}\n"
        f"workingset_refault_file {326_000 * second}\n",
        "memory.events": f"low 0\nhigh {2 * second}\nmax {70 * second}\n"
        f"oom {second}\noom_kill {second}\noom_group_kill 0\n",
        "memory.pressure": stalled(20_000 * second, 10_000 * second),
    }


def memory_v1(second: int) -> dict[str, str]:
    return {
        "memory/memory.limit_in_bytes": f"{48 * MIB}\n",
        "memory/memory.usage_in_bytes": f"{47 * MIB}\n",
        "memory/memory.failcnt": f"{70 * second}\n",
        "memory/memory.oom_control": f"oom_kill_disable 0\noom_kill {second}\n",
        "memory/memory.stat": "inactive_file 0\nworkingset_refault_file 1\n"
        f"total_workingset_refault_anon {1000 * second}\n"
        f"total_workingset_refault_file {326_000 * second}\n"
        f"total_inactive_file {5 * MIB}\n",
    }


@pytest.mark.parametrize(("files", "high"), [(memory_v2, 2), (memory_v1, None)])
def test_a_container_s_memory_limit_shows_as_pressure(
    tmp_path: Path, files: Callable[[int], dict[str, str]], high: int | None
) -> None:
    """A14: the host has 95 % of its memory available."""
    tree = Tree(tmp_path)

    def change(second: int) -> None:
        idle(tree, second)
        tree.write(files(second), CG)

    memory = two_samples(tree.host(), change).readings.memory
    assert memory.available == pytest.approx(6 / 48)
    assert memory.refaults_s == pytest.approx(327_000)
    assert (memory.high_events, memory.max_events, memory.oom_kills) == (high, 70, 1)
    assert memory.scope is Scope.CONTAINER


def test_the_host_s_shortage_is_the_container_s_too(tmp_path: Path) -> None:
    tree = Tree(tmp_path)

    def change(second: int) -> None:
        idle(tree, second)
        tree.write(memory_v2(second) | {"memory.current": f"{MIB}\n"}, CG)
        tree.write({"proc/meminfo": "MemTotal: 1000000 kB\nMemAvailable: 10000 kB\n"})

    memory = two_samples(tree.host(), change).readings.memory
    assert memory.available == pytest.approx(0.01)


def test_where_lxcfs_shows_the_limit_as_the_memory_a_larger_limit_is_none(
    tmp_path: Path,
) -> None:
    tree = Tree(tmp_path)

    def change(second: int) -> None:
        idle(tree, second)
        tree.write(memory_v2(second) | {"memory.max": f"{2**45}\n"}, CG)

    memory = two_samples(tree.host(), change).readings.memory
    assert memory.available == pytest.approx(0.95)


def test_limits_of_groups_further_up_are_met_too(tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"proc/1/cgroup": "0::/pod/box\n"})

    def change(second: int) -> None:
        idle(tree, second)
        tree.write({"cgroup.controllers": "memory\n"}, CG)
        tree.write(memory_v2(second), f"{CG}/pod/box")
        tree.write(
            memory_v2(0)
            | {
                "memory.events": "high 0\nmax 999\noom_kill 999\n",
                "memory.events.local": f"high 0\nmax {5 * second}\noom_kill 0\n",
            },
            f"{CG}/pod",
        )

    memory = two_samples(tree.host(), change).readings.memory
    assert memory.max_events == 75
    assert memory.oom_kills == 1


def test_a_plain_host_counts_its_own_kills_and_refaults(tmp_path: Path) -> None:
    tree = Tree(tmp_path)

    def change(second: int) -> None:
        idle(tree, second)
        kills = f"oom_kill {3 * second}\nworkingset_refault {500 * second}\n"
        tree.write({"proc/vmstat": kills})

    readings, signals = two_samples(tree.host(), change)
    assert readings.memory.oom_kills == 3
    assert readings.memory.refaults_s == pytest.approx(500)
    assert readings.memory.scope is None
    limits = signals["memory.max_events"]
    assert limits.state is State.UNSUPPORTED  # no control groups to be seen


def test_a_group_that_vanished_is_an_error_and_reads_again_when_back(
    tmp_path: Path,
) -> None:
    tree = Tree(tmp_path)
    tree.write({"cgroup.controllers": "cpu memory\n"}, CG)
    idle(tree, 0)
    host = tree.host("/a")
    sampler = Sampler(host)
    gone, signals = sample(sampler, 0)
    assert {hole.state for hole in gone.holes if hole.signal == "cpu.busy"} == {
        State.ERROR
    }
    assert "'/a'" in signals["cpu.busy"].reason
    for second in (1, 2):
        tree.write(v2_cpu(second) | {"cpu.max": "20000 100000\n"}, f"{CG}/a")
        back = sampler.sample(second * S)
    assert back.cpu.busy == pytest.approx(1.0)
    assert back.cpu.throttled == pytest.approx(0.78)
    host.close()


def test_what_a_group_lacked_is_asked_again_once_the_group_is_another(
    tmp_path: Path,
) -> None:
    """Not after RETRY_S only: a group is made tree by tree."""
    tree = Tree(tmp_path)
    tree.write({"unified/cgroup.controllers": "", "cpu/a/cpu.stat": ""}, CG)
    idle(tree, 0)
    host = tree.host("/a")
    sampler = Sampler(host)
    assert sample(sampler, 0).signals["cpu.stall"].state is State.UNSUPPORTED
    tree.write({"unified/a/cpu.pressure": stalled(0)}, CG)
    states = [
        sample(sampler, second).signals["cpu.stall"].state for second in range(1, 40)
    ]
    assert states[-1] is State.OK
    assert len(states) < RETRY_S
    host.close()
