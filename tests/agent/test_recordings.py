"""Real recordings read as their lists of right values say.

The lists are walked, so a value without a reader here fails, except the ones
named below as other signals'.
"""

import errno
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from trimtab.agent import cgroups
from trimtab.agent.errors import Malformed, Unsupported
from trimtab.agent.host import Host
from trimtab.agent.inventory import parse_cpuinfo, parse_cpulist, usable_cpus
from trimtab.agent.probes import (
    cpu_time,
    cpu_usage,
    lines,
    memory_available,
    network,
    psi,
    run_queue,
    throttle,
)
from trimtab.agent.probes.cpu_time import Ticks
from trimtab.agent.sampler import Sampler
from trimtab.wire import Scope, State

# Of signals that no probe here reads: AMD's GPUs, heat, and the load average,
# which is left out on purpose.
ELSEWHERE = {
    "procfs-8cpu": {"load1", "amd_gpu", "thermal_c", "thermal_note"},
    "node_exporter": {"load1"},
    "docker-v1-and-v2": set(),
    "ubuntu1804-hybrid": set(),
    "telegraf-cgroup/v2": set(),
    "single-files": set(),
}


def stat(folder: Path) -> bytes:
    return (folder / "proc/stat").read_bytes()


def pressure(folder: Path, name: str) -> psi.Pressure:
    return psi.read(Host(folder / "proc", folder / "sys"), name)


def unread(key: str) -> bool:
    """Whether a listed value is one that no signal goes by."""
    return "_avg" in key or key == "swap_used_kib"


def memory(folder: Path) -> memory_available.Meminfo:
    return memory_available.read(Host(folder / "proc", folder / "sys"))


def cpu_list(folder: Path, name: str) -> list[int]:
    path = folder / "sys/devices/system/cpu" / name
    return sorted(parse_cpulist(path.read_bytes()))


def between(folder: Path, bounds: list[int]) -> bool:
    found = memory(folder)
    return found.estimated and bounds[0] <= found.available_kib <= bounds[1]


def available_line(folder: Path) -> int | None:
    return lines.number((folder / "proc/meminfo").read_bytes(), b"MemAvailable:")


def eth0(tree: Path) -> dict[str, object]:
    found = network.read(Host(tree / "proc", tree / "sys"), "eth0")
    return {"speed_mbps": found.speed_mbit, "operstate": "up" if found.up else "down"}


def group_of(tree: Path, pid: int) -> dict[str, object]:
    """Return what the control group of a process says, watched by its path."""
    paths = cgroups.parse_membership((tree / f"proc/{pid}/cgroup").read_bytes())
    path = paths.get("memory") or paths[cgroups.V2]
    host = Host(tree / "proc", tree / "sys", path)
    group = cgroups.locate(host)
    (cpu,) = group.cpu
    (memory,) = group.memory
    version = memory.version
    amount = "memory.current" if version == 2 else "memory.usage_in_bytes"
    used = cgroups.parse_limit(host.sys(f"{memory.folder}/{amount}"))
    usage_us = cpu.usage and cpu_usage.parse(host.sys(cpu.usage))
    stall = None
    with suppress(Unsupported):  # older than pressure, or a v1 group
        stall = group.pressure and psi.read(host, "cpu", group.pressure)
    found: dict[str, object] = {
        "version": version,
        "cgroup": path,
        "cpu_quota": group.quota_cpus(),
        "cpu_max": group.quota_cpus(),
        "memory_limit": group.limit_bytes(),
        "memory_max": group.limit_bytes(),
        "memory_usage_bytes": used,
        "memory_current_bytes": used,
        "cpu_usage_s": usage_us and usage_us / 1e6,
        "psi_cpu_some_total_us": stall and stall.some_us,
    }
    if version == 1:
        limit = host.sys(f"{memory.folder}/memory.limit_in_bytes")
        found["memory_limit_raw"] = int(limit)
    with suppress(Malformed):
        throttled = throttle.parse(host.sys(f"{cpu.folder}/cpu.stat"))
        found["throttled_periods"] = throttled.throttled_periods
        found["periods"] = throttled.periods
        found["throttled_s"] = throttled.throttled_us / 1e6
    if group.pressure and version == 1:
        assert group.pressure.startswith("fs/cgroup/unified/")
        assert not (tree / "sys" / group.pressure / "cpu.max").exists()
        found["version"] = (
            "hybrid: controllers on v1, v2 mounted at /sys/fs/cgroup/unified"
            " without controllers"
        )
    host.close()
    return found


