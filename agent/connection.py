"""The connection to the collector as a state machine over one socket.

Nothing here waits: the loop calls when the descriptor is ready or the deadline
has come. Bytes out go through a buffer that the kernel empties at its pace;
bytes in become messages.
"""

import errno
import os
import socket
import time
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from trimtab.wire import Message, Stream, WireError

from .lookup import Lookup, NoAddress, numeric
from .loop import READ, WRITE, Loop
from .probes.targets import Address, Target, as_bytes
from .trouble import plain

if TYPE_CHECKING:
    import ssl

LOOKUP_S = 10.0
READ_BYTES = 16 * 1024
# Sent and not acknowledged by the peer's kernel for this long: it is gone.
USER_TIMEOUT_MS = 30_000
UNSENT_LIMIT_BYTES = 64 * 1024
# Header, content type and tag of TLS 1.3 (RFC 8446, 5.2).
TLS_RECORD_BYTES = 5 + 1 + 16

TCP_USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", None)


class Lost(Exception):
    """The connection is of no further use; the text says why."""

    def __init__(self, why: str, retry_s: float | None = None) -> None:
        super().__init__(why)
        self.retry_s = retry_s


class Owner(Protocol):
    """Whom a connection calls. Lost, if raised by the first two, ends it."""

    def opened(self) -> None:
        """Take note that messages can be sent."""

    def heard(self, messages: list[Message]) -> None:
        """Take what the peer said; an empty list: there is room to send."""

    def lost(self, lost: Lost) -> None:
        """Take note of its end; it is closed already."""


class Phase(Enum):
    """Where a connection is on its way."""

    LOOKUP = auto()
    CONNECT = auto()
    HANDSHAKE = auto()
    OPEN = auto()


