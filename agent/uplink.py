"""The conversation with the collector: dial, talk, lose it, dial again.

Frames wait in the ring until the collector says they are stored. On a new
connection everything unacknowledged is sent again, oldest first, so that
"stored up to" stays true; the collector keeps late ones out of the live
score.

The only place the agent dials is the configured collector.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from trimtab.wire import (
    Ack,
    Bye,
    Echo,
    Farewell,
    Hello,
    Message,
    Refused,
    Welcome,
    encode,
)

from .backoff import delay_s
from .collector_link import Kernel
from .connection import Connection, Lost
from .emit import Log
from .failover import Failover
from .loop import Loop
from .modes import Mode
from .probes.targets import Target
from .ring import Ring
from .settings import Address
from .trouble import hint

if TYPE_CHECKING:
    import ssl
    from random import Random

# A connection that held this long was a good one: the back-off starts anew.
GOOD_S = 10.0
SLEEP_S = 60.0  # awake for so long after announcing sleep: it was called off
BURST_FRAMES = 16  # of the largest, about 40 KiB
# More than an acknowledgement has, less than an answer to an echo: where echoes
# are asked for, the one is read with the other, in one wake-up.
LEAST_BYTES = 14


class Caller(Protocol):
    """What the uplink needs to know of the agent."""

    def hello(self) -> Hello:
        """Return who is calling, as of now."""

    def welcomed(self, welcome: Welcome) -> None:
        """Take what the collector asks for."""

    def flushed(self) -> None:
        """Take note, after `finish`, that nothing more can be stored."""


class Uplink:
    """One collector, or one of several, dialled until `finish`."""

    def __init__(
        self,
        loop: Loop,
        mode: Mode,
        link: Kernel,
        ring: Ring,
        caller: Caller,
        log: Log,
        *,
        rng: "Random | None" = None,
    ) -> None:
        self._loop = loop
        self._mode = mode
        self._link = link
        self._ring = ring
        self._caller = caller
        self._log = log
        self._rng = rng
        self._tls: ssl.SSLContext | None = None
        self._failover = Failover(())
        self._connection: Connection | None = None
        self._heard_s = 0.0
        self._welcomed_s = 0.0
        self._sent_seq = -1
        self._failures = 0
        self._finishing = self._said_bye = False
        self.connected = False
        self.failure: str | None = None  # why not, while not connected

    def call(self, collectors: Sequence[Address], tls: "ssl.SSLContext | None") -> None:
        """Stay connected to one of these, in place of any before."""
        self._say_bye(Farewell.STOP)
        self._drop()
        self._failover = Failover(collectors)
        self._tls = tls
        self._failures, self.failure = 0, None
        self._loop.at(0.0, self._dial)

    def frame_ready(self) -> None:
        """Send what the ring holds, and an echo with it."""
        if self.connected:
            self._try(self._send_frames, self._question())

    def greet_again(self) -> None:
        """Say hello again: something of it changed."""
        if self.connected:
            self._try(self._greet)

    def announce_sleep(self) -> None:
        """Tell the collector that this host is about to sleep, and hang up."""
        if self.connected:  # else there is nobody to tell
            self._say_bye(Farewell.SLEEP)
            self._log.info("sleep_announced")
            self._drop()
            self._loop.at(time.monotonic() + SLEEP_S, self._dial)

    def awake(self) -> None:
        """Dial anew after a suspend: the old connection is long forgotten."""
        if self._connection is not None:
            self.lost(Lost("this host was asleep"))
        self._loop.at(0.0, self._dial)

    def finish(self) -> None:
        """Send what is left and say bye; the caller hears when that is done."""
        self._finishing = True
        self._loop.cancel(self._dial)
        if self._connection is not None:
            self._connection.hear_from(1)  # the last acknowledgement, too
        if self.connected and len(self._ring):
            self._try(self._send_frames)
        else:
            self._flushed()

    def close(self) -> None:
        """Say bye, if there was no time for it yet, and hang up."""
        self._say_bye(Farewell.STOP)
        self._drop()
        self._loop.cancel(self._dial)

    def opened(self) -> None:
        """Say hello over the new connection."""
        self._loop.at(time.monotonic() + self._mode.welcome_s, self._listen)
        self._greet()

    def heard(self, messages: list[Message]) -> None:
        """Handle each message, then send what waited for room."""
        for message in messages:
            if self._connection is not None:  # else one before it was the last
                self._handle(message)
        if not self.connected:
            return
        if messages:
            self._heard_s = time.monotonic()
            self._loop.at(self._heard_s + self._patience_s(), self._listen)
        self._send_frames()

    def lost(self, lost: Lost) -> None:
        """Say so once, and dial again: at once another one, else after a while."""
        self._tell(lost)
        good = self.connected and time.monotonic() - self._welcomed_s > GOOD_S
        self._drop()
        if self._finishing:
            self._caller.flushed()
            return
        if good:
            self._failures = 0
        wait_s = 0.0  # another collector may be there
        if self._failover.failed(good=good):
            self._failures += 1
            wait_s = max(lost.retry_s or 0.0, self._wait_s())
        self._loop.at(time.monotonic() + wait_s, self._dial)

    def _wait_s(self) -> float:
        if self._rng is None:
            # Most agents dial once, and never need it.
            from random import Random

            self._rng = Random()
        return delay_s(self._failures, self._rng, self._mode.most_wait_s)

    def _tell(self, lost: Lost) -> None:
        failure = str(lost)
        collector = self._failover.current
        if self.connected:
            self._log.warning("disconnected", collector=collector, error=failure)
        else:
            failure += hint(failure, lost.__cause__, tls=self._tls is not None)
            if failure != self.failure:  # said once, not at each try
                self._log.warning("cannot_connect", collector=collector, error=failure)
        self.failure = failure

    def _dial(self) -> None:
        target = Target(*self._failover.current)
        try:
            self._connection = Connection(
                self._loop, target, self._tls, self, dial_s=self._mode.dial_s
            )
        except Lost as lost:
            self.lost(lost)

    def _drop(self) -> None:
        self._loop.cancel(self._listen)
        self._link.lost()
        self.connected = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _try(self, speak: Callable[[bytes], None], data: bytes = b"") -> None:
        """Say something; a connection that is lost by that is dialled again."""
        try:
            speak(data)
        except Lost as lost:
            self.lost(lost)

    def _send(self, data: bytes) -> None:
        if self._connection is not None and data:
            self._connection.send(data)

    def _greet(self, _: bytes = b"") -> None:
        self._send(encode(self._caller.hello()))

    def _question(self) -> bytes:
        """Return an echo to ask for, unless it would have to wait for others."""
        if self._connection is None or self._connection.unsent:
            return b""
        return self._link.question()

    def _say_bye(self, why: Farewell) -> None:
        if self.connected and not self._said_bye:
            self._said_bye = self._finishing
            with suppress(Lost):
                self._send(encode(Bye(why)))

    def _send_frames(self, question: bytes = b"") -> None:
        """Send what the ring holds, as long as the kernel takes it."""
        while self._connection is not None and not self._connection.unsent:
            unsent = self._ring.after(self._sent_seq, BURST_FRAMES)
            self._send(b"".join([held.data for held in unsent]) + question)
            question = b""
            if unsent:
                self._sent_seq = unsent[-1].seq
            if len(unsent) < BURST_FRAMES:
                if self._finishing and self._mode.bye_first:
                    self._say_bye(Farewell.STOP)
                return

    def _patience_s(self) -> float:
        """Return how long to hear nothing before something is done about it."""
        return self._mode.silence_s / (3 if self._mode.echoes else 1)

    def _listen(self) -> None:
        """Ask for an echo when it is quiet, and give up when it stays so."""
        if self._connection is None:
            return
        now_s = time.monotonic()
        end_s = self._heard_s + self._mode.silence_s
        if self.connected and now_s < end_s:
            self._loop.at(min(now_s + self._patience_s(), end_s), self._listen)
            self._try(self._send, self._question())
        elif self.connected:
            self.lost(Lost(f"nothing heard for {self._mode.silence_s:g} s"))
        else:
            self.lost(Lost(f"no welcome within {self._mode.welcome_s:g} s"))

    def _handle(self, message: Message) -> None:
        match message:
            case Ack():
                self._ring.acknowledge(message.seq)
                if self._finishing and not len(self._ring):
                    self._flushed()
            case Echo(reply=True):
                self._link.answered(message, self._loop.woke_s)
            case Echo():
                unix_ms = time.time_ns() // 1_000_000
                self._send(encode(message._replace(reply=True, unix_ms=unix_ms)))
            case Welcome():
                self._welcome(message)
            case Refused():
                raise Lost(
                    f"refused ({message.reason.name.lower()}): {message.text}",
                    message.retry_s,
                )
            case Bye():
                raise Lost(f"the collector says bye ({message.why.name.lower()})")
            case _:
                pass  # of a newer collector

    def _welcome(self, welcome: Welcome) -> None:
        if not self.connected and self._connection is not None:
            self._log.info("connected", collector=self._failover.current)
            self.connected, self.failure = True, None
            self._welcomed_s = time.monotonic()
            self._link.connected(self._connection.open_socket)
            if self._mode.echoes:
                self._connection.hear_from(LEAST_BYTES)
            self._sent_seq = -1 if welcome.stored_seq is None else welcome.stored_seq
            self._ring.acknowledge(self._sent_seq)
        self._caller.welcomed(welcome)

    def _flushed(self) -> None:
        self._say_bye(Farewell.STOP)
        self._caller.flushed()