def limits_of(folder: Path) -> dict[str, object]:
    """Return what a recorded folder of v2 says of itself."""
    read = {
        name: (folder / name).read_bytes()
        for name in ("cpu.max", "memory.max", "memory.current")
    }
    return {
        "cpu_limit_cpus": cgroups.parse_cpu_max(read["cpu.max"]),
        "memory_max_bytes": cgroups.parse_limit(read["memory.max"]),
        "memory_current_bytes": cgroups.parse_limit(read["memory.current"]),
    }


# What each key of a tree is read by; `between` says whether it is in bounds.
TREE: Mapping[str, Callable[[Path], object]] = {
    "cpus": lambda tree: usable_cpus(Host(tree / "proc", tree / "sys")),
    "cpus_stat": lambda tree: cpu_time.count_cpus(stat(tree)),
    "cpu_all_ticks": lambda tree: list(cpu_time.parse(stat(tree))),
    "guest_ticks_all": lambda tree: cpu_time.parse(stat(tree)).guest,
    "mem_total_kib": lambda tree: memory(tree).total_kib,
    "mem_shmem_kib": lambda tree: lines.number(
        (tree / "proc/meminfo").read_bytes(), b"Shmem:"
    ),
    "mem_available_line": available_line,
    "psi_cpu_some_total_us": lambda tree: pressure(tree, "cpu").some_us,
    "psi_cpu_full": lambda tree: pressure(tree, "cpu").full_us,
    "psi_irq": lambda tree: {
        "some": pressure(tree, "irq").some_us,
        "full_total_us": pressure(tree, "irq").full_us,
    },
    "sys_cpu_online": lambda tree: cpu_list(tree, "online"),
    "sys_cpu_isolated": lambda tree: cpu_list(tree, "isolated"),
    "eth0": eth0,
    "cpu_limit_cpus": lambda group: limits_of(group)["cpu_limit_cpus"],
    "memory_max_bytes": lambda group: limits_of(group)["memory_max_bytes"],
    "memory_current_bytes": lambda group: limits_of(group)["memory_current_bytes"],
}


def meminfo_of(text: bytes) -> dict[str, object]:
    found = memory_available.parse(text)
    used_pct = 100 * (1 - memory_available.available(found))
    return {
        "total_kib": found.total_kib,
        "available_kib": found.available_kib,
        "used_pct": round(used_pct, 4),
    }


def pressure_of(text: bytes) -> dict[str, object]:
    return {"some_total_us": psi.parse(text).some_us}


def stat_of(text: bytes) -> dict[str, object]:
    return {
        "cpus": cpu_time.count_cpus(text),
        "steal_ticks_all": cpu_time.parse(text).steal,
    }


def cpuinfo_of(text: bytes) -> dict[str, object]:
    return {"cpus": parse_cpuinfo(text)}


SINGLE: Mapping[str, Callable[[bytes], dict[str, object]]] = {
    "meminfo-old-table-header": meminfo_of,
    "meminfo-four-fields": meminfo_of,
    "meminfo-intelcorei5": meminfo_of,
    "stat-vm-steal": stat_of,
    "cpuinfo-armv7": cpuinfo_of,
    "cpuinfo-armv7-exynos": cpuinfo_of,
    "telegraf-pressure/cpu": pressure_of,
}
# Listed with a remark in words instead of values.
WORDS = {"stat-empty", "telegraf-stat_file_invalid", "telegraf-stat_file_partial"}


def expected(recordings: Path) -> dict[str, Any]:
    listed = json.loads((recordings / "linux-proc/expected.json").read_text())
    assert isinstance(listed, dict)
    return listed


def test_every_listed_value_of_a_recorded_tree_is_met(recordings: Path) -> None:
    for name, values in expected(recordings).items():
        tree = recordings / "linux-proc" / name
        for key, value in values.items():
            if key in ELSEWHERE[name] or unread(key) or name == "single-files":
                continue
            if key.startswith("pid "):
                found = group_of(tree, int(key.split()[1]))
                for part, right in value.items():
                    assert unread(part) or met(found[part], right), (name, key, part)
            elif key == "mem_available_between_kib":
                assert between(tree, value), (name, key)
            else:
                assert TREE[key](tree) == value, (name, key)


def met(found: object, right: object) -> bool:
    # Nanoseconds of v1 are read as whole microseconds.
    if isinstance(right, float):
        return found == pytest.approx(right, abs=1e-6)
    return found == right


