"""SIGHUP: the settings read again, and what of them a running agent takes up.

A file with a problem changes nothing. What the agent was built around (its
mode, the trees it reads, its identity, the GPU's process) stays until a
restart, and the log says so. systemd doesn't read credentials again either, so
a new token takes a restart as well.
"""

import time
from typing import TYPE_CHECKING, NamedTuple

from .notify import Manager
from .settings import BadSettings, Settings
from .starting import CannotRun, Start, tls_context

if TYPE_CHECKING:
    import ssl

FIXED = (
    "mode",
    "state_dir",
    "token_file",
    "procfs",
    "sysfs",
    "backend",
    "cgroup",
    "gpu",
    "gpu_gpm",
    "gpu_init_deadline_s",
    "gpu_tick_deadline_s",
)
UPLINK = ("collector", "tls", "tls_ca")  # a change takes a new connection


class Merged(NamedTuple):
    """What to run on, and how it differs from before."""

    settings: Settings
    changed: tuple[str, ...]  # taken up
    fixed: tuple[str, ...]  # wanted, but only after a restart


def merge(running: Settings, wanted: Settings) -> Merged:
    """Return the wanted settings as far as a running agent can have them."""
    differing = [
        key for key in Settings._fields if getattr(running, key) != getattr(wanted, key)
    ]
    kept = {key: getattr(running, key) for key in FIXED}
    return Merged(
        settings=wanted._replace(**kept),
        changed=tuple(key for key in differing if key not in FIXED),
        fixed=tuple(key for key in differing if key in FIXED),
    )


def reload(start: Start, manager: Manager) -> Start | None:
    """Return what to run on from now on; None to go on as before.

    Why is in the log, and the manager hears of the beginning and the end.
    """
    now_us = time.monotonic_ns() // 1000
    manager.tell(f"RELOADING=1\nMONOTONIC_USEC={now_us}")
    renewed = None if start.again is None else _renewed(start)
    manager.tell("READY=1")
    return renewed


def _renewed(start: Start) -> Start | None:
    if start.again is None:
        return None
    try:
        merged = merge(start.settings, start.again())
        tls = tls_context(merged.settings)
    except (BadSettings, CannotRun) as exc:
        problems = exc.problems if isinstance(exc, BadSettings) else [str(exc)]
        for problem in problems:
            start.log.error("settings_not_reloaded", problem=problem)
        return None
    start.log.configure(merged.settings.log_format, merged.settings.log_level)
    for key in merged.fixed:
        start.log.warning("restart_needed", setting=key)
    start.log.info("settings_reloaded", changed=",".join(merged.changed) or "nothing")
    return start._replace(settings=merged.settings, tls=tls)


def moved(before: Start, after: Start) -> bool:
    """Whether the connection to the collector has to be made anew."""
    return any(
        getattr(before.settings, key) != getattr(after.settings, key) for key in UPLINK
    ) or _trusted(before.tls) != _trusted(after.tls)


def _trusted(tls: "ssl.SSLContext | None") -> list[bytes] | None:
    """Return the authorities: a file of the same name may hold others."""
    return None if tls is None else tls.get_ca_certs(binary_form=True)
