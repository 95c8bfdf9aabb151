"""Port 7766: many agents, each a long TCP connection.

The protocol object is the shell around a Session: bytes in, answers out,
deadlines for a hello and for a message that never ends. A newer connection
of the same node replaces the older one, whose peer may be long gone.
"""

import asyncio
import math
from typing import NamedTuple, cast

import structlog

from trimtab.wire import Ack, Bye, Echo, Farewell, Message, Reason, Refused, encode

from .address import Address
from .session import Intake, Rejected, Session

log = structlog.get_logger()

HELLO_DEADLINE_S = 10.0
MESSAGE_DEADLINE_S = 10.0
CLOSE_S = 5.0
DOUBT_S = 20.0  # an edge agent answers an echo at once, however rarely it speaks
EDGE_S = 10.0
TURN_BYTES = 32 * 1024
# Connections that have not said hello: an unfinished hostile message can hold
# a few MiB until its deadline.
MOST_STRANGERS = 500
# Refusals that are logged one by one in so many seconds.
MOST_TOLD, TOLD_S = 10, 10.0
# A peer that takes nothing off its end is cut when this much waits for it.
UNSENT_LIMIT_BYTES = 64 * 1024


class Doubt(NamedTuple):
    """Whether the node that a clone copies still speaks."""

    original: int
    since: float