def test_recorded_containers_are_sampled_without_an_error(
    recordings: Path, fixtures: Path, tmp_path: Path
) -> None:
    # The path of PID 1 is from outside, so the mount's root is the container's.
    tree = recordings / "linux-proc/docker-v1-and-v2"
    group = cgroups.locate(Host(tree / "proc", tree / "sys"))
    assert [level.folder for level in group.cpu] == ["fs/cgroup/cpu"]
    assert [level.folder for level in group.memory] == ["fs/cgroup/memory"]
    # One of v2 as its own container sees it, beside a host with nothing to do.
    mount = tmp_path / "sys/fs"
    mount.mkdir(parents=True)
    (mount / "cgroup").symlink_to(recordings / "linux-proc/telegraf-cgroup/v2")
    host = Host(fixtures / "ordinary/proc", tmp_path / "sys", "/")
    sampler = Sampler(host)
    sampler.sample(10**9)
    readings = sampler.sample(2 * 10**9)
    host.close()
    assert readings.cpu.throttled == 0.0
    assert readings.cpu.scope is Scope.CONTAINER
    assert State.ERROR not in {hole.state for hole in readings.holes}


def test_every_pressure_file_of_a_recorded_control_group_parses(
    recordings: Path,
) -> None:
    found = list((recordings / "linux-proc").rglob("cpu.pressure"))
    assert found
    for path in found:
        assert psi.parse(path.read_bytes()).some_us is not None


def test_every_listed_value_of_a_single_file_is_met(recordings: Path) -> None:
    folder = recordings / "linux-proc/single-files"
    for name, values in expected(recordings)["single-files"].items():
        if name in WORDS:
            continue
        found = SINGLE[name]((folder / name).read_bytes())
        for key, value in values.items():
            if key != "note" and not unread(key):
                assert found[key] == value, (name, key)


def test_a_recorded_stat_without_content_is_malformed(recordings: Path) -> None:
    text = (recordings / "linux-proc/single-files/stat-empty").read_bytes()
    with pytest.raises(Malformed, match="cpu line"):
        cpu_time.parse(text)
    assert cpu_time.count_cpus(text) == 0
    assert run_queue.parse_stat(text) is None


@pytest.mark.parametrize("name", sorted(WORDS - {"stat-empty"}))
def test_a_damaged_line_of_stat_leaves_the_others_readable(
    recordings: Path, name: str
) -> None:
    text = (recordings / "linux-proc/single-files" / name).read_bytes()
    assert cpu_time.parse(text) == Ticks(6796, 252, 5655, 10444977, 175, 0, 101, 0)
    assert run_queue.parse_stat(text) == 2


@pytest.mark.parametrize("name", ["procfs-8cpu", "node_exporter"])
def test_a_recorded_host_is_sampled_without_an_error(
    recordings: Path, name: str
) -> None:
    tree = recordings / "linux-proc" / name
    sampler = Sampler(Host(tree / "proc", tree / "sys"))
    sampler.sample(10**9)
    sampler.sample(2 * 10**9)
    signals = {s.name: s for s in sampler.signals()}
    assert signals["cpu.stall"].value == 0.0
    assert signals["cpu.busy"].value is None  # not a tick passed
    assert signals["memory.available"].reason.startswith("estimated")


# Proc oddities: one reader a case, which returns every expected key.


def case_01(folder: Path, case: dict[str, Any]) -> dict[str, object]:
    before = (folder / "before/stat").read_bytes()
    after = (folder / "after/stat").read_bytes()
    cpus = cpu_time.parse_cpus(before), cpu_time.parse_cpus(after)
    both = sorted(cpus[0].keys() & cpus[1].keys())
    ticks = {f"cpu{n}": cpu_time.spent(cpus[0][n], cpus[1][n], 1) for n in both}
    shares = cpu_time.between(cpu_time.look(before), cpu_time.look(after), 76_300_000)
    assert shares is not None
    return {
        "cpus_before": sorted(cpus[0]),
        "cpus_after": sorted(cpus[1]),
        "busy_ticks": {n: t and t.busy for n, t in ticks.items()},
        "idle_plus_iowait_ticks": {n: t and t.idle for n, t in ticks.items()},
        "busy_fraction_of_cpus_present_in_both": round(shares.busy, 6),
    }


def case_02(folder: Path, case: dict[str, Any]) -> dict[str, object]:
    text = (folder / "stat").read_bytes()
    ticks = cpu_time.parse(text)
    return {
        "cpus": sorted(cpu_time.parse_cpus(text)),
        "idle_all": ticks.idle,
        "steal": ticks.steal,
        "guest": ticks.guest,
        "procs_running": run_queue.parse_stat(text),
        "must_not_fail": True,
    }


