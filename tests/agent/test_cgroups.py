from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.trees import Tree

from trimtab.agent import inventory
from trimtab.agent.cgroups import (
    LOOK_EVERY_US,
    CpuLevel,
    Groups,
    MemoryLevel,
    locate,
    parse_cfs,
    parse_cpu_max,
    parse_limit,
    parse_membership,
)
from trimtab.agent.errors import Malformed
from trimtab.agent.host import Host

CG = "sys/fs/cgroup"
V2 = {f"{CG}/cgroup.controllers": "cpu memory\n"}
MIB = 2**20


def v2(folder: str, quota: str = "max 100000", limit: str = "max") -> dict[str, str]:
    return {
        f"{folder}/cpu.max": f"{quota}\n",
        f"{folder}/cpu.stat": "usage_usec 0\n",
        f"{folder}/memory.max": f"{limit}\n",
    }


def v1_cpu(folder: str, quota_us: int = -1) -> dict[str, str]:
    return {
        f"{folder}/cpu.cfs_quota_us": f"{quota_us}\n",
        f"{folder}/cpu.cfs_period_us": "100000\n",
        f"{folder}/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
    }


def v1_memory(folder: str, limit: int = 9223372036854771712) -> dict[str, str]:
    return {f"{folder}/memory.limit_in_bytes": f"{limit}\n"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"0::/a/b\n", {"": "/a/b"}),
        (
            b"6:cpu,cpuacct:/s\n5:memory:/m\n1:name=systemd:/x\n0::/",
            {
                "cpu": "/s",
                "cpuacct": "/s",
                "memory": "/m",
                "name=systemd": "/x",
                "": "/",
            },
        ),
        (b"0::/a:b\\x2dc\rd\n", {"": "/a:b\\x2dc\rd"}),  # what a name may hold
        (b"0::/gone (deleted)\n", {"": "/gone"}),
        (b"0::/../../init.scope\n", {"": "/../../init.scope"}),
        (b"", {}),
    ],
)
def test_membership_is_a_path_by_controller(
    text: bytes, expected: dict[str, str]
) -> None:
    assert parse_membership(text) == expected


@pytest.mark.parametrize("text", [b"x", b"0:", b"0::", b"a::/b", b"0::b"])
def test_a_line_that_is_no_membership_is_malformed(text: bytes) -> None:
    with pytest.raises(Malformed, match="number:controllers"):
        parse_membership(text)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_membership_or_malformed(text: bytes) -> None:
    try:
        assert all(path.startswith("/") for path in parse_membership(text).values())
    except Malformed:
        assert text.strip(b"\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"20000 100000\n", 0.2),
        (b"4800000 100000\n", 48.0),
        (b"max 100000\n", None),
        (b"max\n", None),
    ],
)
def test_a_v2_quota_is_in_cpus(text: bytes, expected: float | None) -> None:
    assert parse_cpu_max(text) == expected


@pytest.mark.parametrize("text", [b"", b"20000", b"a b", b"1 0", b"-1 100000", b"0 1"])
def test_a_v2_quota_that_is_none_is_malformed(text: bytes) -> None:
    with pytest.raises(Malformed, match="quota"):
        parse_cpu_max(text)


def test_a_v1_quota_is_in_cpus_and_minus_one_is_none() -> None:
    assert parse_cfs(b"150000\n", b"100000\n") == 1.5
    assert parse_cfs(b"-1\n", b"100000\n") is None
    with pytest.raises(Malformed):
        parse_cfs(b"150000\n", b"")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"103079215104\n", 103_079_215_104),
        (b"0\n", 0),
        (b"max\n", None),
        (b"9223372036854771712\n", None),
        (b"223372036854771712\n", None),  # more than can be
        (b"18446744073709551615\n", None),  # A16
    ],
)
def test_a_memory_limit_that_can_not_be_is_none(
    text: bytes, expected: int | None
) -> None:
    assert parse_limit(text) == expected


@pytest.mark.parametrize("text", [b"", b"garbage\n", b"-1\n", b"1.5\n"])
def test_a_memory_limit_that_is_no_number_is_malformed(text: bytes) -> None:
    with pytest.raises(Malformed):
        parse_limit(text)


def test_a_plain_host_of_v2_is_limited_by_nothing(fixtures: Path) -> None:
    host = Host(fixtures / "ordinary/proc", fixtures / "ordinary/sys")
    group = locate(host)
    assert (group.quota_cpus(), group.limit_bytes()) == (None, None)
    assert (group.pressure, group.contained) == (None, False)


