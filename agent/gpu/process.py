"""One child process, from its start to its end, without ever waiting on it.

The pipes are non-blocking and watched by the loop; what waits is a generator
that yields until when. A child ends by closed stdin
and SIGTERM, then SIGKILL. SIGTERM first: a GPU has frozen when an exporter was
killed in the middle of a call (dcgm-exporter#84). Spawned, not forked: a forked
NVML is not initialised.
"""

import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress

import msgpack

from ..errors import Malformed
from ..loop import READ, Loop
from .readings import LIMIT_BYTES, Message, parse

READ_BYTES = 65_536
LOOK_S = 0.02  # between two looks at whether it ended
# What the service manager tells the agent is not the child's.
KEPT_BACK = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "CREDENTIALS_DIRECTORY")


class Died(Exception):
    """The child ended, or said nonsense, without being asked to end."""


class Process:
    """A running child. `end` it whatever happens."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        lock: int | None,
        loop: Loop,
        poke: Callable[[], None],
        kill: Callable[[int, int], None] = os.kill,
    ) -> None:
        """Start it, with a copy of the lock's descriptor; OSError if it can't be.

        `poke` is called when it has said something, or ended.
        """
        self._loop = loop
        self._poke = poke
        self._kill = kill
        self._popen = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={k: v for k, v in environment.items() if k not in KEPT_BACK},
            pass_fds=() if lock is None else (lock,),
            bufsize=0,
        )
        if self._popen.stdin is None or self._popen.stdout is None:
            raise AssertionError("asked for pipes")
        self._stdin = self._popen.stdin
        self._stdout = self._popen.stdout
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)
        self._unpacker = msgpack.Unpacker(max_buffer_size=LIMIT_BYTES)
        self._messages: deque[Message] = deque()
        self._fault: Died | None = None
        loop.watch(self._stdout.fileno(), READ, self._readable)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs; reaps it if not."""
        return self._popen.poll() is None

    def tick(self, number: int) -> None:
        """Ask for a sample. A child that is gone shows when it is listened to."""
        with suppress(OSError):
            os.write(self._stdin.fileno(), msgpack.packb(number))

    def message(self, within_s: float) -> Generator[float, None, Message]:
        """Return the next message; Died if none will come, TimeoutError if late."""
        until_s = time.monotonic() + within_s
        while not self._messages:
            if self._fault is not None:
                raise self._fault
            if time.monotonic() >= until_s:
                raise TimeoutError
            yield until_s
        return self._messages.popleft()

    def end(self, grace_s: float, kill_s: float) -> Generator[float, None, bool]:
        """End it in order, then by force; False if neither worked in time."""
        if self._stdout.closed:  # it was ended before
            return not self.alive
        self._loop.ignore(self._stdout.fileno())
        self._stdin.close()
        for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, kill_s)):
            if self.alive:
                with suppress(ProcessLookupError):
                    self._kill(self.pid, number)
            until_s = time.monotonic() + patience_s
            while self.alive and time.monotonic() < until_s:
                yield time.monotonic() + LOOK_S
            if not self.alive:
                break
        self._stdout.close()
        return not self.alive

    def _readable(self) -> None:
        try:
            data = os.read(self._stdout.fileno(), READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._fail("it ended")
            return
        try:
            self._unpacker.feed(data)
            self._messages.extend(parse(array) for array in self._unpacker)
        except (Malformed, ValueError, msgpack.UnpackException) as exc:
            self._fail(str(exc))
        self._poke()

    def _fail(self, why: str) -> None:
        self._loop.ignore(self._stdout.fileno())
        self._fault = Died(why)
        self._poke()

    def status(self) -> str:
        """Return how it ended, for people."""
        code = self._popen.poll()
        if code is None:
            return "still running"
        if code < 0:
            with suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        return f"exit status {code}"
