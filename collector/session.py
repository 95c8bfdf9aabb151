"""One sender's conversation, whatever carries it: TCP or HTTP.

Takes bytes, drives the fleet, and returns what is to be sent back. A message
that is wrong ends this conversation with a reason, and touches nobody else.
"""

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
)

from .admission import admit
from .boot_offset import BootOffset
from .credentials import Credentials
from .fleet import Fleet
from .settings import Settings


class Clock(Protocol):
    """Both clocks that the collector lives by, in seconds."""

    def monotonic(self) -> float:
        """For ages and silences."""

    def unix(self) -> float:
        """For history and people."""


class Counts:
    """What came in since the start."""

    def __init__(self) -> None:
        self.frames = 0
        self.repeated = 0
        self.refused = dict.fromkeys(Reason, 0)
        self.connections = 0


class Rejected(Exception):
    """The conversation is over: send this, then close."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.text)
        self.refused = refused


class Intake:
    """What every conversation shares."""

    def __init__(
        self, fleet: Fleet, credentials: Credentials, settings: Settings, clock: Clock
    ) -> None:
        self.fleet = fleet
        self.credentials = credentials
        self.settings = settings
        self.clock = clock
        self.counts = Counts()
        self.stored_seq: dict[int, int] = {}  # by row: committed of this boot
        self.speaking: set[int] = set()  # rows with an open connection


class Session:
    """A conversation from its first byte. After Rejected it is over."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._stream = Stream(self._skipped)
        self._offset = BootOffset()
        self._hello_boot_ms = 0
        self._interval_ms = 1000
        self.row: int | None = None
        self.ended = False

    def feed(self, data: bytes) -> list[Message]:
        """Return the answers to what arrived; Rejected at the first wrong."""
        answers: list[Message] = []
        try:
            for message in self._stream.feed(data):
                answer = self._handle(message)
                if answer is not None:
                    answers.append(answer)
        except TooLarge as exc:
            raise self._rejected(Reason.LIMIT, str(exc)) from exc
        except WireError as exc:
            reason = Reason.MALFORMED
            if getattr(exc, "where", "") == "hello.protocol":
                reason = Reason.PROTOCOL
            raise self._rejected(reason, f"{exc}{_guess(data)}") from exc
        return answers

    @property
    def partial_bytes(self) -> int:
        """Bytes of a message that has not ended."""
        return self._stream.partial_bytes

    @property
    def whole_bytes(self) -> int:
        """Bytes of all messages that have ended."""
        return self._stream.whole_bytes

    def _skipped(self) -> None:
        """Let newer agents say what we don't know, but strangers nothing."""
        if self.row is None:
            raise self._rejected(
                Reason.ORDER, "expected hello first, got a message of an unknown kind"
            )

    def _rejected(self, reason: Reason, text: str) -> Rejected:
        self._intake.counts.refused[reason] += 1
        return Rejected(Refused(reason, text[:500]))

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
        row = admit(
            intake.fleet,
            intake.credentials,
            hello,
            now,
            unix_now,
            intake.settings.max_nodes,
            intake.speaking,
        )
        if isinstance(row, Refused):
            intake.counts.refused[row.reason] += 1
            raise Rejected(row)
        if intake.fleet.seq[row] < 0:
            intake.stored_seq.pop(row, None)  # a new boot
        self.row = row
        self._offset.see(now, hello.boot_ms / 1000, hello.interval_ms / 1000)
        self._hello_boot_ms = hello.boot_ms
        self._interval_ms = hello.interval_ms
        wanted_s = intake.settings.interval_s
        return Welcome(
            name=intake.fleet.nodes[row].name,
            server_ms=int(unix_now * 1000),
            interval_ms=None if wanted_s is None else round(wanted_s * 1000),
            peers=intake.settings.peers,
            stored_seq=intake.stored_seq.get(row),
        )

    def _frame(self, row: int, frame: Frame) -> None:
        now = self._intake.clock.monotonic()
        counts = self._intake.counts
        counts.frames += 1
        boot_s = frame.boot_ms / 1000
        # What was sampled before this conversation began was kept back; what
        # was sampled since shows that the node lives, however its clock runs.
        backfill = frame.boot_ms < self._hello_boot_ms - self._interval_ms
        if not backfill:
            self._offset.see(now, boot_s, self._interval_ms / 1000)
        sampled_at = min(now, boot_s + self._offset.seconds)
        taken = self._intake.fleet.take(row, frame, sampled_at, now, backfill=backfill)
        if not taken:
            counts.repeated += 1


def _guess(data: bytes) -> str:
    """Return a hint on what a peer may be that speaks something else."""
    if data.startswith((b"GET ", b"POST ", b"PUT ", b"HEAD ", b"OPTIONS ")):
        return " (this looks like HTTP, which is answered on the other port)"
    if data.startswith(b"\x16\x03"):
        return " (this looks like TLS, which this collector is not set up for)"
    return ""
