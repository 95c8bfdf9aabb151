"""The agent's settings: agent.toml, TRIMTAB_… over it, flags over both.

Every problem is reported at once, each with its key, the value that arrived
and what is allowed. In the environment lists and tables are JSON.
"""

import json
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from trimtab.wire import NODE_NAME, Inventory

from .emit import LEVELS
from .paths import StrPath, exists
from .probes.targets import parse_target

PREFIX = "TRIMTAB_"
ROOTS_STATE_DIR = "/var/lib/trimtab"
DEFAULT_CONFIG = "/etc/trimtab/agent.toml"


class BadSettings(ValueError):
    """Settings that can't be used; `problems` has a line for each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Address(tuple[str, int]):
    """Host and port; the text form brackets IPv6."""

    __slots__ = ()

    def __str__(self) -> str:
        host, port = self
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Collectors(tuple[Address, ...]):
    """Where frames may go, in order; at least one."""

    __slots__ = ()

    def __str__(self) -> str:
        return ", ".join(str(address) for address in self)


LOCAL_COLLECTOR = Collectors((Address(("127.0.0.1", 7766)),))


class Settings(NamedTuple):
    """What an operator may set. Durations are seconds."""

    collector: Collectors = LOCAL_COLLECTOR
    name: str | None = None  # None: the host's name
    interval_s: float = 1.0
    mode: str = "standard"
    calm_interval_s: float = 5.0  # edge: between samples while nothing moves
    heartbeat_s: float = 30.0  # edge: the longest silence
    state_dir: StrPath = ROOTS_STATE_DIR  # but see default_state_dir
    token_file: StrPath | None = None  # None: systemd's credential "token", if any
    tls: bool = False
    tls_ca: StrPath | None = None  # None: the system's authorities
    procfs: StrPath = "/proc"
    sysfs: StrPath = "/sys"
    backend: str = "auto"  # procfs on Linux, psutil elsewhere
    cgroup: str | None = None  # None: of this host's first process
    gpu: bool = True
    gpu_gpm: bool = True
    gpu_init_deadline_s: float = 30.0
    gpu_tick_deadline_s: float = 5.0
    targets: tuple[str, ...] = ()
    accept_peers: bool = True
    ring_kib: int = 1024
    log_format: str = "logfmt"
    log_level: str = "info"
    # The inventory that no probe can find out.
    address: str | None = None
    site: str | None = None
    zone: str | None = None
    operator: str | None = None
    ephemeral: bool = False
    groups: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    holds: tuple[str, ...] = ()
    resources: Mapping[str, int] = {}
    price: float | None = None
    slots: int | None = None
    speed: float | None = None

    def inventory(self) -> Inventory:
        """Return what the operator said of this node."""
        said = {name: getattr(self, name) for name in _INVENTORY}
        return Inventory(**said)


_INVENTORY = (
    "address",
    "site",
    "zone",
    "operator",
    "ephemeral",
    "groups",
    "labels",
    "holds",
    "resources",
    "price",
    "slots",
    "speed",
)


def default_state_dir(environment: Mapping[str, str]) -> str:
    """Return where state goes: systemd's folder, root's, or the user's own."""
    if given := environment.get("STATE_DIRECTORY"):
        return given.split(":")[0]
    if getattr(os, "geteuid", lambda: -1)() == 0:  # Windows has no such thing
        return ROOTS_STATE_DIR
    if state_home := environment.get("XDG_STATE_HOME"):
        return os.path.join(state_home, "trimtab")
    home = os.path.expanduser("~")
    if home == "~":  # a user without a home
        return ROOTS_STATE_DIR
    return os.path.join(home, ".local/state/trimtab")


def default_config() -> str | None:
    """Return the default file, where it exists and may be seen."""
    try:
        return DEFAULT_CONFIG if exists(DEFAULT_CONFIG) else None
    except OSError:
        return None


def load(
    path: StrPath | None,
    environment: Mapping[str, str],
    flags: Mapping[str, object],
) -> Settings:
    """Return the settings of all three sources; BadSettings if any is wrong.

    A flag of None was not given. The default file may be absent, a named one
    may not.
    """
    problems: list[str] = []
    values: dict[str, Any] = {}
    for key, value in _file(path, problems).items():
        _take(values, key, value, str(path), problems)
    for name, text in environment.items():
        key = name.removeprefix(PREFIX).lower()
        if name.startswith(PREFIX) and key in _PARSERS:
            _take(values, key, _from_text(key, text), name, problems)
    for key, value in flags.items():
        if value is not None:
            _take(values, key, value, f"--{key}", problems)
    if problems:
        raise BadSettings(problems)
    values.setdefault("state_dir", default_state_dir(environment))
    return Settings(**values)


def _file(path: StrPath | None, problems: list[str]) -> dict[str, object]:
    if path is None:
        return {}
    import tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as exc:
        problems.append(f"{path}: can't be read: {exc.strerror}")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        problems.append(f"{path}: is not TOML: {exc}")
    return {}


