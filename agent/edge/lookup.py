"""A name looked up in a child process: the resolver blocks, this loop must not.

The C library's resolver may hang for half a minute where name servers are
away, and a thread is more than this shell wants. A forked child looks up,
writes the addresses into a pipe and ends; one that takes too long is killed.
Numeric addresses need no child.
"""

import os
import signal
import socket
from contextlib import suppress

from ..probes.targets import Address, Target, addresses

LIMIT_BYTES = 4096
DESCRIPTORS = 65_536


class NoAddress(OSError):
    """The name has none, or nobody answered."""


def numeric(target: Target) -> list[Address]:
    """Return the target's addresses if it is one itself; else none."""
    try:
        return addresses(target, socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []


class Lookup:
    """One lookup under way; `fileno` is ready to read when it has ended.

    NoAddress if none can be begun.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._answer = b""
        self._pipe, theirs = os.pipe()
        try:
            self._child = os.fork()
        except OSError as exc:
            os.close(self._pipe)
            os.close(theirs)
            raise NoAddress(f"no process to look it up in: {exc.strerror}") from exc
        if self._child == 0:
            _look_up(target, theirs)
        os.close(theirs)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._pipe

    def read(self) -> list[Address] | None:
        """Return the addresses; None: not yet; NoAddress if there are none."""
        piece = os.read(self._pipe, LIMIT_BYTES)
        self._answer += piece
        if piece and len(self._answer) < LIMIT_BYTES:
            return None
        text = self._answer.decode("utf-8", "replace")
        self.close()
        if text.startswith("!") or not text:
            raise NoAddress(text[1:] or "the resolver ended without an answer")
        found: list[Address] = []
        for literal in text.split():
            found += numeric(Target(literal, self._target.port))
        return found

    def close(self) -> None:
        """End the child, if it still runs, and give the pipe back."""
        if self._pipe < 0:
            return
        os.close(self._pipe)
        self._pipe = -1
        with suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self._child, 0)


def _look_up(target: Target, pipe: int) -> None:
    """Be the child: never returns, never runs the parent's clean-up."""
    try:
        # The parent's sockets: a copy here would keep them open, and awake in
        # the parent's selector, after the parent has closed them.
        os.closerange(3, pipe)
        os.closerange(pipe + 1, DESCRIPTORS)
        try:
            text = " ".join(str(a.sockaddr[0]) for a in addresses(target))
        except (OSError, UnicodeError) as exc:
            text = f"!{exc}"
        os.write(pipe, text.encode()[:LIMIT_BYTES])
    finally:
        os._exit(0)
