"""Run a command in the sandbox of a shipped unit, without systemd.

`sandbox.py UNIT [DROP-IN …] [--credential NAME=FILE] [--report FILE] -- COMMAND`

Reads the [Service] section and applies the same restrictions to itself, then
becomes the command: mounts in a mount namespace of its own, an unprivileged
user, capabilities, seccomp. Every setting has a line in the report: applied,
or left out and why. One that isn't known here is an error, so that a new line
in a unit can't pass unseen.

The machine's own mounts stay as they are: the namespace is private, and
"read-only" is an attribute of a mount (mount_setattr(2)), never of a file
system. Status 77: this machine allows no such sandbox.

Unlike the unit it shows empty /run and /var/lib, in which the service's
folders are made; and what of the interpreter and the checkout lies where the
unit hides it is bound in again, read-only.
"""

import argparse
import ctypes
import errno
import json
import os
import resource
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

NOT_POSSIBLE = 77
NO_SANDBOX = {
    "Type", "ExecStart", "ExecReload", "WatchdogSec", "Restart", "RestartSec",
    "TimeoutStopSec", "User",
}  # fmt: skip
LEFT_OUT = {
    "MemoryMax": "needs a control group of its own",
    "CPUQuota": "needs a control group of its own",
    "CPUQuotaPeriodSec": "needs a control group of its own",
    "DevicePolicy": "needs a control group of its own",
    "DeviceAllow": "needs a control group of its own",
    "ProtectProc": "would mount another /proc",
    "KeyringMode": "a session keyring is of no use to a unit that asks for none",
    "RemoveIPC": "happens after the service has stopped",
    "ConfigurationDirectory": "the command names its settings itself",
}
APPLIED = {
    "AmbientCapabilities", "BindReadOnlyPaths", "CapabilityBoundingSet", "DynamicUser",
    "LoadCredential", "LockPersonality", "MemoryDenyWriteExecute", "NoNewPrivileges",
    "PrivateDevices", "PrivateTmp", "ProtectClock", "ProtectControlGroups",
    "ProtectHome", "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules",
    "ProtectKernelTunables", "ProtectSystem", "RestrictAddressFamilies",
    "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID", "RuntimeDirectory",
    "StateDirectory", "StateDirectoryMode", "SystemCallArchitectures",
    "SystemCallErrorNumber", "SystemCallFilter", "TasksMax", "UMask",
}  # fmt: skip
HOMES = ("/home", "/root", "/run/user")
TEMPORARY = ("/tmp", "/var/tmp")
TUNABLES = (
    "acpi", "bus", "fs", "irq", "latency_stats", "mtrr", "scsi", "sys",
    "sysrq-trigger", "timer_stats",
)  # fmt: skip
DEVICES = ("full", "null", "random", "tty", "urandom", "zero")

# linux/mount.h, sched.h, prctl.h, capability.h, seccomp.h of libseccomp.
MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 0x1000, 0x2000, 0x4000, 0x40000
CLONE_NEWNS, CLONE_NEWUTS = 0x20000, 0x4000000
NAMESPACES = (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000,
              0x20000000, 0x40000000)  # fmt: skip
SYS_MOUNT_SETATTR = 442
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = -100, 0x8000, 1
PR_SET_KEEPCAPS, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 8, 24, 38, 47
CAPABILITY_VERSION_3 = 0x20080522
CAPABILITIES = {"CAP_NET_RAW": 13}
ALLOW = 0x7FFF0000
NE, EQ, GT, MASKED_EQ = 1, 4, 6, 7
SUID_SGID = (stat.S_ISUID, stat.S_ISGID)

libc = ctypes.CDLL(None, use_errno=True)


class NotPossible(RuntimeError):
    """This machine allows no such sandbox."""


Settings = Mapping[str, Sequence[str]]


def settings_of(*paths: Path) -> dict[str, list[str]]:
    """Return what the [Service] sections say; an empty value forgets those before."""
    found: dict[str, list[str]] = {}
    for path in paths:
        section = ""
        for line in path.read_text().splitlines():
            if line.startswith("["):
                section = line
            elif section == "[Service]" and line and not line.startswith("#"):
                key, _, value = line.partition("=")
                found.setdefault(key, []).append(value)
                if not value:
                    found[key] = []
    return found


def report(settings: Settings) -> dict[str, dict[str, str] | list[str]]:
    """Return which settings are applied and which are left out."""
    unknown = settings.keys() - NO_SANDBOX - LEFT_OUT.keys() - APPLIED
    if unknown:
        sys.exit(f"no word here on how to apply {', '.join(sorted(unknown))}")
    return {
        "applied": sorted(settings.keys() & APPLIED),
        "left_out": {key: LEFT_OUT[key] for key in settings if key in LEFT_OUT},
    }


