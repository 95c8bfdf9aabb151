"""Port 7766: many agents, each a long TCP connection.

The protocol object is the shell around a Session: bytes in, answers out,
deadlines for a hello and for a message that never ends. A newer connection
of the same node replaces the older one, whose peer may be long gone.
"""

import asyncio
import math
from typing import cast

import structlog

from trimtab.wire import Ack, Bye, Farewell, Message, Reason, Refused, encode

from .session import Intake, Rejected, Session

log = structlog.get_logger()

HELLO_DEADLINE_S = 10.0
MESSAGE_DEADLINE_S = 10.0
# Connections that have not said hello: an unfinished hostile message can hold
# a few MiB until its deadline.
MOST_STRANGERS = 500
# A peer that takes nothing off its end is cut when this much waits for it.
UNSENT_LIMIT_BYTES = 64 * 1024


class Ingest:
    """Every open connection, and which node speaks on which."""

    def __init__(self, intake: Intake, max_connections: int) -> None:
        self.intake = intake
        self.max_connections = max_connections
        self.connections: set[Connection] = set()
        self.speaking: dict[int, Connection] = {}  # by row

    def connection(self) -> "Connection":
        """Return the protocol of a new connection."""
        return Connection(self)

    def acknowledge(self, stored: dict[int, int]) -> None:
        """Tell each connected node up to where its frames are stored."""
        for row, seq in stored.items():
            speaker = self.speaking.get(row)
            if speaker is not None:
                speaker.send(Ack(seq))

    def sweep(self, now: float) -> None:
        """End conversations that are past a deadline."""
        for connection in list(self.connections):
            connection.check(now)

    def stop(self) -> None:
        """Say bye to everyone and close."""
        for connection in list(self.connections):
            connection.send(Bye(Farewell.RESTART))
            connection.close()


class Connection(asyncio.Protocol):
    """One agent's TCP connection."""

    def __init__(self, ingest: Ingest) -> None:
        self._ingest = ingest
        self._session = Session(ingest.intake)
        self._transport: asyncio.Transport | None = None
        self.peer = "?"
        self._deadline_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock for the hello."""
        # uvloop's transports are no subclass of asyncio's, only of their kind.
        stream = cast(asyncio.Transport, transport)
        self._transport = stream
        self.peer = str(stream.get_extra_info("peername"))
        stream.set_write_buffer_limits(high=UNSENT_LIMIT_BYTES)
        self._deadline_s = self._ingest.intake.clock.monotonic() + HELLO_DEADLINE_S
        self._ingest.intake.counts.connections += 1
        ingest = self._ingest
        strangers = len(ingest.connections) - len(ingest.speaking)
        if (
            len(ingest.connections) >= ingest.max_connections
            or strangers >= MOST_STRANGERS
        ):
            ingest.intake.counts.refused[Reason.LIMIT] += 1
            self._refuse(
                Refused(Reason.LIMIT, "this collector's connections are all in use", 30)
            )
            return
        ingest.connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Answer what is whole; close on the first message that is wrong."""
        if self._transport is None or self._transport.is_closing():
            return
        row_before, whole_before = self._session.row, self._session.whole_bytes
        try:
            answers = self._session.feed(data)
        except Rejected as rejected:
            self._refuse(rejected.refused)
            return
        for answer in answers:
            self.send(answer)
        row = self._session.row
        if row is not None and row_before is None:
            self._take_over(row)
        if row is not None:
            self._set_message_deadline(ended=self._session.whole_bytes > whole_before)
        if self._session.ended:
            self.close()

    def _set_message_deadline(self, *, ended: bool) -> None:
        # Drops of the same message don't move its deadline.
        if self._session.partial_bytes == 0:
            self._deadline_s = math.inf
        elif ended or self._deadline_s == math.inf:
            now = self._ingest.intake.clock.monotonic()
            self._deadline_s = now + MESSAGE_DEADLINE_S

    def _take_over(self, row: int) -> None:
        older = self._ingest.speaking.get(row)
        self._ingest.speaking[row] = self
        node = self._ingest.intake.fleet.nodes[row]
        log.info("agent_connected", node=node.name, peer=self.peer)
        if older is not None and older is not self:
            log.info("connection_replaced", node=node.name, peer=older.peer)
            older.close()

    def pause_writing(self) -> None:
        """Cut a peer that does not read, without waiting for it to."""
        log.warning("connection_cut", peer=self.peer, text="it reads no answers")
        if self._transport is not None:
            self._transport.abort()

    def check(self, now: float) -> None:
        """Refuse when a deadline has passed."""
        if now > self._deadline_s:
            waited = "hello" if self._session.row is None else "the rest of a message"
            self._ingest.intake.counts.refused[Reason.LIMIT] += 1
            self._refuse(Refused(Reason.LIMIT, f"waited too long for {waited}"))

    def send(self, message: Message) -> None:
        """Send, if there still is someone to send to."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode(message))

    def _refuse(self, refused: Refused) -> None:
        log.warning(
            "connection_refused",
            peer=self.peer,
            reason=refused.reason.name.lower(),
            text=refused.text,
        )
        self.send(refused)
        self.close()

    def close(self) -> None:
        """Close once what was sent has left."""
        if self._transport is not None:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection; the node's silence is judged by the tick."""
        self._ingest.connections.discard(self)
        row = self._session.row
        if row is not None and self._ingest.speaking.get(row) is self:
            del self._ingest.speaking[row]
            log.info(
                "agent_disconnected",
                node=self._ingest.intake.fleet.nodes[row].name,
                peer=self.peer,
                error=None if exc is None else str(exc),
            )
