"""The connection to the collector: dial, talk, lose it, dial again.

Frames wait in the ring until the collector says they are stored. On a new
connection everything unacknowledged is sent again, oldest first, so that
"stored up to" stays true; the collector keeps late ones out of the live
score. Round trips are measured by an echo on this very connection.

The only place the agent dials is the configured collector.
"""

import asyncio
import random
import ssl
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Protocol

from trimtab.wire import (
    Ack,
    Bye,
    Echo,
    Farewell,
    Hello,
    Hole,
    Link,
    Message,
    Method,
    Refused,
    Stream,
    Welcome,
    encode,
)

from .backoff import delay_s
from .emit import Log
from .errors import Unsupported
from .failover import Failover
from .probes import tcp_info
from .probes.resolve import Resolver
from .probes.round_trips import RoundTrips
from .probes.targets import Target
from .ring import Ring
from .settings import Address
from .trouble import hint, plain

RESOLVE_S = 10.0
DIAL_S = 5.0  # for each address
WELCOME_S = 10.0
# Without a word for this long, the other end is taken for gone.
SILENCE_S = 15.0
# A connection that held this long was a good one: the back-off starts anew.
GOOD_S = 10.0
FAREWELL_S = 1.0
READ_BYTES = 16 * 1024
SLEEP_S = 60.0  # awake for so long after announcing sleep: it was called off
BURST_FRAMES = 100  # between two looks at whether the other end keeps up


class Lost(Exception):
    """The connection is of no further use; the text says why."""

    def __init__(self, why: str, retry_s: float | None = None) -> None:
        super().__init__(why)
        self.retry_s = retry_s


class GoingToSleep(Exception):
    """The connection was ended on purpose, until the host is awake again."""


class Caller(Protocol):
    """What the uplink needs to know of the agent."""

    def hello(self) -> Hello:
        """Return who is calling, as of now."""

    def welcomed(self, welcome: Welcome) -> None:
        """Take what the collector asks for."""


