"""The connection to the collector as a state machine over one socket.

Nothing here waits: the loop calls `ready` when the descriptor is, and `turn`
now and then for the deadlines. Bytes out go through a buffer that the kernel
empties at its pace; bytes in become messages.
"""

import errno
import os
import selectors
import socket
from enum import Enum, auto
from typing import TYPE_CHECKING

from trimtab.wire import Message, Stream, WireError

from ..probes.targets import Address, Target
from .lookup import Lookup, NoAddress, numeric

if TYPE_CHECKING:
    import ssl

LOOKUP_S = 10.0
CONNECT_S = 10.0  # for each address, TLS included
READ_BYTES = 16 * 1024
# Sent and not acknowledged by the peer's kernel for this long: it is gone.
USER_TIMEOUT_MS = 30_000
UNSENT_LIMIT_BYTES = 64 * 1024

TCP_USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", None)


class Lost(Exception):
    """The connection is of no further use; the text says why."""

    def __init__(self, why: str, retry_s: float | None = None) -> None:
        super().__init__(why)
        self.retry_s = retry_s


class Phase(Enum):
    """Where a connection is on its way."""

    LOOKUP = auto()
    CONNECT = auto()
    HANDSHAKE = auto()
    OPEN = auto()


class Connection:
    """One attempt, from the name to its end. Times are monotonic seconds."""

    def __init__(
        self, target: Target, tls: "ssl.SSLContext | None", now: float
    ) -> None:
        self._target = target
        self._tls = tls
        self._stream = Stream()
        self._unsent = bytearray()
        self._reasons: list[str] = []
        self._dialled = ""
        self._lookup: Lookup | None = None
        self._socket: socket.socket | None = None
        self._addresses: list[Address] = []
        self.wants = selectors.EVENT_READ
        self.sockets = 0  # opened so far: a new one may get an old one's number
        self._deadline = now + LOOKUP_S
        self.phase = Phase.LOOKUP
        if found := numeric(target):
            self._begin(found, now)
        else:
            try:
                self._lookup = Lookup(target)
            except OSError as exc:
                raise Lost(f"{target.host}: {exc}") from exc

    def fileno(self) -> int:
        """Return the descriptor to wait on, which changes with the phase."""
        if self._lookup is not None:
            return self._lookup.fileno()
        return -1 if self._socket is None else self._socket.fileno()

    @property
    def open_socket(self) -> socket.socket | None:
        """The connected socket, for TCP_INFO."""
        return self._socket if self.phase is Phase.OPEN else None

    @property
    def deadline(self) -> float | None:
        """When `turn` has something to do; None: not by itself."""
        return None if self.phase is Phase.OPEN else self._deadline

    def turn(self, now: float) -> None:
        """Give up what takes too long; Lost if nothing is left to try."""
        if self.phase is Phase.OPEN or now < self._deadline:
            return
        if self.phase is Phase.LOOKUP:
            raise Lost(f"no address for {self._target.host} within {LOOKUP_S:g} s")
        self._next(f"no connection within {CONNECT_S:g} s", now)

    def ready(self, now: float) -> list[Message]:
        """Go on now that the descriptor is ready; return whole messages.

        Lost if the connection ended or sent nonsense.
        """
        try:
            if self.phase is Phase.LOOKUP:
                self._looked_up(now)
            elif self.phase is Phase.CONNECT:
                self._connected(now)
            elif self.phase is Phase.HANDSHAKE:
                self._shake(now)
            else:
                return self._exchange()
        except OSError as exc:
            if self.phase is Phase.OPEN:
                raise Lost(exc.strerror or str(exc)) from exc
            self._next(exc.strerror or str(exc), now)
        return []

    def send(self, data: bytes) -> None:
        """Send as the kernel takes it; Lost if the peer takes nothing."""
        self._unsent += data
        try:
            self._flush()
        except OSError as exc:
            raise Lost(exc.strerror or str(exc)) from exc
        if len(self._unsent) > UNSENT_LIMIT_BYTES:
            raise Lost("the collector takes nothing off the line")

    @property
    def unsent(self) -> bool:
        """Whether bytes still wait for the kernel to take them."""
        return bool(self._unsent)

    def close(self) -> None:
        """End it, whatever the phase."""
        if self._lookup is not None:
            self._lookup.close()
            self._lookup = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _looked_up(self, now: float) -> None:
        if self._lookup is None:
            return
        try:
            found = self._lookup.read()
        except NoAddress as exc:
            self._lookup = None
            raise Lost(f"{self._target.host}: {exc}") from exc
        if found is not None:
            self._lookup = None
            self._begin(found, now)

    def _begin(self, found: list[Address], now: float) -> None:
        self._addresses = found
        self._next("no address", now, note=False)

    def _next(self, why: str, now: float, *, note: bool = True) -> None:
        """Dial the next address; Lost, with every reason, after the last."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if note:
            self._reasons.append(f"{self._dialled}: {why}")
        if not self._addresses:
            raise Lost("; ".join(self._reasons) or why)
        address = self._addresses.pop(0)
        self._dialled = str(address.sockaddr[0])
        self._deadline = now + CONNECT_S
        self.phase = Phase.CONNECT
        self.wants = selectors.EVENT_WRITE
        self.sockets += 1
        try:
            self._socket = socket.socket(address.family, socket.SOCK_STREAM)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if TCP_USER_TIMEOUT is not None:
                self._socket.setsockopt(
                    socket.IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS
                )
            status = self._socket.connect_ex(address.sockaddr)
        except OSError as exc:
            self._next(exc.strerror or str(exc), now)
            return
        if status not in (0, errno.EINPROGRESS):
            self._next(os.strerror(status), now)

    def _connected(self, now: float) -> None:
        dialled = self._connected_socket()
        status = dialled.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status:
            self._next(os.strerror(status), now)
        elif self._tls is None:
            self._open()
        else:
            self._socket = self._tls.wrap_socket(
                dialled,
                server_hostname=self._target.host,
                do_handshake_on_connect=False,
            )
            self.phase = Phase.HANDSHAKE
            self._shake(now)

    def _shake(self, now: float) -> None:
        import ssl

        shaking = self._connected_socket()
        if not isinstance(shaking, ssl.SSLSocket):
            raise Lost("no TLS to shake hands with")
        try:
            shaking.do_handshake()
        except ssl.SSLWantReadError:
            self.wants = selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            self.wants = selectors.EVENT_WRITE
        except ssl.SSLError as exc:
            self._next(f"TLS: {exc.reason or exc}", now)
        else:
            self._open()

    def _connected_socket(self) -> socket.socket:
        if self._socket is None:
            raise Lost("the connection is closed")
        return self._socket

    def _open(self) -> None:
        self.phase = Phase.OPEN
        self.wants = selectors.EVENT_READ

    def _exchange(self) -> list[Message]:
        self._flush()
        messages: list[Message] = []
        while True:
            data = self._received()
            if data is None:
                return messages
            if not data:
                # What arrived before the end may say why it came.
                if messages:
                    return messages
                raise Lost("the collector closed the connection")
            try:
                messages += self._stream.feed(data)
            except WireError as exc:
                raise Lost(f"the collector sent nonsense: {exc}") from exc

    def _received(self) -> bytes | None:
        """Return what is there; None: nothing now; empty: the end."""
        try:
            return self._connected_socket().recv(READ_BYTES)
        except BlockingIOError:
            return None
        except OSError as exc:
            if _again(exc):
                return None
            raise

    def _flush(self) -> None:
        if self._socket is None or self.phase is not Phase.OPEN:
            return
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent)
            except BlockingIOError:
                break
            except OSError as exc:
                if not _again(exc):
                    raise
                break
            del self._unsent[:sent]
        write = selectors.EVENT_WRITE if self._unsent else 0
        self.wants = selectors.EVENT_READ | write


def _again(exc: OSError) -> bool:
    """Whether TLS only wants to be called again when the socket is ready."""
    return type(exc).__name__ in ("SSLWantReadError", "SSLWantWriteError")
