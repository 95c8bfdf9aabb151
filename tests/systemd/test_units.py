"""The shipped units, alone and with each drop-in, as systemd's own tools see them."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

SHIPPED = Path(__file__).parents[2] / "systemd"
UNITS = ("trimtab-agent.service", "trimtab-collector.service")
DROP_INS = tuple(sorted((SHIPPED / "drop-ins").glob("*/*.conf")))

# systemd rates 0.0 (closed) to 10.0 (open); --threshold takes tenths.
MOST_EXPOSURE = 2.0

Need = Callable[[str], str]


class Case(NamedTuple):
    unit: str
    drop_ins: tuple[Path, ...]


CASES = [
    *(pytest.param(Case(unit, ()), id=unit) for unit in UNITS),
    *(
        pytest.param(
            Case(path.parent.name.removesuffix(".d"), (path,)),
            id=f"{path.parent.name}/{path.name}",
        )
        for path in DROP_INS
    ),
    pytest.param(Case("trimtab-agent.service", DROP_INS), id="agent, every drop-in"),
]


def staged(case: Case, root: Path) -> Path:
    """Return a copy of the unit whose command is there; nothing else differs."""
    commands = root / "bin"
    commands.mkdir()
    command = commands / case.unit.removesuffix(".service")
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    text = (SHIPPED / case.unit).read_text()
    assert text.count("/usr/bin/") == 1
    unit = root / case.unit
    unit.write_text(text.replace("/usr/bin/", f"{commands}/"))
    extra = root / f"{case.unit}.d"
    extra.mkdir()
    for path in case.drop_ins:
        (extra / path.name).write_text(path.read_text())
    return unit


def analyze(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin", "SYSTEMD_COLORS": "0"},
    )


def settings(*paths: Path) -> dict[str, list[str]]:
    """Return what the [Service] sections say, each key with all its values."""
    found: dict[str, list[str]] = {}
    for path in paths:
        section = ""
        for line in path.read_text().splitlines():
            if line.startswith("["):
                section = line
            elif section == "[Service]" and line and not line.startswith("#"):
                key, _, value = line.partition("=")
                found.setdefault(key, []).append(value)
    return found


@pytest.mark.parametrize("case", CASES)
def test_systemd_understands_every_line(case: Case, tmp_path: Path, need: Need) -> None:
    done = analyze(
        need("systemd-analyze"), "verify", "--man=no", staged(case, tmp_path)
    )
    # An unknown key or a bad value is only a warning: nothing may be said at all.
    assert (done.stdout + done.stderr, done.returncode) == ("", 0)


def test_verify_would_see_a_bad_line_in_a_drop_in(tmp_path: Path, need: Need) -> None:
    unit = staged(Case(UNITS[0], ()), tmp_path)
    (tmp_path / f"{unit.name}.d" / "bad.conf").write_text(
        "[Service]\nProtectSystem=perhaps\n"
    )
    done = analyze(need("systemd-analyze"), "verify", "--man=no", unit)
    assert "bad.conf" in done.stderr


@pytest.mark.parametrize("case", CASES)
def test_the_exposure_is_at_most_2(case: Case, tmp_path: Path, need: Need) -> None:
    done = analyze(
        need("systemd-analyze"),
        "security",
        "--offline=true",
        "--no-pager",
        f"--threshold={MOST_EXPOSURE * 10:.0f}",
        staged(case, tmp_path),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    overall = re.search(r"Overall exposure level for \S+: (\d+\.\d+)", done.stdout)
    assert overall is not None, done.stdout
    assert float(overall[1]) <= MOST_EXPOSURE


def test_the_rating_would_see_an_open_unit(tmp_path: Path, need: Need) -> None:
    unit = staged(Case(UNITS[0], ()), tmp_path)
    (tmp_path / f"{unit.name}.d" / "open.conf").write_text(
        "[Service]\nDynamicUser=no\nUser=root\nCapabilityBoundingSet=~\n"
    )
    done = analyze(
        need("systemd-analyze"), "security", "--offline=true", "--threshold=20", unit
    )
    assert done.returncode != 0


def findings(case: Case, root: Path, program: str) -> dict[str, bool]:
    """Return systemd's checks by their field, and whether each is met."""
    done = analyze(
        program, "security", "--offline=true", "--json=short", staged(case, root)
    )
    return {row["json_field"]: row["set"] for row in json.loads(done.stdout)}


@pytest.mark.parametrize("unit", UNITS)
def test_no_root_and_no_capability_is_left(
    unit: str, tmp_path: Path, need: Need
) -> None:
    found = findings(Case(unit, ()), tmp_path, need("systemd-analyze"))
    assert found["UserOrDynamicUser"]
    assert found["NoNewPrivileges"]
    capabilities = [name for name in found if name.startswith("CapabilityBoundingSet")]
    assert len(capabilities) > 15
    assert all(found[name] for name in capabilities)


