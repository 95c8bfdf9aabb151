"""What `install` and `uninstall` do to a host, as a plan: files and commands.

Functions of what was asked for and what the host has; `installer` looks and
acts. A plan has only what is not yet so: a second one is empty. Where a package
brought the unit, that one is kept, for a copy in /etc would hide its upgrades.

The token's bytes are in a step and in nothing that a step says.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

UNIT = "trimtab-agent.service"
CONFIG = Path("/etc/trimtab/agent.toml")
TOKEN = Path("/etc/credstore/trimtab-agent.token")
OWN_UNIT = Path("/etc/systemd/system") / UNIT
DROP_INS = OWN_UNIT.with_name(f"{UNIT}.d")
PACKAGED_UNITS = (
    Path("/usr/lib/systemd/system") / UNIT,
    Path("/lib/systemd/system") / UNIT,
)
GPU, ICMP, LXCFS = "gpu.conf", "icmp-raw.conf", "lxcfs.conf"
# DynamicUser= keeps the folder in private and a link to it beside.
STATE = (Path("/var/lib/trimtab-agent"), Path("/var/lib/private/trimtab-agent"))
PACKAGED_COMMAND = "/usr/bin/trimtab-agent"
# Every file that an installation may have written or read.
LOOKED_AT = (CONFIG, TOKEN, OWN_UNIT, *(DROP_INS / n for n in (GPU, ICMP, LXCFS)))

EXAMPLE = """\
# trimtab agent. `systemctl reload trimtab-agent` after a change; what there is
# to set, and its defaults, is in docs/settings.md. No secret belongs in here.

# collector = "collector.example:7766"
# name = "node-1"
# mode = "edge"

# interval_s = 1.0
# targets = ["10.0.0.1", "db.example:5432"]   # round trips to these, too
# tls = true
# tls_ca = "/etc/trimtab/ca.pem"              # default: the system's authorities
# site = "amsterdam"
# labels = { rack = "r7" }
"""
SET_IN_FILE = ("collector", "name", "mode")


class Asked(NamedTuple):
    """What the operator asked for; None: not given."""

    collector: str | None = None
    name: str | None = None
    mode: str | None = None
    token: str | None = None
    icmp: bool = False
    start: bool = True


class Found(NamedTuple):
    """What the host has."""

    command: str  # that the unit is to run
    files: Mapping[Path, bytes] = {}  # of LOOKED_AT, those that are there
    packaged: bool = False  # a package brought the unit
    unit_link: str | None = None  # what OWN_UNIT is a link to; None: it is none
    gpu: bool = False
    systemctl: bool = False  # there is one to call
    booted: bool = False  # systemd runs this host
    enabled: bool = False
    active: bool = False
    outdated: bool = False  # systemd has yet to read the unit that is there


class Write(NamedTuple):
    """A file to write whole; folders that lack are made with `folder_mode`."""

    path: Path
    content: bytes
    mode: int = 0o644
    folder_mode: int = 0o755


class Remove(NamedTuple):
    """A file, link or tree to remove, or a folder if it is `empty` by then."""

    path: Path
    empty: bool = False


class Run(NamedTuple):
    """A command to run."""

    argv: tuple[str, ...]


Step = Write | Remove | Run


class Plan(NamedTuple):
    """The steps, in order; what is so already; what is left to the operator."""

    steps: tuple[Step, ...] = ()
    already: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class Refused(ValueError):
    """The plan would do what was not meant; the text says what to do."""


def says(step: Step) -> str:
    """Return a step in words, without the content of a file."""
    match step:
        case Write():
            return f"write {step.path} (mode {step.mode:04o})"
        case Remove():
            return f"remove {step.path}" + (" if empty" if step.empty else "")
        case Run():
            return f"run {' '.join(step.argv)}"


def as_json(plan: Plan, *, dry_run: bool) -> str:
    """Return the plan as one JSON document, without the content of a file."""
    steps: list[dict[str, object]] = []
    for step in plan.steps:
        match step:
            case Write():
                made = {"path": str(step.path), "mode": f"{step.mode:04o}"}
                steps.append({"does": "write", **made})
            case Remove():
                steps.append({"does": "remove", "path": str(step.path)})
            case Run():
                steps.append({"does": "run", "argv": step.argv})
    document = {
        "dry_run": dry_run,
        "changed": bool(plan.steps),
        "steps": steps,
        "already": plan.already,
        "left": plan.left,
    }
    return json.dumps(document, indent=2)


def install(asked: Asked, found: Found, shipped: Mapping[str, str]) -> Plan:
    """Return how to come from what is found to what is asked for.

    `shipped` has the unit and the drop-ins by their names. Refused if the
    config there says otherwise than what was asked: it is the operator's. So is
    a link in the unit's place, which is how systemd masks a service.
    """
    if found.unit_link is not None:
        raise Refused(
            f"{OWN_UNIT} is a link to {found.unit_link}, and is never overwritten: "
            "`systemctl unmask trimtab-agent` undoes a mask (a link to /dev/null); "
            "remove any other link, then install again"
        )
    wanted = list(_wanted(asked, found, shipped))
    writes = [w for w in wanted if found.files.get(w.path) != w.content]
    already = [f"{w.path}" for w in wanted if w not in writes]
    if not any(w.path == CONFIG for w in wanted):
        already.append(f"{CONFIG} (kept)")
    steps: list[Step] = [*writes]
    left: list[str] = []
    units_changed = any(OWN_UNIT.parent in w.path.parents for w in writes)
    if found.booted and (units_changed or found.outdated):
        steps.append(_systemctl("daemon-reload"))
    if not found.systemctl:
        left.append(f"no systemctl here: enable and start {UNIT} where systemd runs")
    elif found.enabled:
        already.append(f"{UNIT} enabled")
    else:
        steps.append(_systemctl("enable", UNIT))
    if found.systemctl:
        _start(asked, found, steps, already, left, changed=bool(writes))
    if asked.token is None and TOKEN not in found.files:
        left.append(
            f"no token at {TOKEN}: a collector that asks for one refuses this node. "
            "`trimtab-collector token create --scope agent` makes it; give it to "
            "`install --token-file -`"
        )
    return Plan(tuple(steps), tuple(already), tuple(left))


def _start(
    asked: Asked,
    found: Found,
    steps: list[Step],
    already: list[str],
    left: list[str],
    *,
    changed: bool,
) -> None:
    verb = "restart" if found.active else "start"
    if found.active and not changed:
        already.append(f"{UNIT} active")
    elif not found.booted:
        left.append(f"systemd does not run here: {UNIT} starts at the next boot")
    elif asked.start:
        steps.append(_systemctl(verb, UNIT))
    else:
        left.append(f"systemctl {verb} {UNIT}")


def _wanted(asked: Asked, found: Found, shipped: Mapping[str, str]) -> Iterator[Write]:
    """Yield each file as it is to be, but a config that is the operator's."""
    if not found.packaged:
        yield Write(OWN_UNIT, unit(shipped[UNIT], found.command).encode())
    config = _config(asked, found.files.get(CONFIG))
    if config is not None:
        yield Write(CONFIG, config)
    said = _said(found.files[CONFIG] if config is None else config)
    if found.gpu and said.get("mode") != "edge" and said.get("gpu") is not False:
        yield Write(DROP_INS / GPU, shipped[GPU].encode())
    if asked.icmp:
        yield Write(DROP_INS / ICMP, shipped[ICMP].encode())
    if asked.token is not None:
        yield Write(TOKEN, f"{asked.token}\n".encode(), 0o600, 0o700)


