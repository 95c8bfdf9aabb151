"""Agents of a test's own: many on one selector, honest about what is stored."""

import selectors
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from trimtab.wire import (
    Ack,
    Cpu,
    Frame,
    Hello,
    Link,
    Memory,
    Message,
    Method,
    Refused,
    Stream,
    Welcome,
    encode,
)

BOOT_MS = 5_000_000


def calm_frame(seq: int, boot_ms: int) -> Frame:
    """Return an idle host's frame."""
    return Frame(
        seq=seq,
        boot_ms=boot_ms,
        cpu=Cpu(0.0, 0.0, 0.0, 0.01),
        memory=Memory(0.0, 0.0, 0.9, 0.0, 0.0, 0.0),
        links=(Link(0, Method.ECHO, 300, 200, 400, 10, None, 0),),
    )


class Sender:
    """One node: sends each frame until it is acknowledged."""

    def __init__(self, number: int, port: int) -> None:
        self.name = f"n{number}"
        self._ident = number.to_bytes(16, "big")
        self._port = port
        self._stream = Stream()
        self._ring: deque[tuple[int, bytes]] = deque()  # not acknowledged
        self.seq = 0
        self.stored = 0
        self.welcomed = False
        self.refused: Refused | None = None
        self.socket: socket.socket | None = None

    def dial(self) -> bool:
        """Connect and say hello; False while nobody listens."""
        self.welcomed, self._stream = False, Stream()
        try:
            self.socket = socket.create_connection(("127.0.0.1", self._port), timeout=5)
            self.socket.sendall(encode(self._hello()))
        except OSError:
            self.drop()
            return False
        self.socket.setblocking(False)
        return True

    def _hello(self) -> Hello:
        return Hello(
            node_id=self._ident,
            boot_id=b"b" * 16,
            name=self.name,
            key=self._ident * 2,
            boot_ms=BOOT_MS + int(time.monotonic() * 1000) % 10**9,
        )

    def sample(self) -> None:
        """Make a frame; send it if there is a conversation."""
        self.seq += 1
        boot_ms = BOOT_MS + int(time.monotonic() * 1000) % 10**9
        data = encode(calm_frame(self.seq, boot_ms))
        self._ring.append((self.seq, data))
        if self.welcomed:
            self._send(data)

    def ready(self) -> None:
        """Take what the collector says."""
        try:
            data = b"" if self.socket is None else self.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.drop()
            return
        for message in self._stream.feed(data):
            self._take(message)

    def _take(self, message: Message) -> None:
        match message:
            case Welcome():
                self._acknowledge(message.stored_seq or 0)
                self.welcomed = True
                self._send(b"".join(data for _, data in self._ring))
            case Ack():
                self._acknowledge(message.seq)
            case Refused():
                self.refused = message
            case _:
                pass

    def _acknowledge(self, seq: int) -> None:
        assert seq >= self.stored, "what was stored is no longer"
        self.stored = seq
        while self._ring and self._ring[0][0] <= seq:
            self._ring.popleft()

    def _send(self, data: bytes) -> None:
        try:
            if self.socket is not None:
                self.socket.sendall(data)
        except OSError:
            self.drop()

    def drop(self) -> None:
        """Let go of the connection."""
        if self.socket is not None:
            self.socket.close()
        self.socket, self.welcomed = None, False


@contextmanager
def sending(count: int, port: int) -> Iterator[list[Sender]]:
    """Yield so many nodes; let go of them at the end."""
    senders = [Sender(number, port) for number in range(1, count + 1)]
    try:
        yield senders
    finally:
        for sender in senders:
            sender.drop()


def turn(senders: list[Sender], timeout_s: float) -> None:
    """Let each sender hear what has come for it, for so long."""
    ends = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        for sender in senders:
            if sender.socket is not None:
                selector.register(sender.socket, selectors.EVENT_READ, sender)
        while (left := ends - time.monotonic()) > 0 and selector.get_map():
            for key, _ in selector.select(left):
                before = key.fileobj
                key.data.ready()
                if key.data.socket is not before:
                    selector.unregister(before)