def case_meminfo(folder: Path, case: dict[str, Any]) -> dict[str, object]:
    text = (folder / "meminfo").read_bytes()
    found = memory_available.parse(text)
    within = case["expect"]
    lower = within.get("available_lower_bound_kib", 0)
    upper = within.get("available_upper_bound_kib", found.total_kib)
    assert lower <= found.available_kib <= upper
    return {
        "total_kib": found.total_kib,
        "free_kib": lines.number(text, b"MemFree:"),
        "available_kib": found.available_kib,
        "available_is_estimate": found.estimated,
        "has_available": not found.estimated,
        "available_lower_bound_kib": lower,
        "available_upper_bound_kib": upper,
        "swap_total_kib": lines.number(text, b"SwapTotal:"),
    }


def case_05(folder: Path, case: dict[str, Any]) -> dict[str, object]:
    other = (folder.parent / "09-lxcfs-swapfree-wrapped/meminfo").read_bytes()
    text = other + (folder / "meminfo.fragment").read_bytes()
    assert memory_available.parse(text) == memory_available.parse(other)
    return {
        "ShadowCallStack_kib": lines.number(text, b"ShadowCallStack:"),
        "must_not_fail": True,
    }


def case_06(folder: Path, case: dict[str, Any]) -> dict[str, object]:
    found = psi.parse((folder / "pressure/cpu").read_bytes())
    return {
        "some_total_us": found.some_us,
        "full": found.full_us,
    }


def case_08(folder: Path, case: dict[str, Any]) -> dict[str, object]:
    ticks = Ticks(0, 0, 0, 0, steal=2**40)
    assert ticks.steal is not None
    shares = []
    for idle, steal in zip(case["idle_diffs"], case["steal_diffs"], strict=True):
        after = ticks._replace(idle=ticks.idle + idle, steal=ticks.steal + steal)
        spent = cpu_time.spent(ticks, after, 1)
        assert spent is not None
        found = cpu_time.shares(spent, 1_000_000, 1)
        assert found is not None
        shares.append(found)
    busy = " ".join(f"{share.busy:.2f}" for share in shares)
    return {
        "steal_must_be_clamped_to_at_least": min(share.steal or 0 for share in shares),
        "busy_fraction_per_second_max": 1 if max(s.busy for s in shares) <= 1 else 2,
        "note": f"with steal clamped, busy = 1 - idle/100 = {busy}",
    }


def case_10(folder: Path, case: dict[str, Any]) -> dict[str, object]:
    def ticks(seconds: dict[str, float]) -> Ticks:
        return Ticks(**{name: round(100 * value) for name, value in seconds.items()})

    before, after = ticks(case["before"]), ticks(case["after"])
    assert cpu_time.spent(before, after, 8) is None
    return {
        "reading": "discard the interval (idle went back) or report unknown; "
        "never 100 % busy"
    }


CASES: Mapping[str, Callable[[Path, dict[str, Any]], dict[str, object]]] = {
    "01-cpu-taken-offline": case_01,
    "02-openvz-stat": case_02,
    "03-openvz-meminfo": case_meminfo,
    "04-wsl1-meminfo": case_meminfo,
    "05-no-space-after-colon": case_05,
    "06-psi-cpu-some-only": case_06,
    "08-steal-goes-backwards": case_08,
    "09-lxcfs-swapfree-wrapped": case_meminfo,
    "10-idle-goes-back-after-suspend": case_10,
}


def cases(recordings: Path) -> dict[str, dict[str, Any]]:
    listed = json.loads((recordings / "proc-oddities/cases.json").read_text())
    return {case["id"]: case for case in listed}


def test_every_listed_oddity_reads_as_it_must(recordings: Path) -> None:
    for name, case in cases(recordings).items():
        if name == "07-psi-built-in-but-off":
            continue  # no file: the next test
        found = CASES[name](recordings / "proc-oddities" / name, case)
        for key, value in case["expect"].items():
            if unread(key):
                continue
            assert found[key] == value, (name, key)


def test_pressure_built_in_but_off_is_unsupported_not_zero(
    recordings: Path, fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A10, A12: no file of a test can refuse to be read, so the kernel is played."""
    expect = cases(recordings)["07-psi-built-in-but-off"]["expect"]
    assert expect["open"] == "ok"
    code = expect["read_errno"]
    assert code == errno.EOPNOTSUPP

    def refuse(descriptor: int, size: int, offset: int) -> bytes:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "pread", refuse)
    with pytest.raises(Unsupported) as caught:
        psi.read(Host(fixtures / "ordinary/proc"), "cpu")
    assert "psi=1" in caught.value.mend
