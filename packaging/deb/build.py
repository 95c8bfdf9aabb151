"""Build the Debian packages of the agent and of the collector.

Each is a virtual environment of its own under /usr/lib/trimtab, made by hand
from trimtab's wheel and the libraries that constraints.txt pins, compiled, so
that an installation downloads and compiles nothing. It belongs to the Python
of the Debian release it is built on (`/usr/bin/python3`), and says so in its
Depends. The same source and SOURCE_DATE_EPOCH give the same files.

Needs dpkg-dev, and a Python with pip to run this file. Left out: source
packages, and manual pages.
"""

import argparse
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from email.utils import formatdate
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

# The interpreter of the hosts that install the package.
PYTHON = "/usr/bin/python3"
OLDEST_PYTHON = (3, 11)

# Nobody reads that address: the project has none.
MAINTAINER = "The trimtab authors <trimtab@packages.invalid>"

OUR_COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: trimtab

Files: *
Copyright: The trimtab authors
License: Apache-2.0
 The whole text is in /usr/share/common-licenses/Apache-2.0.
"""

# How pip came by a library says nothing of what the package holds.
PIPS_OWN = ("RECORD", "REQUESTED", "INSTALLER", "direct_url.json")


class Package(NamedTuple):
    """What sets one package apart from the other."""

    name: str
    extras: str  # of the wheel, as pip takes them
    without: frozenset[str]  # packages of ours that it has no use for
    commands: tuple[str, ...]
    depends: tuple[str, ...]
    summary: str
    description: str

    @property
    def home(self) -> Path:
        """The virtual environment, seen from the host's root."""
        return Path("usr/lib/trimtab", self.name.removeprefix("trimtab-"))


PACKAGES = (
    Package(
        name="trimtab-agent",
        extras="",
        without=frozenset({"balancer", "client", "collector", "console"}),
        commands=("trimtab-agent",),
        depends=(),
        summary="probe that reports how much room a host has left",
        description=(
            "Samples pressure, memory, network and GPUs once a second, and sends\n"
            "the readings to a trimtab collector."
        ),
    ),
    Package(
        name="trimtab-collector",
        extras="[collector,console]",
        without=frozenset({"agent"}),
        commands=("trimtab-collector", "trimtab"),
        depends=("adduser",),
        summary="scores a fleet by its agents' readings and routes tasks",
        description=(
            "Takes the frames of trimtab agents, keeps each node's health and\n"
            "answers over HTTP where a task should go, and why. Holds the operator's\n"
            "command trimtab, too."
        ),
    ),
)


def main() -> None:
    """Build both packages and print their paths."""
    options = argparse.ArgumentParser(description="Build the Debian packages.")
    options.add_argument(
        "--output", type=Path, default=ROOT / "dist", help="folder (default: dist)"
    )
    output: Path = options.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    os.umask(0o022)
    os.environ |= {
        "SOURCE_DATE_EPOCH": str(source_date()),  # for dpkg-deb
        "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }
    python = host_python()
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        for package in PACKAGES:
            print(build(package, wheel, python, Path(folder), output))


def build(
    package: Package, wheel: Path, python: tuple[int, int], folder: Path, output: Path
) -> Path:
    """Lay the package's files out in `folder`; return the .deb made of them."""
    stage = folder / package.name
    version = debian_version(wheel.name.split("-")[1])
    fill_environment(package, wheel, python, stage)
    write_commands(package, stage)
    copy_unit(package, stage)
    write_documents(package, version, stage)
    config = package.name.removeprefix("trimtab-") + ".toml"
    conffile = stage / "etc/trimtab" / config
    put(HERE / package.name / config, conffile)

    debian = stage / "DEBIAN"
    debian.mkdir()
    for script in ("postinst", "prerm", "postrm"):
        put(HERE / package.name / script, debian / script)
    (debian / "conffiles").write_text(f"/etc/trimtab/{config}\n")
    libraries = shared_libraries(stage)
    architecture = said("dpkg", "--print-architecture").strip() if libraries else "all"
    depends = [
        f"python3 (>= {python[0]}.{python[1]})",
        f"python3 (<< {python[0]}.{python[1] + 1})",
        *package.depends,
        *(library_packages(libraries, folder) if libraries else ()),
    ]
    (debian / "control").write_text(
        control(package, version, architecture, depends, size_kib(stage))
    )
    (debian / "md5sums").write_text(
        "".join(
            f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}"
            f"  {path.relative_to(stage)}\n"
            for path in files(stage)
            if debian not in path.parents and path != conffile
        )
    )
    set_modes(stage)
    made = output / f"{package.name}_{version}_{architecture}.deb"
    # Level 6 takes three times as long for 10 % less.
    run("dpkg-deb", "--root-owner-group", "-Zxz", "-z3", "--build", stage, made)
    return made


