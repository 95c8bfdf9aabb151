"""`trimtab-agent pause-gpu`: let go of NVML so that a GPU can be reset.

An open handle blocks a reset. There is no command channel: the command leaves
a file in the agent's state directory, which the agent looks for once a second,
and which says until when (Unix time; empty: until it is removed), so that a
forgotten pause ends. Whether the agent has let go is told by the kernel: each
child holds a shared lock on a second file for as long as it lives, and the
command waits for an exclusive one. The agent takes that lock before it looks
for the first file, so no child starts unseen behind a pause.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TextIO

from ..paths import StrPath

PAUSE = "gpu-paused"
LOCK = "gpu-lock"
FOR_S = 1800.0
# A child that hangs is killed after the tick's deadline and two graces.
WAIT_S = 15.0
POLL_S = 0.1


class Pause(NamedTuple):
    """A pause that an operator asked for."""

    left_s: float | None  # None: until the file is removed


def asked(state_dir: StrPath, unix_s: float) -> Pause | None:
    """Return the pause asked for at this time; None if there is none.

    A file that holds no number counts as one without an end: whoever made it
    by hand meant it.
    """
    try:
        text = Path(state_dir, PAUSE).read_text("ascii").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        return Pause(None)
    try:
        left_s = float(text) - unix_s
    except ValueError:
        return Pause(None)
    return Pause(left_s) if left_s > 0 else None


def hold(state_dir: StrPath) -> int | None:
    """Return a descriptor that keeps the shared lock until its last copy closes.

    None if the command holds it just now. OSError if there can be no such file.
    """
    lock = os.open(Path(state_dir, LOCK), os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except BaseException:
        os.close(lock)
        raise
    return lock


def command(
    state_dir: StrPath,
    out: TextIO,
    *,
    for_s: float = FOR_S,
    resume: bool = False,
    wait_s: float = WAIT_S,
) -> int:
    """Pause or resume; return the exit status.

    0: done, and with a pause no child of the agent holds NVML any more.
    1: the pause stands, but a child still holds on. 2: nothing could be asked.
    """
    path = Path(state_dir, PAUSE)
    try:
        if resume:
            path.unlink(missing_ok=True)
            print("resumed: the agent opens NVML again within seconds", file=out)
            return 0
        _write(path, f"{time.time() + for_s:.0f}\n")
        released = _released(state_dir, wait_s)
    except OSError as exc:
        print(
            f"{path}: {exc.strerror}. Run this as root or as the agent's user, "
            "with the state directory of the running agent (--state-dir)",
            file=out,
        )
        return 2
    if not released:
        print(
            f"paused, but after {wait_s:g} s the agent's NVML child still runs: "
            "it may be stuck in the driver; a reset needs the driver reloaded "
            "or the host rebooted",
            file=out,
        )
        return 1
    print(
        f"paused for {for_s / 60:g} minutes: the agent holds no GPU; "
        "`trimtab-agent pause-gpu --resume` ends it",
        file=out,
    )
    return 0


def _write(path: Path, text: str) -> None:
    # Whole or not at all: half a number would be another time.
    draft = path.with_suffix(".new")
    draft.write_text(text)
    draft.chmod(0o644)  # read by the agent's user, whoever the operator is
    draft.replace(path)


def _released(state_dir: StrPath, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    with _lock(state_dir) as lock:
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)


@contextmanager
def _lock(state_dir: StrPath) -> Iterator[int]:
    lock = os.open(Path(state_dir, LOCK), os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        yield lock
    finally:
        os.close(lock)
