"""`trimtab-agent run --mode edge`: one selector, one socket, one sample a time.

Round trips come from TCP_INFO of the connection. What the standard shell
measures by its own echo (95th percentile, loss) is unsupported here, unless
targets are configured.
"""

import random
import selectors
import signal
import socket
import time
from contextlib import suppress

from trimtab.wire import (
    Ack,
    Bye,
    Echo,
    Farewell,
    Frame,
    Hole,
    Link,
    Message,
    Method,
    Refused,
    State,
    Welcome,
    encode,
)

from ..backend import sampler
from ..backoff import delay_s
from ..changes import Changes
from ..clocks import SLEEP_SIGNAL, Sleep, boot_ms
from ..errors import Unsupported
from ..failover import Failover
from ..introduction import SEQ_LIMIT, Introduction, measure
from ..notify import Manager
from ..probes import tcp_info
from ..probes.targets import Target
from ..ring import Ring
from ..sampler import Readings
from ..starting import Start
from ..trouble import hint
from .cadence import Cadence, Value
from .connection import Connection, Lost, Phase
from .pings import Pinger

WELCOME_S = 15.0
# The collector says something each 10 s: after three of those it is gone.
SILENCE_S = 35.0
GOOD_S = 10.0
CAP_S = 60.0  # each try may wake a radio
FLUSH_S = 2.0
SLEEP_S = 60.0  # awake for so long after announcing sleep: it was called off
FIRST_S = 0.1  # until the first frame
BURST_FRAMES = 16  # of the largest, about 40 KiB
MEASURE_S = 300.0


def serve(start: Start) -> None:
    """Run until SIGTERM or SIGINT; SIGHUP reads the settings again."""
    Loop(start, Manager()).run()
    start.host.close()


Watched = Connection | Pinger


