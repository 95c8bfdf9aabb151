"""`trimtab-agent install` and `uninstall`: look, plan, act, say each thing done.

With a root other than `/` files are written below it and nothing is started:
an image, or a machine that is off. Its links mean what they mean to this host,
so one that leads out of it is refused, not followed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TextIO

from . import installing
from .gpu.presence import look
from .identity import NoIdentity, read_token
from .installing import Asked, Found, Plan, Remove, Run, Write
from .settings import load

HERE = Path("/")
# What the unit's ProtectHome= and PrivateTmp= hide from the service.
HIDDEN = tuple(HERE / name for name in ("home", "root", "run/user", "tmp", "var/tmp"))


class CannotInstall(RuntimeError):
    """The host can't be changed as asked; the text says why and what to do."""


def install(
    asked: Asked,
    token_file: str | None,
    root: Path,
    out: TextIO,
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Bring the service onto the host below `root`; return the exit status."""
    given = {key: getattr(asked, key) for key in installing.SET_IN_FILE}
    load(None, {}, given)  # BadSettings, before anything is touched

    def planned() -> Plan:
        token = None if token_file is None else _token(token_file)
        runs = command(root, _script(), Path(sys.executable), Path(__file__))
        found = _found(root, runs)
        return installing.install(asked._replace(token=token), found, _shipped())

    return _perform(planned, root, out, dry_run=dry_run, as_json=as_json)


def uninstall(
    root: Path, out: TextIO, *, purge: bool, dry_run: bool, as_json: bool
) -> int:
    """Take the service off the host below `root`; return the exit status."""
    paths = (*installing.LOOKED_AT, installing.DROP_INS, *installing.STATE)

    def planned() -> Plan:
        there = frozenset(path for path in paths if os.path.lexists(_in(root, path)))
        return installing.uninstall(_found(root, ""), there, purge=purge)

    return _perform(planned, root, out, dry_run=dry_run, as_json=as_json)


def _perform(
    planned: Callable[[], Plan],
    root: Path,
    out: TextIO,
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    try:
        if not dry_run:
            _check_rights(root)
        plan = planned()
        for step in plan.steps:
            _check_inside(step, root)
        if as_json:
            print(installing.as_json(plan, dry_run=dry_run), file=out)
        for step in plan.steps:
            if not dry_run:
                _do(step, root)
            if not as_json:
                would = "would " if dry_run else ""
                print(f"{would}{installing.says(step)}", file=out)
    except (CannotInstall, NoIdentity, installing.Refused) as exc:
        print(f"trimtab-agent: {exc}", file=sys.stderr)
        return 2
    except OSError as exc:
        print(f"trimtab-agent: {exc.filename}: {exc.strerror}", file=sys.stderr)
        return 1
    if not as_json:
        _rest(plan, out)
    return 0


def _check_rights(root: Path) -> None:
    if root == HERE and os.geteuid() != 0:
        raise CannotInstall(
            "this changes the host's services: run it as root, with --root DIR "
            "for a folder of your own, or with --dry-run to see what it would do"
        )


def _check_inside(step: installing.Step, root: Path) -> None:
    """CannotInstall if a link on a step's way leads out of the root.

    The last part of the path may be one: it is replaced or removed, not followed.
    """
    # `systemctl enable` and `disable` change what is beside the unit.
    path = installing.OWN_UNIT if isinstance(step, Run) else step.path
    inside = os.path.realpath(root)
    for folder in reversed(path.parents):
        link = _in(root, folder)
        leads_to = Path(os.path.realpath(link))
        if not leads_to.is_relative_to(inside):
            raise CannotInstall(
                f"{link} is a link to {leads_to}, out of {root}: {path} would not be "
                "changed there. Make the link relative, or run this in a chroot of "
                f"{root}. Nothing was changed"
            )


def _rest(plan: Plan, out: TextIO) -> None:
    for what in plan.already:
        print(f"unchanged: {what}", file=out)
    for what in plan.left:
        print(f"left to you: {what}", file=out)
    if not plan.steps:
        print("Nothing to change.", file=out)


# Looking


def _in(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _found(root: Path, command: str) -> Found:
    contents: dict[Path, bytes] = {}
    for path in installing.LOOKED_AT:
        with suppress(FileNotFoundError, NotADirectoryError):
            contents[path] = _in(root, path).read_bytes()
    own_unit = _in(root, installing.OWN_UNIT)
    systemctl = shutil.which("systemctl") is not None
    booted = systemctl and root == HERE and Path("/run/systemd/system").is_dir()
    return Found(
        command=command,
        files=contents,
        packaged=any(_in(root, path).exists() for path in installing.PACKAGED_UNITS),
        unit_link=str(own_unit.readlink()) if own_unit.is_symlink() else None,
        gpu=root == HERE and look(Path("/sys"), Path("/proc"), Path("/dev")).gpu,
        systemctl=systemctl,
        booted=booted,
        enabled=systemctl and _systemctl(root, "is-enabled", "--quiet"),
        active=booted and _systemctl(root, "is-active", "--quiet"),
        outdated=booted and _outdated(),
    )


def _systemctl(root: Path, *question: str) -> bool:
    return _ran(("systemctl", *question, installing.UNIT), root).returncode == 0


def _outdated() -> bool:
    """Whether systemd has yet to read what is on the disk."""
    question = ("show", "--property=NeedDaemonReload", "--value", installing.UNIT)
    return _ran(("systemctl", *question), HERE).stdout.strip() == "yes"


def _ran(argv: tuple[str, ...], root: Path) -> "subprocess.CompletedProcess[str]":
    if root != HERE:
        argv = (argv[0], f"--root={root}", *argv[1:])
    # The plan's own words, and no shell in between.
    return subprocess.run(argv, check=False, capture_output=True, text=True)  # noqa: S603


def _token(source: str) -> str:
    if source == "-":
        return read_token(Path("/dev/stdin"), guarded=True)
    return read_token(Path(source))


def _shipped() -> dict[str, str]:
    """Return the unit and its drop-ins: of the wheel, or of the checkout."""
    folder: Traversable = files(__package__) / "units"
    if not folder.is_dir():
        folder = Path(__file__).resolve().parents[1] / "systemd"
    drop_ins = folder / "drop-ins" / f"{installing.UNIT}.d"
    shipped = [folder / installing.UNIT, *drop_ins.iterdir()]
    return {file.name: file.read_text(encoding="utf-8") for file in shipped}


def command(root: Path, script: Path, *needed: Path) -> str:
    """Return what the unit is to run: this script, or the one of a package.

    CannotInstall if the service could not run it, or read what it needs.
    """
    packaged = Path(installing.PACKAGED_COMMAND)
    if root != HERE or not script.is_file():
        return str(packaged)
    script = script.resolve()
    if packaged.exists() and packaged.resolve() == script:
        return str(packaged)
    for path in (script, *needed):
        if why := unreachable(path.resolve()):
            raise CannotInstall(
                f"{path.resolve()} {why}, so the service could not run it. Install "
                "trimtab where every user may read it, such as a virtual environment "
                "in /opt/trimtab, and call install from there"
            )
    if script.name == "__main__.py":
        return f"{sys.executable} -m {__package__}"
    return str(script)


def _script() -> Path:
    return Path(shutil.which(sys.argv[0]) or sys.argv[0])


def unreachable(path: Path) -> str | None:
    """Return why the service's own user can't get at a path; None if it can."""
    for folder in HIDDEN:
        if path.is_relative_to(folder):
            return f"is in {folder}, which the unit hides"
    for folder in reversed(path.parents):
        if not folder.stat().st_mode & 0o001:
            return f"is in {folder}, which other users may not enter"
    return None if path.stat().st_mode & 0o004 else "is not for other users to read"


# Acting


def _do(step: installing.Step, root: Path) -> None:
    match step:
        case Write():
            _write(_in(root, step.path), step)
        case Remove():
            _remove(_in(root, step.path), empty=step.empty)
        case Run():
            done = _ran(step.argv, root)
            if done.returncode:
                raise CannotInstall(
                    f"`{' '.join(step.argv)}` ended with status {done.returncode}: "
                    f"{done.stderr.strip()}. What was done before it stays"
                )


def _write(path: Path, step: Write) -> None:
    """Write a file whole or not at all, never readable to more than `mode`."""
    _make(path.parent, step.folder_mode)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(step.content)
            os.fchmod(file.fileno(), step.mode)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _make(folder: Path, mode: int) -> None:
    if not folder.is_dir():
        _make(folder.parent, 0o755)
        folder.mkdir()
        folder.chmod(mode)  # whatever the umask


def _remove(path: Path, *, empty: bool) -> None:
    if empty:
        with suppress(OSError):  # something of another's is in it
            path.rmdir()
    elif path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
