"""A name looked up in a child process: the resolver blocks, this loop must not.

The C library's resolver may hang for half a minute where name servers are
away, and a thread is more than the agent wants. A forked child looks up,
writes the addresses into a socket and ends; one that takes too long is killed.
Numeric addresses need no child. Where processes can't be forked (Windows) the
lookup blocks.
"""

import os
import signal
import socket
from contextlib import suppress

from .probes.targets import Address, Target, addresses
from .trouble import plain

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
        self._child: int | None = None
        self._ours, theirs = socket.socketpair()
        try:
            if not hasattr(os, "fork"):
                theirs.sendall(_found(target))
                return
            self._child = os.fork()
            if self._child == 0:
                _look_up(target, theirs.fileno())
        except OSError as exc:
            self._ours.close()
            raise NoAddress(f"no process to look it up in: {exc.strerror}") from exc
        finally:
            theirs.close()

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._ours.fileno()

    def read(self) -> list[Address] | None:
        """Return the addresses; None: not yet; NoAddress if there are none."""
        piece = self._ours.recv(LIMIT_BYTES)
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
        """End the child, if it still runs, and give the socket back."""
        self._ours.close()
        if self._child is None:
            return
        child, self._child = self._child, None
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


def _found(target: Target) -> bytes:
    try:
        text = " ".join(str(a.sockaddr[0]) for a in addresses(target))
    except (OSError, UnicodeError) as exc:
        text = f"!{plain(exc)}"
    return text.encode()[:LIMIT_BYTES]


def _look_up(target: Target, out: int) -> None:
    """Be the child: never returns, never runs the parent's clean-up."""
    try:
        # The parent's sockets: a copy here would keep them open, and awake in
        # the parent's selector, after the parent has closed them.
        os.closerange(3, out)
        os.closerange(out + 1, DESCRIPTORS)
        os.write(out, _found(target))
    finally:
        os._exit(0)
