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
# The most that is read of a connection before the others have their turn.
TURN_BYTES = 4 * 1024
# Connections that have not said hello: an unfinished hostile message can hold
# a few MiB until its deadline.
MOST_STRANGERS = 500
# Refusals that are logged one by one in so many seconds.
MOST_TOLD, TOLD_S = 10, 10.0
# What a connection may send: an agent's whole ring at once, then about a
# thousand frames a second. Past it nothing is read of it until it may again.
BURST_BYTES = 4 * 2**20
BYTES_PER_S = 128 * 1024
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
        self.buffer = bytearray(TURN_BYTES)
        self.view = memoryview(self.buffer)
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
        self._end_deleted()
        for connection in list(self.connections):
            connection.check(now)
            connection.speak_rarely(now)

    def _end_deleted(self) -> None:
        deleted, self.intake.deleted = self.intake.deleted, set()
        for row in deleted:
            speaker = self.speaking.get(row)
            if speaker is not None:
                speaker.send(Bye(Farewell.RESTART))
                speaker.close()

    def stop(self) -> None:
        """Say bye to everyone and close."""
        for connection in list(self.connections):
            connection.send(Bye(Farewell.RESTART))
            connection.close()


class Connection(asyncio.BufferedProtocol):
    """One agent's TCP connection."""

    __slots__ = (
        "_abort_at",
        "_credit_at",
        "_credit_bytes",
        "_deadline_s",
        "_echoes",
        "_edge",
        "_held",
        "_ingest",
        "_over",
        "_session",
        "_speak_at",
        "_transport",
        "_unsaid_seq",
        "heard_at",
        "peer",
        "peer_host",
    )

    def __init__(self, ingest: Ingest) -> None:
        self._ingest = ingest
        self._session = Session(ingest.intake, self._refuse)
        self._transport: asyncio.Transport | None = None
        self.peer = self.peer_host = "?"
        self._deadline_s = 0.0
        self.heard_at = 0.0
        self._abort_at = math.inf
        self._credit_bytes = BURST_BYTES
        self._credit_at = 0.0
        self._held = False  # nothing is read of it: it sent too much
        self._edge = False
        self._speak_at = 0.0
        self._over = False  # refused: nothing is said or taken any more
        self._echoes = 0
        self._unsaid_seq: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock for the hello."""
        # uvloop's transports are no subclass of asyncio's, only of their kind.
        stream = cast(asyncio.Transport, transport)
        self._transport = stream
        peername = stream.get_extra_info("peername")
        self.peer, self.peer_host = _shown(peername), _host(peername)
        stream.set_write_buffer_limits(high=UNSENT_LIMIT_BYTES)
        self._credit_at = self._ingest.intake.clock.monotonic()
        self._deadline_s = self._credit_at + HELLO_DEADLINE_S
        self._ingest.intake.counts.connections += 1
        if len(self._ingest.connections) >= self._ingest.max_connections:
            self._ingest.intake.counts.refused[Reason.LIMIT] += 1
            self._refuse(
                Refused(Reason.LIMIT, "this collector's connections are all in use", 10)
            )
            return
        self._ingest.connections.add(self)
        self._ingest.meet(self)

    def get_buffer(self, sizehint: int) -> bytearray:
        """Return where the next read goes: one buffer serves every connection."""
        del sizehint
        return self._ingest.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Answer what is whole; close on the first message that is wrong."""
        if self._over or self._transport is None or self._transport.is_closing():
            return
        data = bytes(self._ingest.view[:nbytes])
        now = self.heard_at = self._ingest.intake.clock.monotonic()
        self._credit_bytes -= nbytes
        if self._credit_bytes < 0:
            self._hold(now)
        more = nbytes == TURN_BYTES
        if more:
            # Everybody else has a turn before the rest is read.
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._go_on)
        if self._deadline_s == math.inf:
            data = self._session.queue(data, now)
            if not data:  # nothing but frames, as nearly always
                if not more and self._session.partial_bytes:
                    self._deadline_s = now + MESSAGE_DEADLINE_S
                return
        self._take(data, more=more)

    def _go_on(self) -> None:
        if self._held or self._transport is None or self._transport.is_closing():
            return
        self._transport.resume_reading()

    def _hold(self, now: float) -> None:
        """Read nothing of a sender that is past its rate, unless it may again."""
        refill = int(max(0.0, now - self._credit_at) * BYTES_PER_S)
        self._credit_bytes = min(BURST_BYTES, self._credit_bytes + refill)
        self._credit_at = now
        held = self._credit_bytes < 0
        if held == self._held or self._transport is None:
            return
        self._held = held
        if held:
            self._transport.pause_reading()
            log.warning("sender_held", peer=self.peer, bytes_per_s=BYTES_PER_S)
        else:
            self._go_on()

    def _take(self, data: bytes, *, more: bool) -> None:
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
        ended = self._session.whole_bytes > whole_before
        self._set_message_deadline(ended=ended, more=more)
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

    def _set_message_deadline(self, *, ended: bool, more: bool) -> None:
        # Drops of the same message don't move its deadline; what is there and not
        # read yet is not the sender's fault.
        if self._session.partial_bytes == 0 or more:
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

    def eof_received(self) -> None:
        """Read what waits while the peer can still be told what is wrong."""
        self._session.settle()

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
        if self._held:
            self._hold(now)
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
        if self._over or not self._edge or now < self._speak_at:
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
        if self._over:
            return
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode(message))

    def _refuse(self, refused: Refused) -> None:
        if refused.reason is Reason.CREDENTIAL:
            retry_s = self._ingest.intake.note_failure(self.peer_host)
            if retry_s is not None:
                refused = refused._replace(retry_s=math.ceil(retry_s))
        self._ingest.say_refused(self.peer, refused)
        self._deadline_s = math.inf  # refused once is enough
        self.send(refused)
        self._linger()

    def _linger(self) -> None:
        """End our side, and drop what still comes until the peer ends its own.

        Closed with bytes unread, TCP would reset, and the reset overtake the
        refusal.
        """
        if (
            self._transport is None
            or self._transport.is_closing()
            or not self._transport.can_write_eof()  # TLS
            or self not in self._ingest.connections  # nobody would look after it
        ):
            self.close()
            return
        self._over = True
        self._abort_at = self._ingest.intake.clock.monotonic() + CLOSE_S
        self._transport.write_eof()

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


def _host(peername: object) -> str:
    return str(peername[0]) if isinstance(peername, tuple) and peername else "?"