def says(settings: Settings, key: str, otherwise: str = "") -> str:
    """Return the last value of a setting."""
    return settings[key][-1] if settings.get(key) else otherwise


def on(settings: Settings, key: str) -> bool:
    return says(settings, key) == "yes"


# Mounts


def check(status: int, what: str) -> None:
    if status != 0:
        number = ctypes.get_errno()
        raise NotPossible(f"{what}: {os.strerror(number)}")


def mount(source: str, target: str | Path, kind: str, flags: int, data: str) -> None:
    arguments = (os.fsencode(text) for text in (source, target, kind))
    check(
        libc.mount(*arguments, ctypes.c_ulong(flags), data.encode()),
        f"mount {source} on {target}",
    )


def bind(source: str | Path, target: str | Path) -> None:
    mount(str(source), target, "", MS_BIND | MS_REC, "")


def tmpfs(target: str | Path, mode: int) -> None:
    mount("tmpfs", target, "tmpfs", 0, f"mode={mode:o}")


def read_only(target: str | Path, *, below: bool = False) -> None:
    """Make one mount read-only, the file system under it left as it is."""
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
    flags = AT_RECURSIVE if below else 0
    status = libc.syscall(
        SYS_MOUNT_SETATTR, AT_FDCWD, os.fsencode(target), flags, attributes, 32
    )
    check(status, f"mount_setattr {target}")