def test_a_plain_host_of_v1_is_limited_by_nothing(tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"proc/1/cgroup": "2:memory:/\n1:cpu,cpuacct:/init.scope\n"})
    tree.write(v1_cpu("cpu,cpuacct") | v1_memory("memory"), CG)
    tree.write({"memory/release_agent": "\n", "cpu,cpuacct/init.scope/tasks": ""}, CG)
    group = locate(tree.host())
    assert (group.quota_cpus(), group.limit_bytes()) == (None, None)
    assert (group.pressure, group.contained) == (None, False)


def test_a_service_s_own_limits_are_not_the_host_s(tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"proc/1/cgroup": "0::/init.scope\n"} | V2)
    tree.write({"proc/self/cgroup": "0::/system.slice/trimtab-agent.service\n"})
    tree.write(v2("system.slice/trimtab-agent.service", "5000 100000", "32000000"), CG)
    tree.write({"cpu.stat": "usage_usec 0\n"}, CG)
    group = locate(tree.host())
    assert (group.quota_cpus(), group.limit_bytes()) == (None, None)


def test_in_a_container_with_a_namespace_the_mount_s_root_is_its_group(
    tmp_path: Path,
) -> None:
    """A14: with an init system of its own, whose scope is not all of it."""
    tree = Tree(tmp_path, {"proc/1/cgroup": "0::/init.scope\n"} | V2)
    tree.write(v2(".", "20000 100000", str(512 * MIB)), CG)
    tree.write({"cgroup.events": "populated 1\n"} | v2("init.scope"), CG)
    group = locate(tree.host())
    assert group.pressure == "fs/cgroup"
    assert group.contained
    assert group.cpu == (CpuLevel("fs/cgroup", "fs/cgroup/cpu.stat", 0.2),)
    assert group.memory == (MemoryLevel("fs/cgroup", 2, 512 * MIB),)


@pytest.mark.parametrize(
    "path",
    [
        "/docker/123",  # outside what is mounted
        "/../../docker/123",  # outside the namespace
        "/..",
        "/../../etc",
    ],
)
def test_a_path_from_outside_means_the_mount_s_root(tmp_path: Path, path: str) -> None:
    tree = Tree(tmp_path, {"proc/1/cgroup": f"3:memory:{path}\n2:cpu:{path}\n"})
    tree.write(v1_cpu("cpu", 50_000) | v1_memory("memory", 64 * MIB), CG)
    tree.write(v1_cpu("sys/fs/etc", 1000))
    group = locate(tree.host())
    assert group.cpu == (CpuLevel("fs/cgroup/cpu", None, 0.5),)
    assert group.memory == (MemoryLevel("fs/cgroup/memory", 1, 64 * MIB),)
    assert group.contained


def test_where_pid_1_is_hidden_the_mount_s_root_counts(tmp_path: Path) -> None:
    tree = Tree(tmp_path, V2 | {f"{CG}/cgroup.events": ""})
    tree.write(v2(".", "70000 100000"), CG)
    assert locate(tree.host()).quota_cpus() == 0.7


def test_the_tightest_limit_up_the_tree_counts(tmp_path: Path) -> None:
    """A14."""
    tree = Tree(tmp_path, {"proc/1/cgroup": "0::/a/b/c\n"} | V2)
    tree.write(v2("a", "30000 100000", str(300 * MIB)), CG)
    tree.write(v2("a/b", "80000 100000", str(200 * MIB)), CG)
    tree.write(v2("a/b/c", "max 100000", str(900 * MIB)), CG)
    tree.write(v2("a/b/c/d", "1000 100000", "1000"), CG)  # below: not ours
    host = tree.host()
    group = locate(host)
    assert group.quota_cpus() == 0.3
    assert group.limit_bytes() == 200 * MIB
    assert [level.folder for level in group.cpu] == [
        f"fs/cgroup/{name}" for name in ("a/b/c", "a/b", "a")
    ]
    assert inventory.cpu_quota(host) == 0.3
    tree.write({"proc/meminfo": "MemTotal: 1048576 kB\nMemFree: 1048576 kB\n"})
    assert inventory.memory_limit_mib(host) == 200


def test_a_limit_above_the_host_s_memory_is_none(tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"proc/1/cgroup": "0::/a\n"} | V2)
    tree.write({"proc/meminfo": "MemTotal: 1048576 kB\nMemFree: 1048576 kB\n"})
    tree.write(v2("a", limit=str(1025 * MIB)), CG)
    host = tree.host()
    assert inventory.memory_limit_mib(host) is None
    assert inventory.cpu_quota(host) is None


