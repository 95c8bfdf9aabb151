"""The Debian packages: what is in them, and a Debian that takes them in and back.

The Debian is a debootstrap root, made once under var/ from the mirror that this
machine's apt uses; each run works on a copy. No systemd runs in it, so a
`systemctl` that writes down what it is told stands in for one, where a test is
about starting and stopping.
"""

import functools
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.processes import until

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "packaging" / "deb"
PACKAGES = ("trimtab-agent", "trimtab-collector")

# Building takes half a minute of two cores, making the Debian one more.
pytestmark = pytest.mark.timeout(600)

# It says of every unit that it is enabled and doesn't run.
SYSTEMCTL = """#!/bin/sh
case "$*" in
*is-enabled*) echo enabled ;;
*preset*) ;;
*is-active*) exit 3 ;;
*) echo "$@" >>/tmp/asked ;;
esac
"""

# What a removal may leave: configs, state, and what dpkg remembers.
ENABLED = "var/lib/systemd/deb-systemd-helper-enabled"
LEFT_BY_REMOVE = {
    "etc/trimtab",
    "etc/trimtab/agent.toml",
    "etc/trimtab/collector.toml",
    "var/lib/trimtab",
    "var/lib/trimtab-agent",
    *(f"etc/systemd/system/multi-user.target.wants/{one}.service" for one in PACKAGES),
    *(f"{ENABLED}/multi-user.target.wants/{one}.service" for one in PACKAGES),
    *(f"{ENABLED}/{one}.service.dsh-also" for one in PACKAGES),
}
# Not ours: dpkg's and the user database's own notes and backups.
NOT_OURS = (
    "etc/group-", "etc/gshadow-", "etc/passwd-", "etc/shadow-", "etc/subgid",
    "etc/subuid", "proc", "run/adduser", "tmp", "var/cache", "var/lib/dpkg", "var/log",
)  # fmt: skip