def mounted() -> list[Path]:
    """Return where something is mounted in this namespace."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [Path(line.split()[4].replace("\\040", " ")) for line in lines]


def under(path: Path, folders: Sequence[str | Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def own_namespace() -> None:
    check(libc.unshare(CLONE_NEWNS | CLONE_NEWUTS), "unshare")
    mount("", "/", "", MS_REC | MS_PRIVATE, "")


def needed() -> list[Path]:
    """Return what the command is read from: interpreter, packages, checkout."""
    own = (sys.base_prefix, sys.prefix, Path(__file__).resolve().parents[2])
    return [Path(path).resolve() for path in own]


class Folders(NamedTuple):
    """The folders of the service, made for its user."""

    state: Path
    runtime: Path
    credentials: Path


def hide(settings: Settings, user: int, credentials: Mapping[str, bytes]) -> Folders:
    """Make the file system look as the unit says."""
    carried = [(path, os.open(path, os.O_PATH)) for path in needed()]
    tmpfs("/run", 0o755)
    tmpfs("/var/lib", 0o755)
    folders = service_folders(settings, user, credentials)
    hidden: list[str] = []
    if on(settings, "PrivateTmp"):
        for name in TEMPORARY:
            tmpfs(name, 0o1777)
            hidden.append(name)
    if on(settings, "ProtectHome"):
        for name in filter(os.path.isdir, HOMES):
            inside = any(under(path, [name]) for path, _ in carried)
            tmpfs(name, 0o755 if inside else 0)
            hidden.append(name)
    again = [(path, fd) for path, fd in carried if under(path, hidden)]
    for path, descriptor in again:
        path.mkdir(parents=True, exist_ok=True)
        bind(f"/proc/self/fd/{descriptor}", path)
    inaccessible = Path("/run/inaccessible")
    inaccessible.touch(0)
    if on(settings, "PrivateDevices"):
        own_devices()
    elif on(settings, "ProtectKernelLogs") and Path("/dev/kmsg").exists():
        bind(inaccessible, "/dev/kmsg")
    protect_kernel(settings, inaccessible)
    for text in settings.get("BindReadOnlyPaths", []):
        path = Path(text.removeprefix("-"))
        if path.exists() or not text.startswith("-"):
            bind(path, path)
            read_only(path)
    if says(settings, "ProtectSystem") == "strict":
        open_ = (*folders, *(TEMPORARY if on(settings, "PrivateTmp") else ()))
        for folder in (folders.state, folders.runtime):
            bind(folder, folder)
        for target in dict.fromkeys(mounted()):
            if not under(target, ("/dev", "/proc", "/sys")) and target not in [
                Path(folder) for folder in open_
            ]:
                read_only(target)
    return folders


def service_folders(
    settings: Settings, user: int, credentials: Mapping[str, bytes]
) -> Folders:
    folders = Folders(
        Path("/var/lib") / says(settings, "StateDirectory"),
        Path("/run") / says(settings, "RuntimeDirectory"),
        Path("/run/credentials"),
    )
    for folder in folders:
        folder.mkdir()
    folders.state.chmod(int(says(settings, "StateDirectoryMode", "0755"), 8))
    folders.credentials.chmod(0o500)
    for name, content in credentials.items():
        path = folders.credentials / name
        path.write_bytes(content)
        path.chmod(0o400)
        os.chown(path, user, user)
    for folder in folders:
        os.chown(folder, user, user)
    return folders


def own_devices() -> None:
    made = Path("/run/dev")
    made.mkdir()
    tmpfs(made, 0o755)
    for name in DEVICES:
        (made / name).touch()
        bind(Path("/dev") / name, made / name)
    (made / "fd").symlink_to("/proc/self/fd")
    (made / "shm").mkdir(mode=0o1777)
    mount(str(made), "/dev", "", MS_MOVE, "")


def protect_kernel(settings: Settings, inaccessible: Path) -> None:
    if on(settings, "ProtectKernelTunables"):
        for name in TUNABLES:
            path = Path("/proc") / name
            if path.exists():
                bind(path, path)
                read_only(path, below=True)
        for path in map(Path, ("/proc/kallsyms", "/proc/kcore")):
            if path.exists():
                bind(inaccessible, path)
        read_only("/sys", below=True)
    if on(settings, "ProtectControlGroups"):
        read_only_below(Path("/sys/fs/cgroup"))
    if on(settings, "ProtectKernelModules"):
        for path in map(Path, ("/usr/lib/modules", "/lib/modules")):
            if path.exists() and not path.is_symlink():
                tmpfs(path.resolve(), 0)
                break
    if on(settings, "ProtectKernelLogs") and Path("/proc/kmsg").exists():
        bind(inaccessible, "/proc/kmsg")


def read_only_below(folder: Path) -> None:
    for target in mounted():
        if target.is_relative_to(folder):
            read_only(target)


# The user and the capabilities


def become(settings: Settings, user: int) -> None:
    """Give up root, but for the capabilities that the unit leaves."""
    kept = says(settings, "AmbientCapabilities").split()
    bounding = {
        CAPABILITIES[n] for n in says(settings, "CapabilityBoundingSet").split()
    }
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    for number in range(last + 1):
        if number not in bounding:
            check(libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0), "prctl capbset")
    check(libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), "prctl keepcaps")
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    mask = sum(1 << CAPABILITIES[name] for name in kept)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    check(libc.capset(header, (ctypes.c_uint32 * 6)(mask, mask, mask)), "capset")
    for name in kept:
        raised = libc.prctl(PR_CAP_AMBIENT, 2, CAPABILITIES[name], 0, 0)
        check(raised, f"ambient {name}")
    if on(settings, "NoNewPrivileges"):
        check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


# System calls


class Compare(ctypes.Structure):
    """struct scmp_arg_cmp of libseccomp."""

    _fields_ = [
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    ]


class Filter:
    """One seccomp filter, made now and loaded later."""

    def __init__(self, library: ctypes.CDLL, default: int) -> None:
        self._library = library
        library.seccomp_init.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(default)))

    def add(self, action: int, name: str, *compares: Compare) -> None:
        """Take this action on a system call; unknown ones are passed over."""
        number = self._library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            return
        status = self._library.seccomp_rule_add_array(
            self._context,
            ctypes.c_uint32(action),
            number,
            len(compares),
            (Compare * len(compares))(*compares),
        )
        if status:
            raise NotPossible(f"seccomp rule for {name}: {os.strerror(-status)}")

    def load(self) -> None:
        """Put it into force, for good."""
        status = self._library.seccomp_load(self._context)
        if status:
            raise NotPossible(f"seccomp_load: {os.strerror(-status)}")


def refuse(number: int) -> int:
    return 0x50000 | number


def filters(settings: Settings) -> list[Filter]:
    """Return the unit's seccomp filters."""
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError as exc:
        raise NotPossible(f"libseccomp: {exc}") from exc
    number = getattr(errno, says(settings, "SystemCallErrorNumber", "EPERM"))
    allowed = Filter(library, refuse(number))
    for name in sorted(allowed_calls(settings["SystemCallFilter"])):
        allowed.add(ALLOW, name)
    denied = Filter(library, ALLOW)
    for code, name, *compares in denials(settings):
        denied.add(refuse(code), name, *compares)
    return [denied, allowed]


def allowed_calls(lines: Sequence[str]) -> set[str]:
    """Return the calls of a filter's sets, as systemd expands them."""
    allowed: set[str] = set()
    for line in lines:
        calls = {
            call for name in line.removeprefix("~").split() for call in expand(name)
        }
        allowed = allowed - calls if line.startswith("~") else allowed | calls
    return allowed