def fill_environment(
    package: Package, wheel: Path, python: tuple[int, int], stage: Path
) -> None:
    """Make the virtual environment, with the wheel and its libraries in it."""
    home = stage / package.home
    (home / "bin").mkdir(parents=True)
    (home / "bin/python3").symlink_to(os.path.relpath(PYTHON, f"/{package.home}/bin"))
    (home / "pyvenv.cfg").write_text(
        f"home = {Path(PYTHON).parent}\ninclude-system-site-packages = false\n"
    )
    site = home / f"lib/python{python[0]}.{python[1]}/site-packages"
    pip("install", "--no-compile", "--target", site, f"{wheel}{package.extras}")
    shutil.rmtree(site / "bin", ignore_errors=True)  # the libraries' own commands
    for name in package.without:
        shutil.rmtree(site / "trimtab" / name)
    for info in site.glob("*.dist-info"):
        for name in PIPS_OWN:
            (info / name).unlink(missing_ok=True)
    for tests in sorted(site.rglob("tests"), reverse=True):
        shutil.rmtree(tests)
    # Never checked against the source: dpkg replaces both together.
    compiling = ("-m", "compileall", "-q", "-j0", "--invalidation-mode")
    paths = ("-s", stage, "-p", "/", site)
    run(PYTHON, *compiling, "unchecked-hash", *paths)


def write_commands(package: Package, stage: Path) -> None:
    """Write the commands: our code, and no path but the environment's."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    (stage / "usr/bin").mkdir(parents=True)
    for command in package.commands:
        module, function = scripts[command].split(":")
        (stage / "usr/bin" / command).write_text(
            f"#!/{package.home}/bin/python3 -I\n"
            "import sys\n\n"
            f"from {module} import {function}\n\n"
            f"sys.exit({function}())\n"
        )


def copy_unit(package: Package, stage: Path) -> None:
    """Copy the unit as it is, but for where its documentation lies."""
    unit = f"{package.name}.service"
    text = (ROOT / "systemd" / unit).read_text()
    target = stage / "lib/systemd/system" / unit
    target.parent.mkdir(parents=True)
    target.write_text(
        text.replace("/usr/share/doc/trimtab/", f"/usr/share/doc/{package.name}/")
    )


def write_documents(package: Package, version: str, stage: Path) -> None:
    """Write what belongs under /usr/share/doc."""
    folder = stage / "usr/share/doc" / package.name
    # As in the source, so that links between pages hold.
    for page in ("README.md", "CHANGELOG.md"):
        put(ROOT / page, folder / page)
    units = shutil.ignore_patterns("*.service")
    for pages in ("docs", "systemd"):
        shutil.copytree(ROOT / pages, folder / pages, ignore=units)
    date = formatdate(int(os.environ["SOURCE_DATE_EPOCH"]))
    changelog = (
        f"{package.name} ({version}) unstable; urgency=medium\n\n"
        "  * What changed is told in CHANGELOG.md, beside this file.\n\n"
        f" -- {MAINTAINER}  {date}\n"
    )
    (folder / "changelog.gz").write_bytes(gzip.compress(changelog.encode(), mtime=0))
    (folder / "copyright").write_text(
        copyright_of(metadata(stage / package.home), package.home)
    )


def metadata(home: Path) -> list[Message]:
    """Return what each library, but not trimtab, says of itself, by name."""
    found = [
        Parser().parsestr(path.read_text())
        for path in sorted(home.glob("lib/*/site-packages/*.dist-info/METADATA"))
    ]
    return [about for about in found if about["Name"] != "trimtab"]


def copyright_of(libraries: list[Message], home: Path) -> str:
    """Return the machine-readable copyright file.

    Debian carries the text of the Apache licence; what the libraries say of
    theirs is in their own folders, and the file says where.
    """
    inside = f"{home}/lib/python*/site-packages"
    stanzas = [OUR_COPYRIGHT]
    for about in libraries:
        stem = re.sub(r"[-_.]+", "_", about["Name"]).lower()
        stanzas.append(
            f"Files: {inside}/{stem}*\n"
            f"Copyright: the authors of {about['Name']} {about['Version']}\n"
            f"License: {stem}\n"
            f" {licence(about)}. Its own words are in\n"
            f" /{inside}/{stem}-{about['Version']}.dist-info.\n"
        )
    return "\n".join(stanzas)


def licence(about: Message) -> str:
    """Return a library's licence in a few words."""
    if expression := about["License-Expression"]:
        return str(expression)
    for classifier in about.get_all("Classifier", []):
        if classifier.startswith("License :: "):
            return str(classifier.rpartition(" :: ")[2])
    return "See there"