def _take(
    values: dict[str, Any], key: str, value: object, source: str, problems: list[str]
) -> None:
    parser = _PARSERS.get(key)
    if parser is None:
        import difflib

        near = difflib.get_close_matches(key, _PARSERS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        problems.append(f"{source}: {key}: no such setting{hint}")
        return
    try:
        values[key] = parser(value)
    except ValueError as exc:
        problems.append(f"{source}: {key} = {value!r}: expected {exc}")


def _from_text(key: str, text: str) -> object:
    if _PARSERS[key] in _TEXT_PARSERS:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def parse_address(value: object) -> Address:
    """Return HOST:PORT as an address; ValueError says what was expected."""
    expected = "HOST:PORT, such as 10.0.0.5:7766 or [2001:db8::5]:7766"
    if not isinstance(value, str):
        raise ValueError(expected)  # noqa: TRY004
    host, colon, port = value.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if not (colon and host and port.isascii() and port.isdigit()):
        raise ValueError(expected)
    if (":" in host) != bracketed or set(host) & set("[] /"):
        raise ValueError(expected)
    if not 0 < int(port) <= 65_535:
        raise ValueError(expected)
    return Address((host, int(port)))


def parse_collectors(value: object) -> Collectors:
    """Return one HOST:PORT or a list of them; ValueError says what was wrong."""
    if not isinstance(value, list | tuple):
        return Collectors((parse_address(value),))
    if not 0 < len(value) <= 16:
        raise ValueError("1 to 16 of HOST:PORT")
    return Collectors(parse_address(item) for item in value)


def _text(value: object) -> str:
    if not (isinstance(value, str) and 0 < len(value) <= 255 and value.isprintable()):
        raise ValueError("printable text of 1 to 255 characters")
    return value


def _name(value: object) -> str:
    if not (isinstance(value, str) and NODE_NAME.fullmatch(value)):
        raise ValueError("1 to 63 letters, digits, '.', '_' or '-'")
    return value


def _path(value: object) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not (isinstance(value, str) and value and "\0" not in value):
        raise ValueError("a path")
    return value


def _cgroup(value: object) -> str:
    text = _text(value)
    if not text.startswith("/") or ".." in text.split("/"):
        raise ValueError("a path as in /proc/PID/cgroup, such as /kubepods/pod7")
    return text


def _tree(value: object) -> str:
    path = _path(value)
    if not os.path.isdir(path):
        raise ValueError("a folder that exists, such as a mounted /proc or /sys")
    return path


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")  # noqa: TRY004
    return value


def _number(least: float, most: float) -> Callable[[object], float]:
    def parse(value: object) -> float:
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if not (good and math.isfinite(value) and least <= value <= most):  # type: ignore[arg-type,operator]
            raise ValueError(f"a number {least:g} to {most:g}")
        return float(value)  # type: ignore[arg-type]

    return parse


def _integer(least: int, most: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"an integer {least} to {most}")
        return value

    return parse


def _choice(*allowed: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if value not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return str(value)

    return parse


def _texts(most: int) -> Callable[[object], tuple[str, ...]]:
    def parse(value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or len(value) > most:
            raise ValueError(f"a list of at most {most} texts")
        return tuple(_text(item) for item in value)

    return parse


def _targets(value: object) -> tuple[str, ...]:
    texts = _texts(64)(value)
    for text in texts:
        try:
            parse_target(text)
        except ValueError as exc:
            raise ValueError(
                f"targets: {exc}".removeprefix("targets: expected ")
            ) from exc
    return texts


def _table(parse_value: Callable[[object], Any]) -> Callable[[object], dict[str, Any]]:
    def parse(value: object) -> dict[str, Any]:
        if not isinstance(value, dict) or len(value) > 64:
            raise ValueError("a table of at most 64 entries")
        return {_text(key): parse_value(item) for key, item in value.items()}

    return parse


_log_format = _choice("logfmt", "json")
_log_level = _choice(*LEVELS)
_backend = _choice("auto", "procfs", "psutil")
_mode = _choice("standard", "edge")
_TEXT_PARSERS = {
    _backend,
    _cgroup,
    _mode,
    _text,
    _name,
    _path,
    _tree,
    _log_format,
    _log_level,
}
_PARSERS: dict[str, Callable[[Any], Any]] = {
    "collector": parse_collectors,
    "name": _name,
    "interval_s": _number(0.05, 3600),
    "mode": _mode,
    "calm_interval_s": _number(0.05, 3600),
    "heartbeat_s": _number(1, 3600),
    "state_dir": _path,
    "token_file": _path,
    "tls": _flag,
    "tls_ca": _path,
    "procfs": _tree,
    "sysfs": _tree,
    "backend": _backend,
    "cgroup": _cgroup,
    "gpu": _flag,
    "gpu_gpm": _flag,
    "gpu_init_deadline_s": _number(1, 600),
    "gpu_tick_deadline_s": _number(0.5, 60),
    "targets": _targets,
    "accept_peers": _flag,
    "ring_kib": _integer(16, 1_048_576),
    "log_format": _log_format,
    "log_level": _log_level,
    "address": _text,
    "site": _text,
    "zone": _text,
    "operator": _text,
    "ephemeral": _flag,
    "groups": _texts(64),
    "labels": _table(_text),
    "holds": _texts(256),
    "resources": _table(_integer(0, 2**32 - 1)),
    "price": _number(0, 1e9),
    "slots": _integer(0, 65_535),
    "speed": _number(0.001, 1e6),
}

if set(_PARSERS) != set(Settings._fields):
    raise AssertionError("every setting has a parser, and the other way round")
