"""One sender's conversation, whatever carries it: TCP or HTTP.

Takes bytes, drives the fleet, and returns what is to be sent back. A message
that is wrong ends this conversation with a reason, and touches nobody else.

Frames are most of what is said, and need no answer: where the sender can be
told later, they are queued as they came and read on the tick.
"""

from collections.abc import Callable
from typing import Protocol

from trimtab.wire import (
    Bye,
    Echo,
    Farewell,
    Frame,
    Hello,
    Message,
    Reason,
    Refused,
    Stream,
    TooLarge,
    Welcome,
    WireError,
    begins_frame,
    encode,
    frame_ends,
)

from .admission import admit
from .brakes import Brakes, network_of
from .credentials import Credentials
from .events import Events, Kind
from .fleet import Fleet
from .settings import Settings


class Clock(Protocol):
    """Both clocks that the collector lives by, in seconds."""

    def monotonic(self) -> float:
        """For ages and silences."""

    def unix(self) -> float:
        """For history and people."""


# So many frames are not left to the tick: it may be late.
MOST_WAITING = 20_000
# The begin of a frame is kept for the next read if it is no longer than this.
FRAME_REST_BYTES = 1024


class Counts:
    """What came in since the start."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.frames = 0
        self.refused = dict.fromkeys(Reason, 0)
        self.connections = 0

    @property
    def repeated(self) -> int:
        """Frames that had been counted before."""
        return self._fleet.repeated


class Rejected(Exception):
    """The conversation is over: send this, then close."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.text)
        self.refused = refused


class Intake:
    """What every conversation shares."""

    def __init__(
        self,
        fleet: Fleet,
        credentials: Credentials,
        settings: Settings,
        clock: Clock,
        events: Events,
    ) -> None:
        self.fleet = fleet
        self.events = events
        self.credentials = credentials
        self.settings = settings
        self.clock = clock
        self.counts = Counts(fleet)
        self.stored_seq: dict[int, int] = {}  # by row: committed of this boot
        self.speaking: set[int] = set()  # rows with an open connection
        self.deleted: set[int] = set()  # rows whose connection is to be ended
        self.brakes = Brakes()

    def note_failure(self, address: str) -> float | None:
        """Note a failed credential; return for how long its sender is braked."""
        now = self.clock.monotonic()
        retry_s = self.brakes.retry_s(address, now)
        if self.brakes.failed(address, now):
            self.events.say(
                Kind.CREDENTIAL,
                f"{network_of(address)} fails to prove who it is too often: it is "
                "answered at once from now on, and not looked into",
                peer=address,
            )
        return retry_s