class Loop:
    """The edge agent."""

    def __init__(self, start: Start, manager: Manager) -> None:
        self._start = start
        settings = start.settings
        self._settings = settings
        self._tls = start.tls
        self._log = start.log
        self._manager = manager
        self._host = start.host
        self._introduction = Introduction(
            settings, start.identity, start.token, start.host
        )
        self._measured = measure(settings, start.host)
        self._sampler = sampler(settings, start.host)
        self._ring = Ring(settings.ring_kib * 1024)
        self._cadence = Cadence(
            settings.interval_s, settings.calm_interval_s, settings.heartbeat_s
        )
        self._seq = boot_ms()
        self._rng = random.Random()
        self._failover = Failover(settings.collector)
        self._sleep = Sleep()
        self._selector = selectors.DefaultSelector()
        self._watched: dict[int, tuple[int, int, Watched]] = {}  # by descriptor
        self._pingers = [Pinger(target) for target in settings.targets]
        self._connection: Connection | None = None
        self._dial_at = 0.0
        self._welcomed_at = 0.0
        self._failures = 0
        self._failure: str | None = None
        self._welcomed = False
        self._heard_at = 0.0
        self._sent_seq = -1
        self._retransmits: int | None = None
        self._changes = Changes()
        self._stopping = False
        self._going_to_sleep = False
        self._reload_due = False

    def run(self) -> None:
        """Work until a signal says stop."""
        wake_read, wake_write = socket.socketpair()
        wake_write.setblocking(False)
        signal.set_wakeup_fd(wake_write.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        if SLEEP_SIGNAL is not None:
            signal.signal(SLEEP_SIGNAL, self._announce_sleep)
        signal.signal(signal.SIGHUP, self._hang_up)
        self._selector.register(wake_read, selectors.EVENT_READ)
        self._signals = wake_read
        self._log.info(
            "agent_started",
            node=self._introduction.name,
            mode="edge",
            collector=self._settings.collector,
        )
        self._sampler.sample(time.monotonic_ns())  # what differences begin from
        measure_at = watchdog_at = time.monotonic()
        sample_at = measure_at + min(FIRST_S, self._settings.interval_s)
        self._manager.tell("READY=1")
        while not self._stopping:
            now = time.monotonic()
            if self._reload_due:
                self._reload(now)
                sample_at = now
            if now >= sample_at:
                self._notice_sleep(now)
                self._sample(now)
                sample_at += self._cadence.pause_s(now)
                if sample_at <= now:  # slept through: not made up for
                    sample_at = now + self._cadence.interval_s
            if now - measure_at >= MEASURE_S:
                measure_at = now
                self._measure_again(now)
            if self._manager.watchdog_s and now >= watchdog_at:
                self._manager.tell("WATCHDOG=1")
                watchdog_at = now + self._manager.watchdog_s / 3
            wake_at = (
                min(sample_at, watchdog_at) if self._manager.watchdog_s else sample_at
            )
            if self._going_to_sleep:
                self._say_sleep(now)
            self._turn(now)
            self._wait(wake_at)
        self._finish()

    def _stop(self, number: int, frame: object) -> None:
        del number, frame
        self._stopping = True

    def _hang_up(self, number: int, frame: object) -> None:
        del number, frame
        self._reload_due = True

    def _reload(self, now: float) -> None:
        """Read the settings again, and take up what can change while running."""
        from ..reload import moved, reload

        self._reload_due = False
        before, after = self._start, reload(self._start, self._manager)
        if after is None:
            return
        settings = after.settings
        self._start, self._settings, self._tls = after, settings, after.tls
        self._introduction.adopt(settings)
        self._ring.resize(settings.ring_kib * 1024)
        self._cadence = Cadence(
            settings.interval_s, settings.calm_interval_s, settings.heartbeat_s
        )
        kept = {pinger.target: pinger for pinger in self._pingers}
        self._pingers = [
            kept.pop(t) if t in kept else Pinger(t) for t in settings.targets
        ]
        for pinger in kept.values():
            pinger.close()
        try:
            if moved(before, after):
                self._move(now)
            elif self._welcomed and self._connection is not None:
                self._connection.send(self._hello())
        except Lost as lost:
            self._lost(lost, now)

    # The connection

    def _move(self, now: float) -> None:
        """Leave this collector, and dial the one of the settings."""
        if self._welcomed and self._connection is not None:
            with suppress(Lost):
                self._connection.send(encode(Bye(Farewell.STOP)))
        self._drop()
        self._failover = Failover(self._settings.collector)
        self._dial_at, self._failures, self._failure = now, 0, None

    def _turn(self, now: float) -> None:
        """Dial if it is time; give up what takes too long."""
        try:
            if self._connection is None:
                if now >= self._dial_at:
                    self._connection = Connection(
                        Target(*self._failover.current), self._tls, now
                    )
            else:
                self._connection.turn(now)
                self._check_silence(now)
        except Lost as lost:
            self._lost(lost, now)
        for pinger in self._pingers:
            pinger.turn(now)

    def _announce_sleep(self, number: int, frame: object) -> None:
        del number, frame
        self._going_to_sleep = True

    def _say_sleep(self, now: float) -> None:
        """Tell the collector, and say nothing until the host is back."""
        self._going_to_sleep = False
        if self._welcomed and self._connection is not None:
            with suppress(Lost):
                self._connection.send(encode(Bye(Farewell.SLEEP)))
        self._log.info("sleep_announced")
        self._drop()
        self._dial_at = now + SLEEP_S

    def _notice_sleep(self, now: float) -> None:
        """Dial anew after a suspend: the old connection is long forgotten."""
        slept_ms = self._sleep.slept_ms()
        if slept_ms is not None:
            self._log.info("resumed", slept_s=slept_ms // 1000)
            self._dial_at = now
            if self._connection is not None:
                self._lost(Lost("this host was asleep"), now)

    def _check_silence(self, now: float) -> None:
        if self._connection is None or self._connection.phase is not Phase.OPEN:
            return
        limit_s = SILENCE_S if self._welcomed else WELCOME_S
        if now - self._heard_at > limit_s:
            raise Lost(f"nothing heard for {limit_s:g} s")

    def _wait(self, wake_at: float) -> None:
        """Sleep until the next thing to do, and do what the sockets want."""
        self._watch()
        due = min((wake_at, *(pinger.due_at for pinger in self._pingers)))
        if self._connection is None:
            due = min(due, self._dial_at)
        elif self._connection.deadline is not None:
            due = min(due, self._connection.deadline)
        timeout_s = max(0.0, due - time.monotonic())
        for key, _ in self._selector.select(timeout_s):
            now = time.monotonic()
            if key.data is None:
                self._signals.recv(64)
            elif isinstance(key.data, Pinger):
                key.data.ready(now)
            elif key.data is self._connection:
                self._serve_connection(now)

    def _watch(self) -> None:
        """Register what there is to wait for, and nothing that is gone."""
        wanted: dict[int, tuple[int, int, Watched]] = {}
        for each in (self._connection, *self._pingers):
            if each is not None and each.fileno() >= 0:
                wanted[each.fileno()] = (each.wants, each.sockets, each)
        if wanted == self._watched:
            return
        for descriptor in self._watched:
            with suppress(KeyError, ValueError, OSError):  # closed meanwhile
                self._selector.unregister(descriptor)
        for descriptor, (events, _, each) in wanted.items():
            self._selector.register(descriptor, events, each)
        self._watched = wanted

    def _serve_connection(self, now: float) -> None:
        connection = self._connection
        if connection is None:
            return
        was_open = connection.phase is Phase.OPEN
        try:
            messages = connection.ready(now)
            if not was_open and connection.phase is Phase.OPEN:
                self._heard_at = now
                connection.send(self._hello())
            for message in messages:
                self._heard_at = now
                self._handle(message, connection)
            self._send_unsent()
        except Lost as lost:
            self._lost(lost, now)

    def _lost(self, lost: Lost, now: float) -> None:
        failure = f"{lost}"
        if not self._welcomed:
            failure += hint(failure, lost.__cause__, tls=self._tls is not None)
        if self._welcomed:
            self._log.warning(
                "disconnected", collector=self._failover.current, error=failure
            )
        elif failure != self._failure:  # said once, not at each try
            self._log.warning(
                "cannot_connect", collector=self._failover.current, error=failure
            )
        self._failure = failure
        good = self._welcomed and now - self._welcomed_at > GOOD_S
        if not self._failover.failed(good=good):
            self._dial_at = now  # another collector may be there
            self._drop()
            return
        self._failures = 1 if good else self._failures + 1
        wait_s = max(lost.retry_s or 0.0, delay_s(self._failures, self._rng, CAP_S))
        self._dial_at = now + wait_s
        self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._welcomed = False
        self._retransmits = None

    def _hello(self) -> bytes:
        return encode(
            self._introduction.hello(
                self._measured,
                interval_s=self._cadence.interval_s,
                silence_s=self._cadence.heartbeat_s,
                targets=self._settings.targets,
            )
        )

    def _measure_again(self, now: float) -> None:
        measured = measure(self._settings, self._host)
        if measured == self._measured:
            return
        self._measured = measured
        if self._welcomed and self._connection is not None:
            try:
                self._connection.send(self._hello())
            except Lost as lost:
                self._lost(lost, now)

    def _handle(self, message: Message, connection: Connection) -> None:
        match message:
            case Welcome():
                self._welcome(message)
            case Ack():
                self._ring.acknowledge(message.seq)
            case Echo(reply=False):
                unix_ms = time.time_ns() // 1_000_000
                answer = message._replace(reply=True, unix_ms=unix_ms)
                connection.send(encode(answer))
            case Refused():
                raise Lost(
                    f"refused ({message.reason.name.lower()}): {message.text}",
                    message.retry_s,
                )
            case Bye():
                raise Lost(f"the collector says bye ({message.why.name.lower()})")
            case _:
                pass

    def _welcome(self, welcome: Welcome) -> None:
        if not self._welcomed:
            self._log.info("connected", collector=self._failover.current)
            self._welcomed_at = time.monotonic()
        self._welcomed, self._failure = True, None
        stored = -1 if welcome.stored_seq is None else welcome.stored_seq
        if stored < SEQ_LIMIT:
            self._seq = max(self._seq, stored)
        self._sent_seq = stored
        self._ring.acknowledge(stored)

    def _send_unsent(self) -> None:
        """Send what the ring holds, as long as the kernel takes it."""
        connection = self._connection
        if connection is None or not self._welcomed:
            return
        while not connection.unsent:
            unsent = self._ring.after(self._sent_seq, BURST_FRAMES)
            if not unsent:
                return
            connection.send(b"".join(held.data for held in unsent))
            self._sent_seq = unsent[-1].seq

    # The samples

    def _sample(self, now: float) -> None:
        readings = self._sampler.sample(time.monotonic_ns())
        self._changes.tell(readings.signals, self._log)
        link, holes = self._link()
        if not self._cadence.wanted(_values(readings, link), now):
            return
        self._seq += 1
        frame = Frame(
            seq=self._seq,
            boot_ms=boot_ms(),
            gaps=self._ring.dropped,
            cpu=readings.cpu,
            memory=readings.memory,
            io=readings.io,
            net=readings.net,
            links=(link, *(p.link(n) for n, p in enumerate(self._pingers, 1))),
            holes=(*readings.holes, *holes, *self._ping_holes(now)),
        )
        self._ring.push(frame.seq, encode(frame))
        try:
            self._send_unsent()
        except Lost as lost:
            self._lost(lost, now)

    def _ping_holes(self, now: float) -> list[Hole]:
        holes: list[Hole] = []
        for number, pinger in enumerate(self._pingers, 1):
            holes += pinger.holes(number, now)
        return holes

    def _link(self) -> tuple[Link, tuple[Hole, ...]]:
        """Return link 0 as the kernel sees it, and what of it is missing."""
        unsupported = (Hole("link.loss", State.UNSUPPORTED, None, 0),)
        connection = None if self._connection is None else self._connection.open_socket
        if connection is None or not self._welcomed:
            return Link(0, Method.TCP_INFO), unsupported
        try:
            info = tcp_info.read(connection)
        except (Unsupported, OSError):
            rtt = Hole("link.rtt", State.UNSUPPORTED, None, 0)
            return Link(0, Method.TCP_INFO), (rtt, *unsupported)
        before, self._retransmits = self._retransmits, info.retransmits
        link = Link(
            peer=0,
            method=Method.TCP_INFO,
            rtt_us=info.rtt_us,
            jitter_us=info.rttvar_us,
            retransmits=tcp_info.retransmitted(before, info.retransmits),
            tcp_rtt_us=info.rtt_us,
            tcp_rttvar_us=info.rttvar_us,
        )
        return link, unsupported

    def _finish(self) -> None:
        """Send what is left, wait for it to be stored, and say bye."""
        self._manager.tell("STOPPING=1")
        self._log.info("agent_stopping")
        deadline = time.monotonic() + FLUSH_S
        for pinger in self._pingers:
            pinger.close()
        self._pingers = []
        if self._welcomed and self._connection is not None:
            with suppress(Lost):
                # The collector acknowledges once more, then closes.
                self._connection.send(encode(Bye(Farewell.STOP)))
        while len(self._ring) and self._welcomed and time.monotonic() < deadline:
            self._wait(deadline)
        self._drop()
        self._selector.close()
        self._log.info("agent_stopped", lost=len(self._ring))


def _values(readings: Readings, link: Link) -> dict[str, Value]:
    values = {s.name: Value(s.value, s.unit) for s in readings.signals}
    rtt_us = None if link.rtt_us is None else float(link.rtt_us)
    values["link.rtt"] = Value(rtt_us, "us")
    return values
