"""What the agent waits on: descriptors, deadlines and signals, in one selector.

No thread and no second process is needed to wait. Everything that runs is a
call from here, so a call must not block; work that takes several waits is a
generator (`Task`). Times are a monotonic clock's, in seconds.
"""

import selectors
import signal
import socket
import time
from collections.abc import Callable, Generator
from contextlib import suppress

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE
NEVER = float("inf")

Call = Callable[[], None]
# Yields until when it waits; it goes on then, or sooner when poked.
Work = Generator[float, None, None]


class Loop:
    """One selector and what it calls."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._calls: dict[int, tuple[int, Call]] = {}  # by descriptor
        self._due: dict[Call, float] = {}
        self._signalled: list[Call] = []
        self._wakers: tuple[socket.socket, ...] = ()
        self.woke_s = time.monotonic()  # when the wait before these calls ended

    def watch(self, descriptor: int, events: int, call: Call) -> None:
        """Call when the descriptor is ready, from now on until `ignore`."""
        wanted = (events, call)
        before = self._calls.get(descriptor)
        if before == wanted:
            return
        self._calls[descriptor] = wanted
        if before is None:
            self._selector.register(descriptor, events, call)
        else:
            self._selector.modify(descriptor, events, call)

    def ignore(self, descriptor: int) -> None:
        """Watch it no more. To be called before it is closed."""
        if self._calls.pop(descriptor, None) is not None:
            self._selector.unregister(descriptor)

    def at(self, due_s: float, call: Call) -> None:
        """Call once at that time; an earlier wish of the same call is forgotten."""
        self._due[call] = due_s

    def cancel(self, call: Call) -> None:
        """Forget a call that `at` was asked for, if there is one."""
        self._due.pop(call, None)

    def on_signal(self, number: int, call: Call) -> None:
        """Call after this signal, outside of whatever it interrupted."""
        if not self._wakers:
            ours, theirs = self._wakers = socket.socketpair()
            ours.setblocking(False)
            theirs.setblocking(False)
            signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
            self.watch(ours.fileno(), READ, self._woken)
        signal.signal(number, lambda *_: self._signalled.append(call))

    def _woken(self) -> None:
        with suppress(BlockingIOError):
            self._wakers[0].recv(64)
        while self._signalled:
            self._signalled.pop(0)()

    def turn(self, until_s: float = NEVER) -> None:
        """Wait for what is due or ready, at most until then, and call it."""
        due_s = min(until_s, min(self._due.values(), default=NEVER))
        wait_s = None if due_s == NEVER else max(0.0, due_s - time.monotonic())
        ready = self._selector.select(wait_s)
        self.woke_s = time.monotonic()
        for key, _ in ready:
            # Those before it may have closed it, and opened another.
            watched = self._calls.get(key.fd)
            if watched is not None and watched[1] is key.data:
                key.data()
        now_s = time.monotonic()
        for call in [call for call, due_s in self._due.items() if due_s <= now_s]:
            if self._due.get(call, NEVER) <= now_s:
                del self._due[call]
                call()

    def close(self) -> None:
        """Give the selector back. Signals stay with their last call."""
        if self._wakers:
            signal.set_wakeup_fd(-1)
            for each in self._wakers:
                each.close()
        self._selector.close()


class Ended(BaseException):
    """Raised where a task waits, for it to tidy up and end."""


class Task:
    """A generator that the loop goes on with when its wait is over."""

    def __init__(self, loop: Loop, work: Work) -> None:
        self._loop = loop
        self._work = work
        self._then: Call | None = None
        self.ended = False
        loop.at(0.0, self._go_on)

    def poke(self) -> None:
        """Go on in this turn of the loop or the next, however long it would wait."""
        if not self.ended:
            self._loop.at(0.0, self._go_on)

    def end(self, then: Call) -> None:
        """Raise Ended where it waits; call when it has tidied up, too."""
        self._then = then
        self._step(lambda: self._work.throw(Ended()))

    def _go_on(self) -> None:
        self._step(lambda: self._work.send(None))

    def _step(self, step: Callable[[], float]) -> None:
        try:
            until_s = step()
        except (StopIteration, Ended):
            self.ended = True
            self._loop.cancel(self._go_on)
            if self._then is not None:
                self._then()
        else:
            self._loop.at(until_s, self._go_on)