def test_raw_icmp_costs_the_one_capability_it_needs(tmp_path: Path, need: Need) -> None:
    program = need("systemd-analyze")
    raw = next(path for path in DROP_INS if path.name == "icmp-raw.conf")
    for name in ("bare", "raw"):
        (tmp_path / name).mkdir()
    bare = findings(Case(UNITS[0], ()), tmp_path / "bare", program)
    with_raw = findings(Case(UNITS[0], (raw,)), tmp_path / "raw", program)
    changed = sorted(name for name in bare if bare[name] != with_raw[name])
    assert len(changed) == 2
    assert changed[0] == "AmbientCapabilities"
    assert re.fullmatch(r"CapabilityBoundingSet_CAP_NET_\w*RAW\W?", changed[1])


@pytest.mark.parametrize("unit", UNITS)
def test_a_hung_or_crashed_service_is_started_again(unit: str) -> None:
    said = settings(SHIPPED / unit)
    assert said["Type"] == ["notify"]
    assert said["WatchdogSec"] == ["30s"]
    assert said["Restart"] == ["on-failure"]


@pytest.mark.parametrize("unit", UNITS)
def test_a_leak_ends_the_service_and_not_the_host(unit: str) -> None:
    """A06."""
    [most] = settings(SHIPPED / unit)["MemoryMax"]
    assert re.fullmatch(r"\d+[MG]", most)


@pytest.mark.parametrize("path", [*(SHIPPED / unit for unit in UNITS), *DROP_INS])
def test_no_secret_is_in_the_environment_or_the_arguments(path: Path) -> None:
    """A41."""
    said = settings(path)
    environment = {"Environment", "EnvironmentFile", "PassEnvironment"}
    literal = {"SetCredential", "SetCredentialEncrypted"}
    assert not said.keys() & (environment | literal)
    assert not [line for line in said.get("ExecStart", []) if "token" in line.lower()]


def test_the_token_is_a_credential_that_may_be_missing() -> None:
    [credential] = settings(SHIPPED / UNITS[0])["LoadCredential"]
    name, _, source = credential.partition(":")
    assert name == "token"
    # Of an absolute path the file must be there; of a name it need not.
    assert source
    assert not source.startswith("/")


@pytest.mark.parametrize("unit", UNITS)
def test_the_sandbox_leaves_what_is_measured(unit: str) -> None:
    """A40."""
    said = settings(SHIPPED / unit, *DROP_INS)
    assert "pid" not in said.get("ProcSubset", [])
    assert "PrivateNetwork" not in said
    assert "RootDirectory" not in said
    hidden = said.get("InaccessiblePaths", []) + said.get("TemporaryFileSystem", [])
    assert not [
        path for path in hidden if path.lstrip("-").startswith(("/proc", "/sys"))
    ]
    families = set(said["RestrictAddressFamilies"][0].split())
    assert families == {"AF_INET", "AF_INET6", "AF_UNIX"}


def test_the_agent_sees_the_host_s_users() -> None:
    """A40: ping_group_range is mapped in a user namespace."""
    assert "PrivateUsers" not in settings(SHIPPED / UNITS[0], *DROP_INS)


def test_the_ceiling_on_the_cpu_is_far_from_normal_life() -> None:
    """A40: throttling is measured as latency, so there is to be none.

    Within each period an interpreter that starts, which takes a tenth of a
    second or two, has to fit in.
    """
    said = settings(SHIPPED / UNITS[0])
    [quota], [period] = said["CPUQuota"], said["CPUQuotaPeriodSec"]
    assert period == "1s"
    assert int(quota.removesuffix("%")) >= 20


def test_a_reload_reads_the_settings_again() -> None:
    [reload] = settings(SHIPPED / UNITS[0])["ExecReload"]
    assert reload.endswith("kill -HUP $MAINPID")


def test_gpus_take_their_own_device_nodes_and_no_others() -> None:
    """A40: with PrivateDevices= there is no GPU to be seen."""
    [gpu] = [path for path in DROP_INS if path.name == "gpu.conf"]
    said = settings(gpu)
    assert said["PrivateDevices"] == ["no"]
    assert said["DevicePolicy"] == ["closed"]
    allowed = {tuple(line.split()) for line in said["DeviceAllow"]}
    assert allowed == {("char-195", "rw"), ("char-nvidia*", "rw")}


def test_a_container_s_own_files_stay_over_proc() -> None:
    """A15: each may be absent, so each has the leading '-'."""
    bound = settings(SHIPPED / UNITS[0])["BindReadOnlyPaths"]
    assert {"-/proc/stat", "-/proc/meminfo", "-/proc/loadavg", "-/proc/uptime"} <= set(
        bound
    )
    assert all(path.startswith("-/proc/") for path in bound)


def test_every_shipped_file_is_in_the_readme() -> None:
    page = (SHIPPED / "README.md").read_text()
    for path in (*UNITS, *(str(path.relative_to(SHIPPED)) for path in DROP_INS)):
        assert f"`{path}`" in page
