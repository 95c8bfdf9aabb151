"""The agent in the restrictions of its shipped unit: nothing measured is hidden.

The sandbox of `sandbox.py` needs root and a machine that lets it make a mount
namespace; elsewhere these tests are skipped, with the reason.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.processes import Fleet, until
from tests.systemd import sandbox

HARNESS = Path(sandbox.__file__)
SHIPPED = Path(__file__).parents[2] / "systemd"
AGENT = SHIPPED / "trimtab-agent.service"
DROP_INS = {p.name: p for p in (SHIPPED / "drop-ins" / f"{AGENT.name}.d").iterdir()}
CAP_NET_RAW = 1 << 13

# Each line is tried inside; what comes out is the error's name, or "done".
TRIES = {
    "write outside": "open('/etc/trimtab-was-here', 'w')",
    "write below /proc/sys": "open('/proc/sys/kernel/printk', 'w')",
    "another family": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "a namespace": "call('unshare', 0x10000000)",
    "writable code": "mmap.mmap(-1, 4096, prot=7)",
    "real time": "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
    "set-user-id": "os.chmod(own, 0o4700)",
    "a filtered call": "call('sethostname', b'other', 5)",
    "raw icmp": "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)",
    "its state": "open(own, 'w')",
    "an IPv4 socket": "socket.socket(socket.AF_INET)",
    "an IPv6 socket": "socket.socket(socket.AF_INET6)",
}
PROBE = f"""
import ctypes, errno, json, mmap, os, socket
own = os.environ["STATE_DIRECTORY"] + "/file"
open(own, "w").close()
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    if getattr(libc, name)(*arguments):
        raise OSError(ctypes.get_errno(), name)
def attempt(text):
    try:
        eval(text)
    except OSError as exc:
        return errno.errorcode[exc.errno]
    return "done"
status = dict(l.split(":\\t", 1) for l in open("/proc/self/status").read().splitlines())
print(json.dumps({{
    "tries": {{k: attempt(v) for k, v in {TRIES!r}.items()}},
    "status": status,
    "devices": sorted(os.listdir("/dev")),
    "temporary": os.listdir("/tmp"),
    "uid": os.getuid(), "groups": os.getgroups(),
}}))
"""
REFUSED = {
    "write outside": {"EROFS"},
    "write below /proc/sys": {"EROFS", "EACCES"},
    "another family": {"EAFNOSUPPORT"},
    "a namespace": {"EPERM"},
    "writable code": {"EPERM"},
    "real time": {"EPERM"},
    "set-user-id": {"EPERM"},
    "a filtered call": {"EPERM"},
    "raw icmp": {"EPERM"},
}


def sandboxed(*drop_ins: str, options: tuple[str, ...] = ()) -> list[str]:
    """Return the beginning of a command line that runs in the agent's sandbox."""
    units = [str(AGENT), *(str(DROP_INS[name]) for name in drop_ins)]
    return [sys.executable, str(HARNESS), *units, *options, "--"]


def run(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    if done.returncode == sandbox.NOT_POSSIBLE:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return done.stdout


def probed(*drop_ins: str):
    return json.loads(run([*sandboxed(*drop_ins), sys.executable, "-c", PROBE]))


def test_the_sandbox_is_one():
    found = probed()
    for what, errors in REFUSED.items():
        assert found["tries"][what] in errors, what
    assert [k for k, v in found["tries"].items() if v == "done"] == [
        "its state",
        "an IPv4 socket",
        "an IPv6 socket",
    ]
    assert found["uid"] >= 61_184
    assert found["groups"] == []
    status = found["status"]
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[kind], 16) == 0
    assert found["devices"] == sorted([*sandbox.DEVICES, "fd", "shm"])
    # Where the checkout is in /tmp, a way to it is left.
    assert set(found["temporary"]) <= set(HARNESS.parts)


def test_raw_icmp_comes_with_its_drop_in_and_nothing_else_does():
    found = probed("icmp-raw.conf")
    assert found["tries"]["raw icmp"] == "done"
    assert int(found["status"]["CapEff"], 16) == CAP_NET_RAW
    assert int(found["status"]["CapBnd"], 16) == CAP_NET_RAW
    for what in REFUSED.keys() - {"raw icmp"}:
        assert found["tries"][what] in REFUSED[what], what


