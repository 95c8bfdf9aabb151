"""One collector a state folder: two would overwrite each other's fleet."""

import fcntl
import os
from pathlib import Path
from typing import TextIO

FILE = "collector.lock"


class AlreadyRuns(RuntimeError):
    """Another collector has the folder; the text says which."""


def hold(state_dir: Path) -> TextIO:
    """Return the lock, held until it is closed; AlreadyRuns if another has it."""
    path = state_dir / FILE
    lock = path.open("a+")
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
