"""One collector a state folder: two would overwrite each other's fleet."""

import fcntl
import os
from pathlib import Path
from typing import TextIO

FILE = "collector.lock"


class CannotHold(RuntimeError):
    """The folder can't be used; the text says why."""


class AlreadyRuns(CannotHold):
    """Another collector has the folder; the text says which."""


def hold(state_dir: Path) -> TextIO:
    """Return the lock, held until it is closed; AlreadyRuns if another has it."""
    path = state_dir / FILE
    try:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o750)
        lock = path.open("a+")
    except OSError as exc:
        raise CannotHold(
            f"{path}: can't be written: {exc.strerror}. Check who owns the folder, or "
            "name another state_dir"
        ) from exc
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        lock.seek(0)
        pid = lock.read(20).strip() or "unknown"
        lock.close()
        raise AlreadyRuns(
            f"another collector (pid {pid}) runs on {state_dir}: stop it, or give "
            "this one a state_dir of its own"
        ) from exc
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock
