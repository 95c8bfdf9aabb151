"""The agent at work: sample, frame, ring, uplink, once an interval.

One loop does all of it. Probes read procfs, which never waits; pings go out in
the same wake-up as the sample; while the collector is away frames go into the
ring.
"""

import time
from typing import TYPE_CHECKING

from trimtab.wire import Frame, GpuInfo, Hello, Hole, Link, Welcome, encode

from . import modes
from .backend import sampler
from .cadence import Cadence, OnChange
from .changes import Changes
from .clocks import Sleep, boot_ms
from .collector_link import Echoes, Kernel
from .introduction import SEQ_LIMIT, Introduction, measure
from .loop import Loop
from .notify import Manager
from .probes.targets import parse_target
from .ring import Ring
from .settings import Settings
from .starting import Start
from .uplink import Uplink

if TYPE_CHECKING:
    from .gpu.probe import GpuProbe
    from .probes.ping import Pings

DEV = "/dev"
MOST_PEERS = 16  # that a collector may ask for, beside the configured targets
FIRST_S = 0.1  # until the first frame: most signals are differences
FLUSH_S = 2.0  # at the end, for the collector to store what it got
GPU_END_S = 5.0  # at the end, for the GPU's child to be gone


class Agent:
    """One host's agent, from its settings to its frames."""

    def __init__(
        self, start: Start, manager: Manager, loop: Loop | None = None
    ) -> None:
        settings = start.settings
        self._start = start
        self._settings = settings
        self._mode = modes.of(settings.mode)
        self._log = start.log
        self._host = start.host
        self._manager = manager
        self._loop = loop or Loop()
        self._introduction = Introduction(
            settings, start.identity, start.token, start.host
        )
        self._sampler = sampler(settings, start.host, self._mode)
        self._ring = Ring(settings.ring_kib * 1024)
        self._link: Kernel = Echoes() if self._mode.echoes else Kernel()
        self._uplink = Uplink(
            self._loop, self._mode, self._link, self._ring, self, start.log
        )
        self._cadence = self._paced(settings)
        self._measured = measure(settings, start.host)
        self._measured_s = 0.0
        # Grows over restarts within a boot, with nothing kept on disk.
        self._seq = boot_ms()
        self._peers: tuple[str, ...] = ()  # that the collector asks for
        self._pings: Pings | None = None  # None: there never was a target
        self._pinged_s = 0.0
        self._changes = Changes()
        self._due_s = 0.0  # the next sample
        self._ready = False
        self._sleep = Sleep()
        self._gpu: GpuProbe | None = None  # None: no GPU was seen
        self._gpu_infos: tuple[GpuInfo, ...] = ()
        self._stopping = self._flushed = False
        self.ended = False

    # What others ask for

    def run(self) -> None:
        """Work until stopped."""
        self.begin()
        while not self.ended:
            self._loop.turn()
        self._loop.close()

    def begin(self) -> None:
        """Dial and take the first sample; the loop does the rest."""
        self._ping()
        self._look_for_gpus()
        self._sampler.sample(time.monotonic_ns())  # what differences begin from
        self._measured_s = now_s = time.monotonic()
        self._due_s = now_s + min(FIRST_S, self._cadence.interval_s)
        self._loop.at(self._due_s, self._tick)
        if self._manager.watchdog_s:
            self._loop.at(now_s, self._feed_watchdog)
        self._uplink.call(self._settings.collector, self._start.tls)
        self._log.info(
            "agent_started",
            node=self._introduction.name,
            mode=self._settings.mode,
            collector=self._settings.collector,
            interval_s=self._cadence.interval_s,
        )

    def stop(self) -> None:
        """End in order: what is left is sent and, for a while, waited for."""
        if self._stopping:
            return
        self._stopping = True
        self._manager.tell("STOPPING=1")
        self._log.info("agent_stopping")
        for call in (self._tick, self._feed_watchdog):
            self._loop.cancel(call)
        if self._pings is not None:
            self._pings.close()
        if self._gpu is not None:
            self._gpu.stop(self._end_if_done)
        # The ring is memory: what is not stored now is lost with it.
        self._loop.at(time.monotonic() + FLUSH_S, self.flushed)
        self._uplink.finish()

    def reload(self) -> None:
        """Read the settings again, and take up what can change while running."""
        from .reload import moved, reload

        if self._stopping:
            return
        before, after = self._start, reload(self._start, self._manager)
        if after is None:
            return
        settings = after.settings
        self._start, self._settings = after, settings
        self._introduction.adopt(settings)
        self._ring.resize(settings.ring_kib * 1024)
        if moved(before, after):
            self._peers = ()
            self._uplink.call(settings.collector, after.tls)
        if _pace(settings) != _pace(before.settings):
            self._cadence = self._paced(settings)
            # The sleep of an hour, if the interval was that, ends now.
            self._due_s = time.monotonic()
            self._loop.at(self._due_s, self._tick)
        self._ping()
        self._uplink.greet_again()

    def announce_sleep(self) -> None:
        """Tell the collector that this host is about to sleep."""
        self._uplink.announce_sleep()

    # What the uplink asks for

    def hello(self) -> Hello:
        """Return who is calling, as of now."""
        return self._introduction.hello(
            self._measured,
            interval_s=self._cadence.interval_s,
            silence_s=self._cadence.silence_s,
            targets=() if self._pings is None else tuple(self._pings.pingers),
            gpus=self._gpu_infos,
        )

    def welcomed(self, welcome: Welcome) -> None:
        """Take the cadence and the peers that the collector asks for."""
        if welcome.stored_seq is not None and welcome.stored_seq < SEQ_LIMIT:
            # Ahead of us: restarted on a boot clock that went back.
            self._seq = max(self._seq, welcome.stored_seq)
        if not self._mode.obeys:
            return
        changed = False
        if welcome.interval_ms is not None:
            interval_s = max(0.05, welcome.interval_ms / 1000)
            changed = interval_s != self._cadence.interval_s
            self._cadence.interval_s = interval_s
        self._peers = welcome.peers[:MOST_PEERS]
        changed |= self._ping()
        if changed:
            self._uplink.greet_again()

    def flushed(self) -> None:
        """Hang up: all is stored, or nothing more can be."""
        if self._flushed:
            return
        self._flushed = True
        self._uplink.close()
        self._loop.at(time.monotonic() + GPU_END_S, self._end)
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._flushed and (self._gpu is None or self._gpu.ended):
            self._end()

    def _end(self) -> None:
        if not self.ended:
            self.ended = True
            self._log.info("agent_stopped", lost=len(self._ring))

    # Each interval

    def _tick(self) -> None:
        now_s = time.monotonic()
        self._notice_sleep()
        self._sample(now_s)
        self._probe_targets(now_s)
        if not self._ready:
            self._ready = True
            self._manager.tell("READY=1")
        if now_s - self._measured_s >= self._mode.inventory_s:
            self._measured_s = now_s
            self._measure_again()
        # On the grid of the interval; turns that were slept through
        # (suspend, a frozen process) are not made up for.
        self._due_s += self._cadence.pause_s(now_s)
        if self._due_s <= time.monotonic():
            self._due_s = time.monotonic() + self._cadence.interval_s
        self._loop.at(self._due_s, self._tick)

    def _notice_sleep(self) -> None:
        """Dial anew after a suspend: the old connection is long forgotten."""
        slept_ms = self._sleep.slept_ms()
        if slept_ms is not None:
            self._log.info("resumed", slept_s=slept_ms // 1000)
            self._uplink.awake()

    def _feed_watchdog(self) -> None:
        """Tell the manager that samples still come, however seldom."""
        watchdog_s = self._manager.watchdog_s
        if watchdog_s is None:
            return
        now_s = time.monotonic()
        if now_s - self._due_s < watchdog_s:
            self._manager.tell("WATCHDOG=1")
        self._loop.at(now_s + watchdog_s / 3, self._feed_watchdog)

    def _sample(self, now_s: float) -> None:
        readings = self._sampler.sample(time.monotonic_ns())
        self._changes.tell(readings.holes, self._sampler.signals, self._log)
        readings.values["link.rtt"] = self._link.look()
        if not self._cadence.wanted(readings.values, now_s):
            return
        links, link_holes = self._links()
        self._greet_new_gpus()
        self._seq += 1
        frame = Frame(
            seq=self._seq,
            boot_ms=boot_ms(),
            gaps=self._ring.dropped,
            cpu=readings.cpu,
            memory=readings.memory,
            links=links,
            gpus=None if self._gpu is None else self._gpu.section(now_s),
            holes=(*readings.holes, *link_holes, *self._gpu_holes()),
            io=readings.io,
            net=readings.net,
            clock_offset_ms=self._link.clock_offset_ms,
        )
        self._ring.push(frame.seq, encode(frame))
        self._uplink.frame_ready()

    def _links(self) -> tuple[tuple[Link, ...], tuple[Hole, ...]]:
        first, holes = self._link.figures()
        if self._pings is None:
            return (first,), holes
        links, more = self._pings.figures()
        return (first, *links), (*holes, *more)

    def _measure_again(self) -> None:
        measured = measure(self._settings, self._host)
        self._look_for_gpus()
        if measured != self._measured:
            self._measured = measured
            self._uplink.greet_again()

    def _paced(self, settings: Settings) -> Cadence:
        if self._mode.on_change:
            return OnChange(*_pace(settings))
        return Cadence(settings.interval_s)

    # Targets and peers

    def _probe_targets(self, now_s: float) -> None:
        """Ping all that are due, which costs no wake-up of its own."""
        if self._pings is None:
            return
        wait_s = max(self._mode.ping_s, self._cadence.interval_s)
        # Half a sample early is better than a whole one late.
        if now_s - self._pinged_s >= wait_s - self._cadence.interval_s / 2:
            self._pinged_s = now_s
            self._pings.probe()

    def _ping(self) -> bool:
        """Ping whom settings and collector name; return whether that is a change."""
        peers = self._peers if self._settings.accept_peers else ()
        good = []
        for target in (*self._settings.targets, *peers):
            try:
                parse_target(target)
            except ValueError as exc:
                self._log.warning("target_ignored", target=target, reason=exc)
            else:
                good.append(target)
        if self._pings is None:
            if not good:
                return False
            # Here, not above: most agents have no targets and need none of it.
            from .probes.ping import Pings

            self._pings = Pings(self._loop)
        return self._pings.want(good)

    # GPUs

    def _look_for_gpus(self) -> None:
        """Start the GPU probe where there is a GPU; elsewhere load none of it."""
        settings = self._settings
        if self._gpu is not None or not (settings.gpu and self._mode.gpus):
            return
        from .gpu.presence import look

        trees = (settings.sysfs, settings.procfs, DEV)
        if not look(*trees).gpu:
            return
        from .gpu.probe import GpuProbe
        from .gpu.settings import GpuSettings

        chosen = GpuSettings(
            init_deadline_s=settings.gpu_init_deadline_s,
            tick_deadline_s=settings.gpu_tick_deadline_s,
            gpm=settings.gpu_gpm,
        )
        self._gpu = GpuProbe(
            *trees, log=self._log, settings=chosen, state_dir=settings.state_dir
        )
        self._gpu.start(self._loop)

    def _gpu_holes(self) -> tuple[Hole, ...]:
        return () if self._gpu is None else self._gpu.holes()

    def _greet_new_gpus(self) -> None:
        infos = () if self._gpu is None else self._gpu.infos()
        if infos != self._gpu_infos:
            self._gpu_infos = infos
            self._uplink.greet_again()


def _pace(settings: Settings) -> tuple[float, float, float]:
    return settings.interval_s, settings.calm_interval_s, settings.heartbeat_s