def test_what_can_not_be_applied_is_said(tmp_path):
    told = tmp_path / "report.json"
    run([*sandboxed(options=("--report", str(told))), sys.executable, "-c", ""])
    report = json.loads(told.read_text())
    assert set(report["left_out"]) == {
        "ConfigurationDirectory",
        "CPUQuota",
        "CPUQuotaPeriodSec",
        "KeyringMode",
        "MemoryMax",
        "ProtectProc",
        "RemoveIPC",
    }
    said = set(report["applied"]) | set(report["left_out"])
    assert said == sandbox.settings_of(AGENT).keys() - sandbox.NO_SANDBOX


def test_a_setting_that_nobody_applies_is_an_error(tmp_path):
    unit = tmp_path / "new.service"
    unit.write_text("[Service]\nProtectSomething=yes\n")
    done = subprocess.run(
        [sys.executable, str(HARNESS), str(unit), "--", "true"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "ProtectSomething" in done.stderr


def kinds(text: str) -> dict[str, tuple[str, str, str]]:
    """Return of each signal what doesn't change from one sample to the next."""
    signals = json.loads(text)["signals"]
    return {k: (s["state"], s["unit"], s["scope"]) for k, s in signals.items()}


@pytest.mark.parametrize("drop_ins", [(), ("gpu.conf",), ("lxcfs.conf",)])
def test_it_reads_inside_what_it_reads_outside(drop_ins):
    """A15, A40."""
    sample = [sys.executable, "-m", "trimtab.agent", "sample", "--json"]
    sample += ["--interval", "0.2"]
    inside, outside = run([*sandboxed(*drop_ins), *sample]), run(sample)
    assert kinds(inside) == kinds(outside)
    assert "ok" in {state for state, _, _ in kinds(inside).values()}


@pytest.fixture
def fleet(tmp_path, free_port):
    fleet = Fleet(tmp_path, free_port)
    yield fleet
    fleet.close()


def made_token(folder: Path) -> str:
    """Return a new token, with which the collector is open to nobody else."""
    made = subprocess.run(
        [
            *(sys.executable, "-m", "trimtab.collector", "token", "create"),
            *("--scope", "agent", "--scope", "read"),
        ],
        env=os.environ | {"TRIMTAB_STATE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return made.stdout.split()[0]


def scored(fleet: Fleet, token: str) -> bool:
    request = urllib.request.Request(
        f"http://127.0.0.1:{fleet.http_port}/v1/nodes",
        headers={"Authorization": f"Bearer {token}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            nodes = json.load(answer)["nodes"]
    except OSError:
        return False
    return [node["score"] is not None for node in nodes] == [True]


@pytest.mark.parametrize("mode", ["standard", "edge"])
def test_the_service_enrols_reports_reloads_and_stops(fleet, tmp_path, mode):
    """A40, A41: with the token as a credential, which is in no log."""
    run([*sandboxed(), sys.executable, "-c", ""])  # skips where it can't be
    token = made_token(tmp_path / "collector")
    (tmp_path / "token").write_text(token)
    fleet.collector()
    name = f"trimtab-{os.getpid()}-{mode}"
    options = ("--credential", f"token={tmp_path / 'token'}")
    command = [*sandboxed(options=options), sys.executable, "-m", "trimtab.agent"]
    environment = {
        "NOTIFY_SOCKET": f"@{name}",
        "TRIMTAB_COLLECTOR": f"127.0.0.1:{fleet.frames_port}",
        "TRIMTAB_MODE": mode,
    }
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
        (tmp_path / "agent.log").open("ab") as log,
    ):
        manager.bind(f"\0{name}")
        manager.settimeout(10)
        agent = subprocess.Popen(
            [*command, "run"], env=os.environ | environment, stderr=log
        )
        fleet.running.append(agent)
        assert manager.recv(200) == b"READY=1"
        until(lambda: scored(fleet, token), 20, "the node is scored")
        agent.send_signal(signal.SIGHUP)
        assert manager.recv(200).startswith(b"RELOADING=1\n")
        assert manager.recv(200) == b"READY=1"
        assert fleet.stop(agent) == 0
    said = fleet.log("agent")
    assert "event=connected" in said
    assert "event=settings_reloaded" in said
    assert "Traceback" not in said
    assert token not in said