class Connection:
    """One attempt, from the name to its end."""

    def __init__(
        self,
        loop: Loop,
        target: Target,
        tls: "ssl.SSLContext | None",
        owner: Owner,
        *,
        dial_s: float,
    ) -> None:
        """Begin to dial; Lost if not even that can be done."""
        self._loop = loop
        self._target = target
        self._tls = tls
        self._owner = owner
        self._dial_s = dial_s  # for each address, TLS included
        self._stream = Stream()
        self._unsent = bytearray()
        self._reasons: list[str] = []
        self._dialled = ""
        self._lookup: Lookup | None = None
        self._socket: socket.socket | None = None
        self._addresses: list[Address] = []
        self.phase = Phase.LOOKUP
        if found := numeric(target):
            self._begin(found)
            return
        try:
            self._lookup = Lookup(target)
        except OSError as exc:
            raise Lost(f"{target.host}: {exc}") from exc
        loop.watch(self._lookup.fileno(), READ, self._ready)
        loop.at(time.monotonic() + LOOKUP_S, self._late)

    @property
    def open_socket(self) -> socket.socket | None:
        """The connected socket, for TCP_INFO."""
        return self._socket if self.phase is Phase.OPEN else None

    @property
    def unsent(self) -> bool:
        """Whether bytes still wait for the kernel to take them."""
        return bool(self._unsent)

    def hear_from(self, least_bytes: int) -> None:
        """Wake for no less than that, where the kernel can tell (SO_RCVLOWAT)."""
        with suppress(OSError):
            over_tls = TLS_RECORD_BYTES if self._tls is not None else 0
            self._connected().setsockopt(
                socket.SOL_SOCKET, socket.SO_RCVLOWAT, least_bytes + over_tls
            )

    def send(self, data: bytes) -> None:
        """Send as the kernel takes it; Lost if the peer takes nothing."""
        self._unsent += data
        try:
            self._flush()
        except OSError as exc:
            raise Lost(plain(exc)) from exc
        if len(self._unsent) > UNSENT_LIMIT_BYTES:
            raise Lost("the collector takes nothing off the line")

    def close(self) -> None:
        """End it, whatever the phase."""
        self._loop.cancel(self._late)
        if self._lookup is not None:
            self._loop.ignore(self._lookup.fileno())
            self._lookup.close()
            self._lookup = None
        self._hang_up()

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._loop.ignore(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _ready(self) -> None:
        """Go on now that the descriptor is ready."""
        try:
            if self.phase is Phase.OPEN:
                self._owner.heard(self._exchange())
            elif self.phase is Phase.LOOKUP:
                self._looked_up()
            else:
                self._dial_on()
        except Lost as lost:
            self._end(lost)

    def _late(self) -> None:
        """Give up what takes too long."""
        if self.phase is Phase.LOOKUP:
            name = self._target.host
            self._end(Lost(f"no address for {name} within {LOOKUP_S:g} s"))
            return
        try:
            self._next(TimeoutError(f"no connection within {self._dial_s:g} s"))
        except Lost as lost:
            self._end(lost)

    def _end(self, lost: Lost) -> None:
        self.close()
        self._owner.lost(lost)

    def _looked_up(self) -> None:
        if self._lookup is None:
            return
        descriptor = self._lookup.fileno()
        try:
            found = self._lookup.read()
        except NoAddress as exc:
            self._loop.ignore(descriptor)
            self._lookup = None
            raise Lost(f"{self._target.host}: {exc}") from exc
        if found is not None:
            self._loop.ignore(descriptor)
            self._lookup = None
            self._begin(found)

    def _begin(self, found: list[Address]) -> None:
        self._addresses = found
        self._next(None)

    def _next(self, why: OSError | None) -> None:
        """Dial the next address; Lost, with every reason, after the last."""
        self._hang_up()
        if why is not None:
            self._reasons.append(f"{self._dialled}: {plain(why)}")
        if not self._addresses:
            raise Lost("; ".join(self._reasons) or "no address") from why
        address = self._addresses.pop(0)
        self._dialled = str(address.sockaddr[0])
        self.phase = Phase.CONNECT
        self._loop.at(time.monotonic() + self._dial_s, self._late)
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
            self._next(exc)
            return
        if status in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            self._wait_for(WRITE)
        else:
            self._next(OSError(status, os.strerror(status)))

    def _wait_for(self, events: int) -> None:
        self._loop.watch(self._connected().fileno(), events, self._ready)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            raise Lost("the connection is closed")
        return self._socket

    def _dial_on(self) -> None:
        if self.phase is Phase.CONNECT:
            status = self._connected().getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if status:
                self._next(OSError(status, os.strerror(status)))
                return
            if self._tls is None:
                self._open()
                return
        try:
            if self.phase is Phase.CONNECT:
                self._wrap()
            self._shake()
        except OSError as exc:
            self._next(exc)

    def _wrap(self) -> None:
        if self._tls is not None:
            # The wrapped one takes the descriptor over.
            self._socket = self._tls.wrap_socket(
                self._connected(),
                server_hostname=as_bytes(self._target.host),
                do_handshake_on_connect=False,
            )
            self.phase = Phase.HANDSHAKE

    def _shake(self) -> None:
        import ssl

        shaking = self._connected()
        if not isinstance(shaking, ssl.SSLSocket):
            raise Lost("no TLS to shake hands with")
        try:
            shaking.do_handshake()
        except ssl.SSLWantReadError:
            self._wait_for(READ)
        except ssl.SSLWantWriteError:
            self._wait_for(WRITE)
        else:
            self._open()

    def _open(self) -> None:
        self.phase = Phase.OPEN
        self._loop.cancel(self._late)
        self._wait_for(READ)
        self._owner.opened()

    def _exchange(self) -> list[Message]:
        messages: list[Message] = []
        try:
            if self._unsent:
                self._flush()
            while data := self._received():
                messages += self._stream.feed(data)
                if len(data) < READ_BYTES and not self._pending():
                    return messages
        except OSError as exc:
            raise Lost(plain(exc)) from exc
        except WireError as exc:
            raise Lost(f"the collector sent nonsense: {exc}") from exc
        # What arrived before the end may say why it came.
        if data is not None and not messages:
            raise Lost("the collector closed the connection")
        return messages

    def _received(self) -> bytes | None:
        """Return what is there; None: nothing now; empty: the end."""
        try:
            return self._connected().recv(READ_BYTES)
        except OSError as exc:
            if _again(exc):
                return None
            raise

    def _pending(self) -> bool:
        """Whether TLS holds bytes that the selector does not see."""
        pending = getattr(self._socket, "pending", None)
        return pending is not None and pending() > 0

    def _flush(self) -> None:
        if self._socket is None or self.phase is not Phase.OPEN:
            return
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent)
            except OSError as exc:
                if not _again(exc):
                    raise
                break
            del self._unsent[:sent]
        self._wait_for(READ | WRITE if self._unsent else READ)


def _again(exc: OSError) -> bool:
    """Whether it only wants to be called again when the socket is ready."""
    return isinstance(exc, BlockingIOError) or type(exc).__name__ in (
        "SSLWantReadError",
        "SSLWantWriteError",
    )