class Uplink:
    """One collector, dialled for as long as `run` is left to."""

    def __init__(
        self,
        collectors: Sequence[Address],
        ring: Ring,
        caller: Caller,
        log: Log,
        *,
        tls: ssl.SSLContext | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._failover = Failover(collectors)
        self._ring = ring
        self._caller = caller
        self._log = log
        self._tls = tls
        self._rng = rng or random.Random()
        self._resolver: Resolver | None = None  # of the collector being dialled
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()  # acknowledged or disconnected
        self._trips = RoundTrips()
        self._greet_again = False
        self._hung_up: str | None = None
        self._going_to_sleep = False
        self._awake = asyncio.Event()
        self._echo_due = False
        self._echoes = 0
        self._retransmits: int | None = None  # total, of this connection
        self._socket: tcp_info.Options | None = None
        self._heard_at = 0.0
        self._connected_at: float | None = None
        self.clock_offset_ms: int | None = None  # our wall clock minus theirs
        self.connected = False
        self.failure: str | None = None  # why not, while not connected

    def frame_ready(self) -> None:
        """Send what the ring holds, and an echo with it."""
        self._echo_due = True
        self._wake.set()

    def greet_again(self) -> None:
        """Say hello again: something of it changed."""
        self._greet_again = True
        self._wake.set()

    async def flushed(self, deadline_s: float) -> bool:
        """Wait until all is stored; False if that can't be, or takes longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(deadline_s):
                while len(self._ring) and self.connected:
                    self._changed.clear()
                    await self._changed.wait()
        return len(self._ring) == 0

    def hang_up(self, why: str) -> None:
        """End the connection, if there is one, and dial again."""
        self._hung_up = why
        self._going_to_sleep = False  # whatever was announced is over
        self._wake.set()
        self._awake.set()

    def announce_sleep(self) -> None:
        """Tell the collector that this host is about to sleep, and hang up."""
        if self.connected:  # else there is nobody to tell
            self._going_to_sleep = True
            self._wake.set()

    def link(self) -> Link:
        """Return the figures of link 0: the connection itself."""
        self._trips.expire(time.monotonic_ns() // 1000)
        return self._trips.link(0, Method.ECHO, self._new_retransmits())

    def holes(self) -> tuple[Hole, ...]:
        """Return what of link 0 is not fresh."""
        return self._trips.holes(0, time.monotonic_ns() // 1000)

    def _new_retransmits(self) -> int | None:
        if self._socket is None:
            return None
        try:
            total = tcp_info.read(self._socket).retransmits
        except (Unsupported, OSError):
            return None
        before, self._retransmits = self._retransmits, total
        return tcp_info.retransmitted(before, total)

    async def run(self) -> None:
        """Stay connected until cancelled; then say bye."""
        failures = 0
        while True:
            self._connected_at = self._hung_up = None
            try:
                await self._converse()
            except GoingToSleep:
                await self._sleep()
            except (Lost, ValueError, OSError, EOFError) as exc:
                self._lost(exc)
                good = self._held_long()
                if good:
                    failures = 0
                if not self._failover.failed(good=good):
                    continue  # another collector may be there
                failures += 1
                asked_s = getattr(exc, "retry_s", None) or 0.0
                await asyncio.sleep(max(asked_s, delay_s(failures, self._rng)))

    async def _sleep(self) -> None:
        """Say nothing until the host is back, or did not go to sleep after all."""
        self._log.info("sleep_announced")
        self.connected = self._going_to_sleep = False
        self._awake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(SLEEP_S):
                await self._awake.wait()

    def _held_long(self) -> bool:
        """Whether the connection that just ended had been a good one."""
        connected_at = self._connected_at
        return connected_at is not None and time.monotonic() - connected_at > GOOD_S

    def _lost(self, exc: BaseException) -> None:
        failure = str(exc) if isinstance(exc, Lost) else plain(exc)
        if not self.connected:
            failure += hint(failure, exc, tls=self._tls is not None)
        if self.connected:
            self._log.warning(
                "disconnected", collector=self._failover.current, error=failure
            )
        elif failure != self.failure:  # said once, not at each try
            self._log.warning(
                "cannot_connect", collector=self._failover.current, error=failure
            )
        self.connected = False
        self.clock_offset_ms = None
        self.failure = failure
        self._changed.set()

    async def _converse(self) -> None:
        reader, writer = await self._dial()
        try:
            stream = Stream()
            sent_seq = await self._enrol(reader, writer, stream)
            self._log.info("connected", collector=self._failover.current)
            self.connected, self.failure = True, None
            self._connected_at = time.monotonic()
            self._socket = writer.get_extra_info("socket")
            self._retransmits = None
            await _first_to_fail(
                self._listen(reader, writer, stream), self._speak(writer, sent_seq)
            )
        except asyncio.CancelledError:
            await self._say_bye(writer)
            raise
        finally:
            self._socket = None
            self._trips.forget_pending()
            writer.close()
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(FAREWELL_S):
                    await writer.wait_closed()

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to the first address that takes one."""
        target = Target(*self._failover.current)
        host, port = target
        if self._resolver is None or self._resolver.target != target:
            self._resolver = Resolver(target)
        reasons = []
        for address in await self._resolver.addresses(RESOLVE_S):
            literal = address.sockaddr[0]
            try:
                async with asyncio.timeout(DIAL_S):
                    return await asyncio.open_connection(
                        literal,
                        port,
                        ssl=self._tls,
                        server_hostname=host if self._tls else None,
                    )
            except TimeoutError:
                reasons.append(f"{literal}: no connection within {DIAL_S:g} s")
            except OSError as exc:
                why = plain(exc)
                reasons.append(f"{literal}: {why}{hint(why, exc, tls=bool(self._tls))}")
        raise Lost("; ".join(reasons))

    async def _enrol(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: Stream
    ) -> int:
        """Return the sequence up to which nothing needs to be sent."""
        writer.write(encode(self._caller.hello()))
        self._greet_again = False
        try:
            async with asyncio.timeout(WELCOME_S):
                welcome = await self._welcome(reader, writer, stream)
        except TimeoutError:
            raise Lost(f"no welcome within {WELCOME_S:g} s") from None
        self._heard_at = time.monotonic()
        self._caller.welcomed(welcome)
        stored = -1 if welcome.stored_seq is None else welcome.stored_seq
        self._ring.acknowledge(stored)
        return stored

    async def _welcome(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: Stream
    ) -> Welcome:
        while True:
            for message in stream.feed(await _some(reader)):
                if isinstance(message, Welcome):
                    return message
                self._handle(message, writer)

    async def _listen(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: Stream
    ) -> None:
        while True:
            data = await _some(reader)
            self._heard_at = time.monotonic()
            for message in stream.feed(data):
                self._handle(message, writer)

    def _handle(self, message: Message, writer: asyncio.StreamWriter) -> None:
        match message:
            case Ack():
                self._ring.acknowledge(message.seq)
                self._changed.set()
            case Echo(reply=True):
                rtt_us = self._trips.answered(
                    message.ident, time.monotonic_ns() // 1000
                )
                self._note_offset(message, rtt_us)
            case Echo():
                unix_ms = time.time_ns() // 1_000_000
                answer = message._replace(reply=True, unix_ms=unix_ms)
                writer.write(encode(answer))
            case Welcome():  # to a hello said again
                self._caller.welcomed(message)
            case Refused():
                raise Lost(
                    f"refused ({message.reason.name.lower()}): {message.text}",
                    message.retry_s,
                )
            case Bye():
                raise Lost(f"the collector says bye ({message.why.name.lower()})")
            case _:
                pass  # of a newer collector

    def _note_offset(self, answer: Echo, rtt_us: int | None) -> None:
        """Compare wall clocks, as NTP does: theirs was read halfway (RFC 5905)."""
        if answer.unix_ms is not None and rtt_us is not None:
            halfway_ms = time.time_ns() // 1_000_000 - rtt_us // 2000
            self.clock_offset_ms = halfway_ms - answer.unix_ms

    async def _speak(self, writer: asyncio.StreamWriter, sent_seq: int) -> None:
        while True:
            if self._hung_up is not None:
                raise Lost(self._hung_up)
            if self._going_to_sleep:
                writer.write(encode(Bye(Farewell.SLEEP)))
                await writer.drain()
                raise GoingToSleep("this host is about to sleep")
            if self._greet_again:
                self._greet_again = False
                writer.write(encode(self._caller.hello()))
            while unsent := self._ring.after(sent_seq, BURST_FRAMES):
                writer.write(b"".join(held.data for held in unsent))
                sent_seq = unsent[-1].seq
                await writer.drain()
            if self._echo_due:
                self._echo_due = False
                writer.write(self._echo())
            self._wake.clear()
            await self._next_wake()

    async def _next_wake(self) -> None:
        """Wait for something to send; ask for an echo when it gets quiet."""
        try:
            async with asyncio.timeout(SILENCE_S / 3):
                await self._wake.wait()
        except TimeoutError:
            self._echo_due = True
        if time.monotonic() - self._heard_at >= SILENCE_S:
            raise Lost(f"nothing heard for {SILENCE_S:g} s")

    def _echo(self) -> bytes:
        now_us = time.monotonic_ns() // 1000
        self._echoes += 1
        self._trips.sent(self._echoes, now_us)
        return encode(Echo(reply=False, ident=self._echoes, stamp_us=now_us))

    async def _say_bye(self, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                writer.write(encode(Bye(Farewell.STOP)))
                await writer.drain()


async def _some(reader: asyncio.StreamReader) -> bytes:
    data = await reader.read(READ_BYTES)
    if not data:
        raise Lost("the collector closed the connection")
    return data


async def _first_to_fail(*works: Coroutine[object, object, None]) -> None:
    """Run all until one raises, end the others, and raise the same.

    Not a task group: on Python 3.11 one that fails while it is cancelled
    forgets the cancellation.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        await task