def test_hybrid_takes_limits_of_v1_and_pressure_of_v2(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write(v1_cpu("cpu/a/b", 20_000) | v1_memory("memory/a/b", 48 * MIB), CG)
    tree.write({"cpuacct/a/b/cpuacct.usage": "5\n"}, CG)
    tree.write({"unified/a/b/cpu.pressure": "", "unified/a/b/cpu.stat": ""}, CG)
    group = locate(tree.host("/a/b"))
    usage = "fs/cgroup/cpuacct/a/b/cpuacct.usage"
    assert group.cpu == (CpuLevel("fs/cgroup/cpu/a/b", usage, 0.2),)
    assert group.memory == (MemoryLevel("fs/cgroup/memory/a/b", 1, 48 * MIB),)
    assert group.pressure == "fs/cgroup/unified/a/b"


def test_a_group_called_as_a_controller_is_no_v1_tree(tmp_path: Path) -> None:
    tree = Tree(tmp_path, V2)
    tree.write(v2("cpu", "10000 100000") | v2("memory") | v2("unified"), CG)
    tree.write(v2("web", "90000 100000"), CG)
    assert locate(tree.host("/web")).quota_cpus() == 0.9
    assert locate(tree.host("/cpu")).quota_cpus() == 0.1


@pytest.mark.parametrize(
    "path",
    ["/machine-qemu\\x2d1", "/a b/ü", "/%s{0}", "/-rf", "//a///./c", "/a:b", "/*"],
)
def test_odd_names_are_names(tmp_path: Path, path: str) -> None:
    tree = Tree(tmp_path, V2)
    tree.write(v2(path.lstrip("/"), "40000 100000"), CG)
    assert locate(tree.host(path)).quota_cpus() == 0.4


@pytest.mark.parametrize("path", ["/no", "/a/../b", "/..", "/a\0b", "/" + "x" * 300])
def test_a_group_that_is_nowhere_is_an_error_with_its_name(
    tmp_path: Path, path: str
) -> None:
    tree = Tree(tmp_path, V2)
    tree.write(v2("a") | v2("b"), CG)
    with pytest.raises(OSError, match=r"no such control group|too long"):
        locate(tree.host(path))


def test_a_host_without_control_groups_has_no_levels(tmp_path: Path) -> None:
    group = locate(Tree(tmp_path).host())
    assert (group.cpu, group.memory, group.pressure) == ((), (), None)


def test_a_damaged_limit_is_malformed_and_none_in_the_inventory(tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"proc/1/cgroup": "0::/a\n"} | V2)
    tree.write(v2("a", "nonsense", "garbage"), CG)
    host = tree.host()
    with pytest.raises(Malformed):
        locate(host)
    assert (inventory.cpu_quota(host), inventory.memory_limit_mib(host)) == (None, None)


def test_a_changed_limit_is_seen_after_a_while(tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"proc/1/cgroup": "0::/a\n"} | V2)
    tree.write(v2("a", "20000 100000"), CG)
    host, groups = tree.host(), Groups()
    assert groups.find(host, 0).quota_cpus() == 0.2
    tree.write(v2("a", "90000 100000"), CG)
    assert groups.find(host, LOOK_EVERY_US - 1).quota_cpus() == 0.2
    assert groups.find(host, LOOK_EVERY_US).quota_cpus() == 0.9
    assert groups.changes == 2


def test_a_group_that_vanished_is_looked_for_until_it_is_back(tmp_path: Path) -> None:
    tree = Tree(tmp_path, V2)
    tree.write(v2("a", "20000 100000"), CG)
    host, groups = tree.host("/a"), Groups()
    groups.find(host, 0)
    host.sys("fs/cgroup/a/cpu.stat")
    tree.remove(f"{CG}/a")
    groups.doubt()  # its files no longer answer
    with pytest.raises(FileNotFoundError):
        groups.find(host, 1_000_000)
    tree.write(v2("a", "50000 100000"), CG)
    tree.write({"a/cpu.stat": "usage_usec 7\n"}, CG)
    with pytest.raises(FileNotFoundError):
        groups.find(host, 1_000_000)  # once a sample
    assert groups.find(host, 2_000_000).quota_cpus() == 0.5
    assert host.sys("fs/cgroup/a/cpu.stat") == b"usage_usec 7\n"
    host.close()
