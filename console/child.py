"""A service of ours as a child process that never outlives its parent.

Each child has a process group of its own, so a Ctrl-C reaches the parent
alone, which then ends its children in order; and on Linux the kernel sends
SIGTERM to a child whose parent is gone, however it went (prctl(2),
PR_SET_PDEATHSIG). Elsewhere a parent that is killed leaves its children.
"""

import ctypes
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from signal import SIGTERM, Signals

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_TAIL_LINES, _LINE_CHARACTERS = 8, 500
_TAIL_BYTES = 16_384  # of the log that are looked at for them
# Python needs this long to start on a slow host; before that it has no
# handler, and SIGTERM would cut it short.
_START_S = 2.0
_POLL_S = 0.02


class Child:
    """One child, started; its output goes to a log of this run alone.

    `held` are descriptors that it keeps open as long as it lives.
    """

    def __init__(
        self,
        name: str,
        module_and_arguments: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        held: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.log = log
        self._started_at = time.monotonic()
        log.write_bytes(b"")
        # Appending: were the log cut meanwhile, no gap of NULs would arise.
        with log.open("ab") as out:
            self._process = subprocess.Popen(  # noqa: S603 - our own modules
                [sys.executable, "-m", *module_and_arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                process_group=0,
                pass_fds=held,
                preexec_fn=_tie(os.getpid()) if sys.platform == "linux" else None,
            )

    @property
    def up(self) -> bool:
        """Whether it has said that it serves, which it does once it can stop."""
        return self._logged("started")

    @property
    def status(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def stop(self, deadline: float) -> int:
        """End it and return its status; killed at the deadline (monotonic)."""
        may_start_until = min(self._started_at + _START_S, deadline)
        while (
            self.status is None and not self.up and time.monotonic() < may_start_until
        ):
            time.sleep(_POLL_S)
        # One that another's signal is already ending would be hit by ours after
        # it has taken its handlers down.
        if not self._logged("stopping"):
            self._process.terminate()
        try:
            return self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _logged(self, what: str) -> bool:
        try:
            return f"event={self.name}_{what}".encode() in self.log.read_bytes()
        except FileNotFoundError:  # somebody cleans up; it has to be ended anyhow
            return False

    def tail(self) -> list[str]:
        """Return the last lines of its log, safe to show."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
                return last_lines(log.read())
        except FileNotFoundError:
            return []


def last_lines(content: bytes) -> list[str]:
    """Return the last lines that hold text, with … for what is none."""
    lines = [_readable(line) for line in content.decode(errors="replace").splitlines()]
    return [line for line in lines if line.strip("… ")][-_TAIL_LINES:]


def _readable(line: str) -> str:
    """Return at most so many characters, every run of odd ones as one …."""
    marked = "".join(ch if ch.isprintable() and ch != "\ufffd" else "…" for ch in line)
    shown = re.sub("…+", "…", marked)
    if len(shown) <= _LINE_CHARACTERS:
        return shown
    return shown[:_LINE_CHARACTERS] + "…"


def said(status: int) -> str:
    """Return an exit status in words."""
    if status >= 0:
        return f"ended with {status}"
    return f"was ended by {Signals(-status).name}"


def _tie(parent: int) -> Callable[[], None]:
    """Return what the child does between fork and exec."""
    # Loaded here: between fork and exec the less happens the better.
    prctl = ctypes.CDLL(None).prctl

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, int(SIGTERM))
        if os.getppid() != parent:
            os._exit(1)  # the parent went before it could be watched

    return tie