def control(
    package: Package,
    version: str,
    architecture: str,
    depends: list[str],
    installed_kib: int,
) -> str:
    """Return the control file."""
    description = package.description.replace("\n", "\n ")
    return (
        f"Package: {package.name}\n"
        f"Version: {version}\n"
        f"Architecture: {architecture}\n"
        f"Maintainer: {MAINTAINER}\n"
        f"Installed-Size: {installed_kib}\n"
        f"Depends: {', '.join(depends)}\n"
        "Recommends: ca-certificates\n"
        "Section: admin\n"
        "Priority: optional\n"
        f"Description: {package.summary}\n {description}\n"
    )


def shared_libraries(stage: Path) -> list[Path]:
    """Return the compiled files; with none the package suits any machine."""
    return [path for path in files(stage) if ".so" in path.suffixes]


def library_packages(libraries: list[Path], folder: Path) -> list[str]:
    """Return the packages of the C libraries that the compiled files need."""
    (folder / "debian").mkdir(exist_ok=True)
    (folder / "debian/control").write_text(
        "Source: trimtab\n\nPackage: trimtab\nArchitecture: any\n"
    )
    # What a wheel brings along belongs to no package, and needs to.
    told = said(
        "dpkg-shlibdeps", "-O", "--ignore-missing-info", "--warnings=0",
        *(f"-l{private}" for private in sorted({path.parent for path in libraries
                                                if path.parent.suffix == ".libs"})),
        *(f"-e{path}" for path in libraries),
        cwd=folder,
    )  # fmt: skip
    return told.strip().removeprefix("shlibs:Depends=").split(", ")


def debian_version(version: str) -> str:
    """Return Python's version so that dpkg sorts 1.0rc1 before 1.0."""
    return re.sub(r"\.?(a|b|rc|dev)(?=\d)", r"~\1", version)


def source_date() -> int:
    """Return the time that all files get: given, or that of the last commit."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    if (ROOT / ".git").exists():
        return int(said("git", "-C", ROOT, "log", "-1", "--format=%ct"))
    return int((ROOT / "CHANGELOG.md").stat().st_mtime)


def host_python() -> tuple[int, int]:
    """Return the version of Debian's Python; ends the program if it is too old."""
    code = "import sys; print(*sys.version_info[:2])"
    try:
        major, minor = map(int, said(PYTHON, "-c", code).split())
    except FileNotFoundError:
        sys.exit(f"{PYTHON} is not there: apt-get install python3")
    if (major, minor) < OLDEST_PYTHON:
        sys.exit(f"{PYTHON} is {major}.{minor}, and trimtab needs 3.11: build on a "
                 "newer Debian")  # fmt: skip
    return major, minor


def build_wheel(folder: Path) -> Path:
    """Return trimtab's own wheel."""
    pip("wheel", "--no-deps", "--wheel-dir", folder, ROOT)
    (wheel,) = folder.glob("trimtab-*.whl")
    return wheel


def pip(*arguments: str | Path) -> None:
    """Let this Python's pip work for Debian's Python, which may have none."""
    run(sys.executable, "-m", "pip", "--quiet", "--python", PYTHON, *arguments)


def files(stage: Path) -> Iterator[Path]:
    """Yield the regular files, sorted."""
    for path in sorted(stage.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path


def size_kib(stage: Path) -> int:
    """Return about what the files take on a disk, each in whole KiB."""
    return sum(-(-path.stat().st_size // 1024) for path in files(stage))


def set_modes(stage: Path) -> None:
    """Let commands and scripts be run and everything be read, whatever wheels say."""
    run_by_name = {stage / "usr/bin", stage / "DEBIAN"}
    for path in stage.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    for path in files(stage):
        script = path.parent in run_by_name and path.read_bytes().startswith(b"#!")
        path.chmod(0o755 if script else 0o644)


def put(source: Path, target: Path) -> None:
    """Copy a file, making its folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def run(*command: str | Path) -> None:
    """Run a command; its own words say what went wrong."""
    # Not to stdout: that names the packages, and nothing else.
    subprocess.run(command, check=True, stdout=sys.stderr)


def said(*command: str | Path, cwd: Path | None = None) -> str:
    """Return what a command printed."""
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, cwd=cwd
    )
    return done.stdout


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as exc:
        sys.exit(f"build.py: {exc.cmd[0]} ended with status {exc.returncode}")