class Session:
    """A conversation from its first byte. After Rejected it is over."""

    __slots__ = (
        "_intake",
        "_queued_bytes",
        "_rest",
        "_stream",
        "_tell",
        "ended",
        "live_from_ms",
        "row",
    )

    def __init__(
        self, intake: Intake, tell: Callable[[Refused], None] | None = None
    ) -> None:
        """Call `tell` when a frame that was taken proves wrong later.

        Without it each frame is read at once, and feed says so itself.
        """
        self._intake = intake
        self._tell = tell
        self._stream = Stream(self._skipped)
        self._rest = b""  # the begin of a frame
        self._queued_bytes = 0
        self.live_from_ms = 0
        self.row: int | None = None
        self.ended = False

    def queue(self, data: bytes, now: float) -> bytes:
        """Queue the frames that the data begins with; return what is after them."""
        row = self.row
        if row is None or self._tell is None or self._stream.partial_bytes:
            return data
        if self._rest:
            data, self._rest = self._rest + data, b""
        ends = frame_ends(data)
        if not ends:
            return self._keep_begin(data)
        end = ends[-1]
        if end < len(data):
            data, rest = data[:end], data[end:]
        else:
            rest = b""
        self._wait(row, now, data, ends)
        self._queued_bytes += end
        return self._keep_begin(rest) if rest else rest

    def _keep_begin(self, data: bytes) -> bytes:
        if len(data) > FRAME_REST_BYTES or not begins_frame(data):
            return data
        self._rest = data
        return b""

    def feed(self, data: bytes) -> list[Message]:
        """Return the answers to what arrived; Rejected at the first wrong."""
        data = self.queue(data, self._intake.clock.monotonic())
        answers: list[Message] = []
        if not data:
            return answers
        try:
            for message in self._stream.feed(data):
                answer = self._handle(message)
                if answer is not None:
                    answers.append(answer)
        except WireError as exc:
            raise Rejected(self._refused(exc, _guess(data))) from exc
        return answers

    def refuse(self, error: WireError) -> None:
        """Tell the sender that a frame which was queued is wrong."""
        refused = self._refused(error)
        if self._tell is not None:
            self._tell(refused)

    def _refused(self, error: WireError, guess: str = "") -> Refused:
        if isinstance(error, TooLarge):
            return self._refusal(Reason.LIMIT, str(error))
        reason = Reason.MALFORMED
        if getattr(error, "where", "") == "hello.protocol":
            reason = Reason.PROTOCOL
        return self._refusal(reason, f"{error}{guess}")

    @property
    def partial_bytes(self) -> int:
        """Bytes of a message that has not ended."""
        return self._stream.partial_bytes + len(self._rest)

    @property
    def whole_bytes(self) -> int:
        """Bytes of all messages that have ended."""
        return self._stream.whole_bytes + self._queued_bytes

    def _skipped(self) -> None:
        """Let newer agents say what we don't know, but strangers nothing."""
        if self.row is None:
            raise self._rejected(
                Reason.ORDER, "expected hello first, got a message of an unknown kind"
            )

    def _rejected(self, reason: Reason, text: str) -> Rejected:
        return Rejected(self._refusal(reason, text))

    def _refusal(self, reason: Reason, text: str) -> Refused:
        self._intake.counts.refused[reason] += 1
        return Refused(reason, text[:500])

    def _handle(self, message: Message) -> Message | None:
        if isinstance(message, Hello):
            return self._hello(message)
        if self.row is None:
            raise self._rejected(
                Reason.ORDER,
                f"expected hello first, got {type(message).__name__.lower()}",
            )
        return self._after_hello(self.row, message)

    def _after_hello(self, row: int, message: Message) -> Message | None:
        match message:
            case Frame():
                self._frame(row, message)
            case Echo(reply=False):
                unix_ms = round(self._intake.clock.unix() * 1000)
                return message._replace(reply=True, unix_ms=unix_ms)
            case Echo():
                pass
            case Bye():
                self.ended = True
                self.settle()
                if message.why is Farewell.SLEEP:
                    self._intake.fleet.sleep(row)
            case _:
                raise self._rejected(
                    Reason.ORDER,
                    f"an agent doesn't send {type(message).__name__.lower()}",
                )
        return None

    def _hello(self, hello: Hello) -> Welcome:
        intake, clock = self._intake, self._intake.clock
        now, unix_now = clock.monotonic(), clock.unix()
        if self.row is not None:
            held = intake.fleet.nodes[self.row].hello
            if (hello.node_id, hello.boot_id) != (held.node_id, held.boot_id):
                raise self._rejected(
                    Reason.ORDER, "another node's hello on a connection in use"
                )
        fleet, known = intake.fleet, intake.fleet.find_id(hello.node_id)
        seq = -1 if known is None else int(fleet.seq[known])
        row = admit(
            fleet,
            intake.credentials,
            intake.events,
            hello,
            now,
            unix_now,
            intake.settings.max_nodes,
            intake.speaking,
        )
        if isinstance(row, Refused):
            intake.counts.refused[row.reason] += 1
            raise Rejected(row)
        if fleet.seq[row] < 0:
            intake.stored_seq.pop(row, None)  # a new boot
            if row in fleet.waiting:
                # What waits is of the boot before, with its own sequence.
                fleet.seq[row] = seq
                fleet.score_waiting(now, unix_now)
                fleet.seq[row] = -1
        interval_s = hello.interval_ms / 1000
        fleet.begin(row, now, hello.boot_ms, interval_s, anew=self.row is None)
        if self.row is None:
            # What was sampled before this conversation was kept back; what was
            # sampled since shows that the node lives, however its clock runs.
            self.live_from_ms = hello.boot_ms - hello.interval_ms
        self.row = row
        wanted_s = intake.settings.interval_s
        return Welcome(
            name=fleet.nodes[row].name,
            server_ms=int(unix_now * 1000),
            interval_ms=None if wanted_s is None else round(wanted_s * 1000),
            peers=intake.settings.peers,
            stored_seq=intake.stored_seq.get(row),
        )

    def _frame(self, row: int, frame: Frame) -> None:
        data = encode(frame)
        self._wait(row, self._intake.clock.monotonic(), data, [len(data)])

    def _wait(self, row: int, now: float, data: bytes, ends: list[int]) -> None:
        self._intake.counts.frames += len(ends)
        fleet = self._intake.fleet
        fleet.waiting.add(row, self, now, data, ends)
        if len(fleet.waiting) >= MOST_WAITING:
            fleet.score_waiting(now, self._intake.clock.unix())

    def settle(self) -> None:
        """Read what waits of this node now, not on the tick."""
        fleet, clock = self._intake.fleet, self._intake.clock
        if self.row in fleet.waiting:
            fleet.score_waiting(clock.monotonic(), clock.unix())


def _guess(data: bytes) -> str:
    """Return a hint on what a peer may be that speaks something else."""
    if data.startswith((b"GET ", b"POST ", b"PUT ", b"HEAD ", b"OPTIONS ")):
        return " (this looks like HTTP, which is answered on the other port)"
    if data.startswith(b"\x16\x03"):
        return " (this looks like TLS, which this collector is not set up for)"
    return ""