class Ingest:
    """Every open connection, and which node speaks on which."""

    def __init__(self, intake: Intake, max_connections: int) -> None:
        self.intake = intake
        self.max_connections = max_connections
        self.connections: set[Connection] = set()
        self.speaking: dict[int, Connection] = {}  # by row
        self._doubts: dict[int, Doubt] = {}  # by the clone's row
        self._strangers: dict[Connection, None] = {}  # oldest first
        self._told_until = 0.0
        self._told = 0
        self._untold = 0

    def meet(self, stranger: "Connection") -> None:
        """Note a connection without a hello; the oldest gives way to a new one.

        Whoever means it says hello at once; who holds places does not.
        """
        self._strangers[stranger] = None
        if len(self._strangers) > MOST_STRANGERS:
            next(iter(self._strangers)).abort()

    def part(self, connection: "Connection", *, gone: bool) -> None:
        """Note that a connection said hello, or is gone."""
        self._strangers.pop(connection, None)
        if gone:
            self.connections.discard(connection)

    def connection(self) -> "Connection":
        """Return the protocol of a new connection."""
        return Connection(self)

    def acknowledge(self, stored: dict[int, int]) -> None:
        """Tell each connected node up to where its frames are stored."""
        for row, seq in stored.items():
            speaker = self.speaking.get(row)
            if speaker is not None:
                speaker.acknowledge(seq)

    def doubt(self, clone: int, now: float) -> None:
        """Note a clone, to see whether the node it copies still lives.

        A host that came back while its old connection hangs looks the same.
        """
        original = self.intake.fleet.find_id(
            self.intake.fleet.nodes[clone].hello.node_id
        )
        if original is not None and clone not in self._doubts:
            self._doubts[clone] = Doubt(original, now)
            other = self.speaking.get(original)
            if other is not None:
                other.send(Echo(reply=False, ident=0, stamp_us=0))

    def _settle_clones(self, now: float) -> None:
        fleet = self.intake.fleet
        for clone, doubt in list(self._doubts.items()):
            original = self.speaking.get(doubt.original)
            if original is not None and original.heard_at > doubt.since:
                log.error(
                    "clone_seen",
                    node=fleet.nodes[doubt.original].name,
                    shown_as=fleet.nodes[clone].name,
                    mend="two hosts run with one identity: on the copied one delete "
                    "the agent's state folder, so that it enrols as itself",
                )
            elif original is not None and now - doubt.since < DOUBT_S:
                continue
            else:
                # It was the same host, back from a boot: its old connection is
                # dead, and the new one takes its place when it dials again.
                if original is not None:
                    original.abort()
                self.intake.speaking.discard(doubt.original)
                self.forget(clone)
            self._doubts.pop(clone, None)

    def forget(self, row: int) -> None:
        """Close a node's connection and retire its row."""
        self._doubts = {
            clone: doubt
            for clone, doubt in self._doubts.items()
            if row not in (clone, doubt.original)
        }
        speaker = self.speaking.pop(row, None)
        self.intake.speaking.discard(row)
        self.intake.stored_seq.pop(row, None)
        if speaker is not None:
            speaker.send(Bye(Farewell.RESTART))
            speaker.close()
        self.intake.fleet.retire(row)

    def say_refused(self, peer: str, refused: Refused) -> None:
        """Log a refusal; a flood of them is told as a number."""
        now = self.intake.clock.monotonic()
        if now >= self._told_until:
            if self._untold:
                log.warning("connections_refused", more=self._untold)
            self._told_until, self._told, self._untold = now + TOLD_S, 0, 0
        if self._told >= MOST_TOLD:
            self._untold += 1
            return
        self._told += 1
        reason = refused.reason.name.lower()
        log.warning("connection_refused", peer=peer, reason=reason, text=refused.text)

    def sweep(self, now: float) -> None:
        """End conversations past a deadline; speak to edge nodes now and then."""
        self._settle_clones(now)
        for connection in list(self.connections):
            connection.check(now)
            connection.speak_rarely(now)

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
        self.heard_at = 0.0
        self._abort_at = math.inf
        self._edge = False
        self._speak_at = 0.0
        self._echoes = 0
        self._unsaid_seq: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock for the hello."""
        # uvloop's transports are no subclass of asyncio's, only of their kind.
        stream = cast(asyncio.Transport, transport)
        self._transport = stream
        self.peer = _shown(stream.get_extra_info("peername"))
        stream.set_write_buffer_limits(high=UNSENT_LIMIT_BYTES)
        self._deadline_s = self._ingest.intake.clock.monotonic() + HELLO_DEADLINE_S
        self._ingest.intake.counts.connections += 1
        if len(self._ingest.connections) >= self._ingest.max_connections:
            self._ingest.intake.counts.refused[Reason.LIMIT] += 1
            self._refuse(
                Refused(Reason.LIMIT, "this collector's connections are all in use", 10)
            )
            return
        self._ingest.connections.add(self)
        self._ingest.meet(self)

    def data_received(self, data: bytes) -> None:
        """Answer what is whole; close on the first message that is wrong.

        A large read is taken in parts, so that nobody else waits for it.
        """
        if self._transport is None or self._transport.is_closing():
            return
        self.heard_at = self._ingest.intake.clock.monotonic()
        self._take(data[:TURN_BYTES])
        rest = data[TURN_BYTES:]
        if rest and not self._transport.is_closing():
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._go_on, rest)

    def _go_on(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.resume_reading()
        self.data_received(data)

    def _take(self, data: bytes) -> None:
        row_before, whole_before = self._session.row, self._session.whole_bytes
        try:
            answers = self._session.feed(data)
        except Rejected as rejected:
            self._refuse(rejected.refused)
            return
        for answer in answers:
            self.send(answer)
        row = self._session.row
        if row is None:
            return
        if row_before is None:
            self._take_over(row)
        self._set_message_deadline(ended=self._session.whole_bytes > whole_before)
        if self._session.ended:
            self._end(row)

    def _end(self, row: int) -> None:
        """Close now, or after a last acknowledgement of what just came."""
        intake = self._ingest.intake
        stored = intake.stored_seq.get(row, -1)
        if intake.fleet.seq[row] > stored:
            self._edge = False  # it waits for no echo any more
            self._deadline_s = intake.clock.monotonic() + MESSAGE_DEADLINE_S
        else:
            if stored >= 0:
                self.send(Ack(stored))
            self.close()

    def _set_message_deadline(self, *, ended: bool) -> None:
        # Drops of the same message don't move its deadline.
        if self._session.partial_bytes == 0:
            self._deadline_s = math.inf
        elif ended or self._deadline_s == math.inf:
            now = self._ingest.intake.clock.monotonic()
            self._deadline_s = now + MESSAGE_DEADLINE_S

    def _take_over(self, row: int) -> None:
        self._ingest.part(self, gone=False)
        older = self._ingest.speaking.get(row)
        self._ingest.speaking[row] = self
        self._ingest.intake.speaking.add(row)
        node = self._ingest.intake.fleet.nodes[row]
        self._edge = node.hello.inventory.mode == "edge"
        self._speak_at = self._ingest.intake.clock.monotonic() + EDGE_S
        log.info("agent_connected", node=node.name, peer=self.peer)
        if node.clone_of is not None:
            self._ingest.doubt(row, self._speak_at - EDGE_S)
        if older is not None and older is not self:
            log.info("connection_replaced", node=node.name, peer=older.peer)
            older.close()

    def pause_writing(self) -> None:
        """Cut a peer that does not read, without waiting for it to."""
        log.warning("connection_cut", peer=self.peer, text="it reads no answers")
        self.abort()

    def abort(self) -> None:
        """End at once, whatever is still to be sent."""
        if self._transport is not None:
            self._transport.abort()

    def check(self, now: float) -> None:
        """Refuse when a deadline has passed; cut who doesn't take the refusal."""
        if now > self._abort_at:
            self.abort()
        elif now > self._deadline_s:
            waited = "hello" if self._session.row is None else "the rest of a message"
            self._ingest.intake.counts.refused[Reason.LIMIT] += 1
            self._refuse(Refused(Reason.LIMIT, f"waited too long for {waited}"))

    def acknowledge(self, seq: int) -> None:
        """Tell up to where frames are stored: now, or with an edge node's echo."""
        if self._edge:
            self._unsaid_seq = seq
            return
        self.send(Ack(seq))
        if self._session.ended:
            self.close()

    def speak_rarely(self, now: float) -> None:
        """Send an edge node an echo, and what there is to acknowledge.

        It starts none itself, and each packet wakes it: at most one of each
        in EDGE_S. Its kernel measures the round trip, and both see that the
        other lives.
        """
        if not self._edge or now < self._speak_at:
            return
        self._speak_at = now + EDGE_S
        self._echoes += 1
        said: list[Message] = [Echo(reply=False, ident=self._echoes, stamp_us=0)]
        if self._unsaid_seq is not None:
            said.append(Ack(self._unsaid_seq))
            self._unsaid_seq = None
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(encode(message) for message in said))

    def send(self, message: Message) -> None:
        """Send, if there still is someone to send to."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode(message))

    def _refuse(self, refused: Refused) -> None:
        self._ingest.say_refused(self.peer, refused)
        self._deadline_s = math.inf  # refused once is enough
        self.send(refused)
        self.close()

    def close(self) -> None:
        """Close once what was sent has left, which it must soon."""
        if self._abort_at == math.inf:
            self._abort_at = self._ingest.intake.clock.monotonic() + CLOSE_S
        if self._transport is not None:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection; the node's silence is judged by the tick."""
        self._ingest.part(self, gone=True)
        row = self._session.row
        if row is not None and self._ingest.speaking.get(row) is self:
            del self._ingest.speaking[row]
            self._ingest.intake.speaking.discard(row)
            log.info(
                "agent_disconnected",
                node=self._ingest.intake.fleet.nodes[row].name,
                peer=self.peer,
                error=None if exc is None else str(exc),
            )


def _shown(peername: object) -> str:
    """Return a peer's address as people write it."""
    if not isinstance(peername, tuple) or len(peername) < 2:
        return str(peername)
    return str(Address(str(peername[0]), int(peername[1])))