def unit(shipped: str, command: str) -> str:
    """Return the unit with another command to run."""
    return shipped.replace(f"ExecStart={PACKAGED_COMMAND} ", f"ExecStart={command} ", 1)


def _config(asked: Asked, there: bytes | None) -> bytes | None:
    """Return the config to write, None to keep the one that is there.

    One that sets nothing, as a package brings it, is nobody's yet.
    """
    given = {key: getattr(asked, key) for key in SET_IN_FILE}
    given = {key: value for key, value in given.items() if value is not None}
    if there is None:
        return filled(EXAMPLE, given).encode()
    said = _said(there)
    if given and not said:
        return filled(there.decode(), given).encode()
    for key, value in given.items():
        if said.get(key) != value:
            has = f"{key} = {json.dumps(said[key])}" if key in said else f"no {key}"
            raise Refused(
                f"{CONFIG} has {has}, and --{key} {value} asks for another. The file "
                f"is never overwritten: set it there, or leave out --{key}"
            )
    return None


def filled(config: str, given: Mapping[str, str]) -> str:
    """Return a config that set nothing with these values, and all its comments.

    A value takes the place of the comment that shows its key, or comes last.
    """
    for key, value in given.items():
        line = f"{key} = {json.dumps(value)}"
        shown = re.compile(rf'^#[ \t]*{key} *= *"[^"\n]*"(?=\s*(?:#|$))', re.MULTILINE)
        if match := shown.search(config):
            config = config[: match.start()] + line + config[match.end() :]
        else:
            between = "" if config.endswith("\n") or not config else "\n"
            config = f"{config}{between}{line}\n"
    return config


def _said(config: bytes) -> dict[str, object]:
    try:
        return tomllib.loads(config.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise Refused(f"{CONFIG} is not TOML: {exc}. Mend it first") from exc


def uninstall(found: Found, there: frozenset[Path], *, purge: bool) -> Plan:
    """Return how to take the agent off the host.

    `there`: the paths that exist, of LOOKED_AT, DROP_INS and STATE. Without
    `purge` the config, the token and the node's identity stay.
    """
    steps: list[Step] = []
    left: list[str] = []
    if found.booted and found.active:
        steps.append(_systemctl("stop", UNIT))
    if found.systemctl and found.enabled:
        steps.append(_systemctl("disable", UNIT))
    units = [OWN_UNIT, *(DROP_INS / name for name in (GPU, ICMP, LXCFS))]
    removed = [path for path in units if path in there]
    steps += [Remove(path) for path in removed]
    if DROP_INS in there:
        steps.append(Remove(DROP_INS, empty=not purge))
    if found.booted and (removed or DROP_INS in there):
        steps.append(_systemctl("daemon-reload"))
    kept = [path for path in (CONFIG, TOKEN, *STATE) if path in there]
    if purge:
        steps += [Remove(path) for path in kept]
        if CONFIG in there:
            steps.append(Remove(CONFIG.parent, empty=True))
    else:
        left += [f"{path} is kept; --purge removes it" for path in kept]
    if found.packaged:
        left.append(f"{UNIT} is of a package: remove that with the package manager")
    if steps:
        return Plan(tuple(steps), (), tuple(left))
    return Plan((), ("nothing of trimtab-agent is installed",), tuple(left))


def _systemctl(*arguments: str) -> Run:
    return Run(("systemctl", *arguments))
