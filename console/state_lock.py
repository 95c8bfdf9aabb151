"""One run at a time in a state directory: flock(2) on a file there.

The lock belongs to the open file, so children that are handed it hold it too:
a run that was killed keeps its directory until the last child is gone.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NAME = "lock"


class Held(RuntimeError):
    """Another run has the directory; `pid` is its process, None if not known."""

    def __init__(self, pid: int | None) -> None:
        super().__init__("the state directory is held")
        self.pid = pid


@contextmanager
def hold(state: Path) -> Iterator[int]:
    """Hold the directory; yield the descriptor to hand to children.

    Held if another does; OSError where no lock can be had.
    """
    # Not truncated on opening: it may be the other's.
    lock = os.open(state / _NAME, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(lock, 20, 0)
            raise Held(int(text) if text.strip().isdigit() else None) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        yield lock
    finally:
        os.close(lock)