def expand(name: str) -> Iterator[str]:
    program = shutil.which("systemd-analyze")
    if program is None:
        raise NotPossible("systemd-analyze, which knows the sets of system calls")
    if not name.startswith("@"):
        yield name
        return
    argv = [program, "--no-pager", "syscall-filter", name]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines()[1:]:
        word = line.strip()
        if word and not word.startswith("#"):
            yield from expand(word)


def denials(settings: Settings) -> Iterator[tuple[int, str, *tuple[Compare, ...]]]:
    """Yield what is refused by its arguments: the errno, the call, which ones."""
    eperm = errno.EPERM
    families = says(settings, "RestrictAddressFamilies").split()
    if families:
        allowed = {getattr(socket, family) for family in families}
        for family in set(range(64)) - allowed:
            yield errno.EAFNOSUPPORT, "socket", Compare(0, EQ, family)
        yield errno.EAFNOSUPPORT, "socket", Compare(0, GT, 63)
    if on(settings, "RestrictNamespaces"):
        yield errno.ENOSYS, "clone3"  # its flags are out of a filter's sight
        for flag in NAMESPACES:
            for name in ("clone", "unshare"):
                yield eperm, name, Compare(0, MASKED_EQ, flag, flag)
        yield eperm, "setns"
    if on(settings, "MemoryDenyWriteExecute"):
        yield eperm, "mmap", Compare(2, MASKED_EQ, 6, 6)
        for name in ("mprotect", "pkey_mprotect"):
            yield eperm, name, Compare(2, MASKED_EQ, 4, 4)
        yield eperm, "shmat", Compare(2, MASKED_EQ, 0o100000, 0o100000)
    if on(settings, "RestrictRealtime"):
        for policy in (os.SCHED_FIFO, os.SCHED_RR, 6):
            yield eperm, "sched_setscheduler", Compare(1, EQ, policy)
    if on(settings, "RestrictSUIDSGID"):
        for bit in SUID_SGID:
            for name, place in (
                ("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("mkdir", 1),
                ("mkdirat", 2), ("mknod", 1), ("mknodat", 2),
            ):  # fmt: skip
                yield eperm, name, Compare(place, MASKED_EQ, bit, bit)
            creates = Compare(2, MASKED_EQ, os.O_CREAT, os.O_CREAT)
            yield eperm, "openat", creates, Compare(3, MASKED_EQ, bit, bit)
    if on(settings, "LockPersonality"):
        yield eperm, "personality", Compare(0, NE, 0)
    for key, names in (
        (
            "ProtectClock",
            ("adjtimex", "clock_adjtime", "clock_settime", "settimeofday"),
        ),
        ("ProtectHostname", ("sethostname", "setdomainname")),
        ("ProtectKernelLogs", ("syslog",)),
        ("ProtectKernelModules", ("delete_module", "finit_module", "init_module")),
    ):
        if on(settings, key):
            for name in names:
                yield eperm, name


def main() -> NoReturn:
    """Enter the sandbox and become the command."""
    parser = argparse.ArgumentParser(description="Run a command in a unit's sandbox.")
    parser.add_argument("unit", type=Path, nargs="+")
    parser.add_argument("--credential", action="append", default=[])
    parser.add_argument("--report", type=Path)
    split = sys.argv.index("--")
    args, command = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1 :]
    settings = settings_of(*args.unit)
    told = report(settings)
    if os.geteuid() != 0:
        print("not possible here: it takes root", file=sys.stderr)
        sys.exit(NOT_POSSIBLE)
    if args.report is not None:
        args.report.write_text(json.dumps(told, indent=2))
    named = (text.partition("=") for text in args.credential)
    credentials = {name: Path(path).read_bytes() for name, _, path in named}
    user = 61_184 + os.getpid() % 4000  # of DynamicUser='s range
    try:
        prepared = filters(settings)
        own_namespace()
        folders = hide(settings, user, credentials)
        most = int(says(settings, "TasksMax", "4096"))
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        os.umask(int(says(settings, "UMask", "0022"), 8))
        os.chdir("/")
        become(settings, user)
        for each in prepared:
            each.load()
    except NotPossible as exc:
        print(f"not possible here: {exc}", file=sys.stderr)
        sys.exit(NOT_POSSIBLE)
    environment = {
        "STATE_DIRECTORY": str(folders.state),
        "RUNTIME_DIRECTORY": str(folders.runtime),
        **({"CREDENTIALS_DIRECTORY": str(folders.credentials)} if credentials else {}),
    }
    os.execvpe(command[0], command, {**os.environ, **environment})


if __name__ == "__main__":
    main()