@pytest.fixture(scope="module")
def building(tmp_path_factory):
    """Return a function that builds the packages, once."""

    @functools.cache
    def build() -> dict[str, Path]:
        output = tmp_path_factory.mktemp("dist")
        done = subprocess.run(
            [sys.executable, SHIPPED / "build.py", "--output", output],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        made = [Path(line) for line in done.stdout.splitlines()]
        assert sorted(output.iterdir()) == sorted(made)
        return {path.name.split("_")[0]: path for path in made}

    return build


@pytest.fixture
def built(need, building):
    """Return the packages by name."""
    for program in ("dpkg-deb", "dpkg-shlibdeps", "/usr/bin/python3"):
        need(program)
    return building()


@pytest.fixture
def unpacked(built, tmp_path):
    """Return the folder each package's files lie in, by name."""
    for name, path in built.items():
        subprocess.run(["dpkg-deb", "--raw-extract", path, tmp_path / name], check=True)
    return {name: tmp_path / name for name in built}


def field(path, name):
    return subprocess.check_output(
        ["dpkg-deb", "--field", path, name], text=True
    ).strip()


def listing(path):
    """Return each path in a package with its mode and owner."""
    text = subprocess.check_output(["dpkg-deb", "--contents", path], text=True)
    for line in text.splitlines():
        mode, owner, _, _, _, name = line.split(maxsplit=5)
        yield name.split(" -> ")[0].removeprefix("."), mode, owner


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_belongs_to_root_and_only_commands_are_executable(built, name):
    seen = list(listing(built[name]))
    assert {owner for _, _, owner in seen} == {"root/root"}
    assert {mode for path, mode, _ in seen if path.endswith("/")} == {"drwxr-xr-x"}
    commands = {path for path, mode, _ in seen if mode == "-rwxr-xr-x"}
    assert (
        commands
        == {
            "trimtab-agent": {"/usr/bin/trimtab-agent"},
            "trimtab-collector": {"/usr/bin/trimtab-collector", "/usr/bin/trimtab"},
        }[name]
    )
    rest = {
        mode
        for path, mode, _ in seen
        if not path.endswith("/") and path not in commands and mode[0] != "l"
    }
    assert rest == {"-rw-r--r--"}


def test_the_two_packages_share_no_file(built):
    agent, collector = (
        {path for path, _, _ in listing(built[name]) if not path.endswith("/")}
        for name in PACKAGES
    )
    assert not agent & collector


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_suits_the_python_it_was_built_for_and_no_other(built, name):
    version = subprocess.check_output(
        ["/usr/bin/python3", "-c", "import sys; print(sys.version_info[1])"], text=True
    )
    minor = int(version)
    depends = field(built[name], "Depends").split(", ")
    assert f"python3 (>= 3.{minor})" in depends
    assert f"python3 (<< 3.{minor + 1})" in depends
    compiled = any(path.endswith(".so") for path, _, _ in listing(built[name]))
    assert (field(built[name], "Architecture") != "all") == compiled
    assert any(one.startswith("libc6 ") for one in depends) == compiled


@pytest.mark.parametrize("name", PACKAGES)
def test_all_modules_are_compiled_and_never_checked_against_their_source(
    unpacked, name
):
    modules = list((unpacked[name] / "usr/lib/trimtab").rglob("*.py"))
    assert modules
    for module in modules:
        (compiled,) = (module.parent / "__pycache__").glob(f"{module.stem}.*.pyc")
        # PEP 552: after the magic, flags; bit 0 says "by hash", bit 1 "check it".
        assert int.from_bytes(compiled.read_bytes()[4:8], "little") == 1, module
        assert str(unpacked[name]).encode() not in compiled.read_bytes()


def test_the_agents_package_has_neither_collector_nor_its_libraries(unpacked):
    (site,) = unpacked["trimtab-agent"].glob("usr/lib/trimtab/agent/lib/*/*")
    assert {path.name for path in (site / "trimtab").iterdir()} == {"agent", "wire"}
    assert not {"aiohttp", "numpy", "rich"} & {path.name for path in site.iterdir()}


@pytest.mark.parametrize("name", PACKAGES)
def test_the_unit_is_the_shipped_one_and_its_paths_are_there(unpacked, name):
    unit = unpacked[name] / "lib/systemd/system" / f"{name}.service"
    shipped = (ROOT / "systemd" / unit.name).read_text().splitlines()
    lines = unit.read_text().splitlines()
    changed = [new for old, new in zip(shipped, lines, strict=True) if old != new]
    assert all(line.startswith("Documentation=") for line in changed)
    (page,) = (line for line in lines if line.startswith("Documentation=file:"))
    assert (unpacked[name] / page.removeprefix("Documentation=file:///")).is_file()
    (start,) = (line for line in lines if line.startswith("ExecStart="))
    command, *_, config = start.removeprefix("ExecStart=").split()
    assert (unpacked[name] / command[1:]).is_file()
    conffiles = (unpacked[name] / "DEBIAN/conffiles").read_text().split()
    assert conffiles == [config]


def test_maintainer_scripts_pass_shellcheck(need):
    scripts = sorted(SHIPPED.glob("trimtab-*/p*"))
    assert len(scripts) == 6
    subprocess.run([need("shellcheck"), *scripts], check=True)


@pytest.fixture
def debian(need, tmp_path) -> "Iterator[Debian]":
    """Return a Debian of the host's own release with Python and nothing of ours."""
    programs = ("debootstrap", "apt-get", "unshare", "chroot")
    found = {program: need(program) for program in programs}
    if os.geteuid() != 0:
        pytest.skip("not root: debootstrap and chroot need it")
    release, mirror = release_and_mirror(found["apt-get"])
    kept = ROOT / "var" / f"debootstrap-{release}"
    if not kept.exists():
        making = kept.with_suffix(f".{os.getpid()}")
        making.parent.mkdir(exist_ok=True)
        done = subprocess.run(
            [found["debootstrap"], "--variant=minbase", "--include=python3",
             release, making, mirror],
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        making.rename(kept)
    root = tmp_path / "debian"
    subprocess.run(["cp", "--archive", kept, root], check=True)
    yield Debian(root)
    # Some hundred MB, of which pytest would keep three.
    shutil.rmtree(root)


def release_and_mirror(apt_get):
    """Return this machine's release and where its apt finds that."""
    told = subprocess.check_output(
        [apt_get, "indextargets", "--format", "$(CODENAME) $(REPO_URI)",
         "Created-By: Packages", "Component: main"],
        text=True,
    )  # fmt: skip
    targets = [line.split() for line in told.splitlines()]
    release = next(
        line.partition("=")[2].strip('"')
        for line in Path("/etc/os-release").read_text().splitlines()
        if line.startswith("VERSION_CODENAME=")
    )
    mirrors = [uri for codename, uri in targets if codename == release]
    if not mirrors:
        pytest.skip(f"apt has no source for {release}; run apt-get update")
    return release, mirrors[0]


class Debian:
    """A root to install into. Its processes see this machine's network."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def command(self, *argv: str | Path, user: str = "root") -> list[str | Path]:
        # Mounts end with the process; nothing has to be unmounted.
        return [
            "unshare", f"--mount-proc={self.root}/proc",
            "chroot", f"--userspec={user}:{user}", self.root, *argv,
        ]  # fmt: skip

    def run(self, *argv: str | Path, user: str = "root", **environment: str) -> str:
        done = subprocess.run(
            self.command(*argv, user=user),
            env=self.environment(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def running(
        self, log: Path, *argv: str, user: str = "root", **environment: str
    ) -> Iterator[None]:
        """Keep a service running; it has to end well when told to."""
        with log.open("w") as out:
            process = subprocess.Popen(
                self.command(*argv, user=user),
                env=self.environment(environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        try:
            yield
            process.terminate()
            assert process.wait(10) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()

    @staticmethod
    def environment(extra: dict[str, str]) -> dict[str, str]:
        return {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C",
            "DEBIAN_FRONTEND": "noninteractive",
        } | extra

    def install(self, *packages: Path) -> None:
        for path in packages:
            shutil.copy(path, self.root / "tmp")
        paths = [f"/tmp/{path.name}" for path in packages]
        self.run("dpkg", "--install", "--force-unsafe-io", "--force-confold", *paths)

    def paths(self) -> set[str]:
        """Return what there is, but for what is not ours in any case."""
        found = set()
        for folder, folders, files in os.walk(self.root):
            here = Path(folder).relative_to(self.root)
            names = {str(here / name) for name in (*folders, *files)}
            found |= {name for name in names if not name.startswith(NOT_OURS)}
            folders[:] = [n for n in folders if str(here / n) not in NOT_OURS]
        return found

    def pretend_systemd(self) -> None:
        """Let the scripts believe that systemd runs, and note what they ask of it."""
        (self.root / "run/systemd/system").mkdir(parents=True)
        systemctl = self.root / "usr/bin/systemctl"
        systemctl.write_text(SYSTEMCTL)
        systemctl.chmod(0o755)

    def asked(self) -> list[str]:
        """Return what systemd was asked to do with units since the last look."""
        log = self.root / "tmp/asked"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        words = [line.split() for line in lines]
        return sorted(" ".join(line[-2:]) for line in words if "." in line[-1])


def test_a_debian_runs_both_packages_and_gives_them_back(
    built, debian, free_port, tmp_path
):
    before = debian.paths()
    debian.install(*built.values())
    for name in PACKAGES:
        assert debian.run("dpkg", "--verify", name) == ""

    # The private environment is all there is, whatever the caller's environment.
    (debian.root / "tmp/msgpack.py").write_text("raise SystemExit(9)\n")
    sample = debian.run(
        "trimtab-agent", "sample", "--json", "--interval", "0.1", PYTHONPATH="/tmp"
    )
    signals = json.loads(sample)["signals"]
    assert signals["cpu.busy"]["value"] is not None
    path = debian.run(
        "/usr/lib/trimtab/agent/bin/python3",
        "-Ic",
        "import sys, trimtab.agent.gpu.child; print(*sys.path)",
    )
    assert not [one for one in path.split() if "dist-packages" in one]

    database = debian.root / "var/lib/trimtab"
    assert stat.S_IMODE(database.stat().st_mode) == 0o700
    frames, http = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    listen = {"TRIMTAB_FRAMES_LISTEN": frames, "TRIMTAB_HTTP_LISTEN": http}
    debian.run("trimtab-collector", "token", "list", user="trimtab", **listen)

    def nodes() -> list[str]:
        told = debian.run("trimtab", "nodes", "--json", TRIMTAB_URL=f"http://{http}")
        return [node["node"] for node in json.loads(told)["nodes"]]

    config = ("--config", "/etc/trimtab/collector.toml")
    with debian.running(
        tmp_path / "collector.log", "trimtab-collector", "run", *config,
        user="trimtab", **listen,
    ):  # fmt: skip
        until(lambda: listens(http), 20, "the collector listens")
        with debian.running(
            tmp_path / "agent.log", "trimtab-agent", "run",
            "--config", "/etc/trimtab/agent.toml", "--collector", frames,
            "--name", "here", STATE_DIRECTORY="/var/lib/trimtab-agent",
        ):  # fmt: skip
            until(lambda: nodes() == ["here"], 20, "the agent's node is known")

    debian.run("dpkg", "--remove", *PACKAGES)
    left = debian.paths() - before
    for state in ("var/lib/trimtab/", "var/lib/trimtab-agent/"):
        kept = {one for one in left if one.startswith(state)}
        assert kept
        left -= kept
    assert left == LEFT_BY_REMOVE
    debian.run("dpkg", "--purge", *PACKAGES)
    assert debian.paths() == before
    for users in ("passwd", "group"):
        assert "trimtab" not in (debian.root / "etc" / users).read_text()


def listens(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_services_start_stop_and_restart_only_where_systemd_runs(built, debian):
    debian.install(*built.values())
    assert debian.asked() == []
    debian.run("dpkg", "--remove", *PACKAGES)
    assert debian.asked() == []

    debian.pretend_systemd()
    agent, collector = (f"{name}.service" for name in PACKAGES)
    debian.install(*built.values())
    # dpkg still knows the removed ones' version, as for an upgrade. A restart
    # starts what doesn't run.
    assert debian.asked() == [f"restart {agent}", f"restart {collector}"]
    debian.run("dpkg", "--purge", *PACKAGES)
    assert debian.asked() == [f"stop {agent}", f"stop {collector}"]
    debian.install(*built.values())
    assert debian.asked() == [f"start {agent}", f"start {collector}"]


def test_what_the_admin_has_set_outlives_an_upgrade(built, debian):
    package = built["trimtab-agent"]
    debian.install(package)
    config = debian.root / "etc/trimtab/agent.toml"
    config.write_text('site = "north"\n')
    link = "etc/systemd/system/multi-user.target.wants/trimtab-agent.service"
    assert (debian.root / link).is_symlink()
    (debian.root / link).unlink()
    debian.install(package)
    assert config.read_text() == 'site = "north"\n'
    assert not (debian.root / link).is_symlink()
