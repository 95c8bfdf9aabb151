"""The agent at work: sample, frame, ring, uplink, once an interval.

The sampling loop waits for nobody: probes read procfs only, pings run beside
it, and while the collector is away frames go into the ring.
"""

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.wire import Frame, GpuInfo, Hello, Hole, Link, Welcome, encode

from .backend import sampler
from .changes import Changes
from .clocks import Sleep, boot_ms
from .gpu.presence import look
from .introduction import SEQ_LIMIT, Introduction, measure
from .notify import Manager
from .probes.ping import Pinger
from .probes.targets import parse_target
from .ring import Ring
from .starting import Start
from .uplink import Uplink

if TYPE_CHECKING:
    from .gpu.probe import GpuProbe

DEV = Path("/dev")
MOST_PEERS = 16  # that a collector may ask for, beside the configured targets
FIRST_S = 0.1  # until the first frame
FLUSH_S = 2.0  # at the end, for the collector to store what it got
INVENTORY_S = 60.0  # CPUs and memory come and go on a running host


class Agent:
    """One host's agent, from its settings to its frames."""

    def __init__(self, start: Start, manager: Manager) -> None:
        self._start = start
        self._settings = start.settings
        self._host = start.host
        self._log = start.log
        self._manager = manager
        self._introduction = Introduction(
            start.settings, start.identity, start.token, start.host
        )
        self._sampler = sampler(start.settings, start.host)
        self._ring = Ring(start.settings.ring_kib * 1024)
        self._uplink = self._new_uplink()
        self._moved = asyncio.Event()  # the collector is another one now
        self._interval_s = start.settings.interval_s
        self._measured = measure(start.settings, start.host)
        # Grows over restarts within a boot, with nothing kept on disk.
        self._seq = boot_ms()
        self._peers: tuple[str, ...] = ()  # that the collector asks for
        self._pingers: dict[str, Pinger] = {}
        self._ping_tasks: dict[str, asyncio.Task[None]] = {}
        self._changes = Changes()
        self._sampled_at = 0.0  # on the loop's clock
        self._pause: asyncio.Future[None] | None = None  # until the next sample
        self._sleep = Sleep()
        self._gpu: GpuProbe | None = None  # None: no GPU was seen
        self._gpu_task: asyncio.Task[None] | None = None
        self._gpu_infos: tuple[GpuInfo, ...] = ()

    def hello(self) -> Hello:
        """Return who is calling, as of now."""
        return self._introduction.hello(
            self._measured,
            interval_s=self._interval_s,
            targets=tuple(self._pingers),
            gpus=self._gpu_infos,
        )

    def welcomed(self, welcome: Welcome) -> None:
        """Take the cadence and the peers that the collector asks for."""
        if welcome.stored_seq is not None and welcome.stored_seq < SEQ_LIMIT:
            # Ahead of us: restarted on a boot clock that went back.
            self._seq = max(self._seq, welcome.stored_seq)
        changed = False
        if welcome.interval_ms is not None:
            interval_s = max(0.05, welcome.interval_ms / 1000)
            changed = interval_s != self._interval_s
            self._interval_s = interval_s
        self._peers = welcome.peers[:MOST_PEERS]
        changed |= self._ping(self._wanted())
        if changed:
            self._uplink.greet_again()

    def reload(self) -> None:
        """Read the settings again, and take up what can change while running."""
        from .reload import moved, reload

        before, after = self._start, reload(self._start, self._manager)
        if after is None:
            return
        self._start, self._settings = after, after.settings
        self._introduction.adopt(after.settings)
        self._ring.resize(after.settings.ring_kib * 1024)
        if after.settings.interval_s != before.settings.interval_s:
            self._interval_s = after.settings.interval_s
            self._end_pause()
        if moved(before, after):
            self._peers = ()
            self._moved.set()
        self._ping(self._wanted())
        self._uplink.greet_again()

    def announce_sleep(self) -> None:
        """Tell the collector that this host is about to sleep."""
        self._uplink.announce_sleep()

    async def run(self, stopping: asyncio.Event) -> None:
        """Work until told to stop."""
        self._ping(self._settings.targets)
        self._look_for_gpus()
        uplink = asyncio.create_task(self._stay_connected())
        sampling = asyncio.create_task(self._sample_for_ever())
        stop = asyncio.create_task(stopping.wait())
        tasks = [uplink, sampling, stop]
        if self._manager.watchdog_s:
            self._sampled_at = asyncio.get_running_loop().time()
            feeding = self._feed_watchdog(self._manager.watchdog_s)
            tasks.append(asyncio.create_task(feeding))
        self._log.info(
            "agent_started",
            node=self._introduction.name,
            collector=self._settings.collector,
            interval_s=self._interval_s,
        )
        await asyncio.wait(
            {uplink, sampling, stop}, return_when=asyncio.FIRST_COMPLETED
        )
        self._manager.tell("STOPPING=1")
        self._log.info("agent_stopping")
        sampling.cancel()
        # The ring is memory: what is not stored now is lost with it.
        flushed = await self._uplink.flushed(FLUSH_S)
        tasks += self._ping_tasks.values()
        if self._gpu_task is not None:
            tasks.append(self._gpu_task)
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended  # a bug: let it be seen
        self._log.info("agent_stopped", lost=0 if flushed else len(self._ring))

    def _new_uplink(self) -> Uplink:
        return Uplink(
            self._settings.collector,
            self._ring,
            self,
            self._log,
            tls=self._start.tls,
        )

    async def _stay_connected(self) -> None:
        """Run the uplink, and after a move one to the other collector."""
        while True:
            calling = asyncio.create_task(self._uplink.run())
            moving = asyncio.create_task(self._moved.wait())
            both = {calling, moving}
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in both:
                    task.cancel()
                await asyncio.gather(*both, return_exceptions=True)
            if not calling.cancelled():
                calling.result()  # a bug: let it be seen
            self._moved.clear()
            self._uplink = self._new_uplink()

    async def _sample_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        self._sampler.sample(time.monotonic_ns())  # what differences begin from
        await asyncio.sleep(min(FIRST_S, self._interval_s))
        due = loop.time()
        ready = False
        measured_at = due
        while True:
            self._notice_sleep()
            self._sample()
            self._sampled_at = loop.time()
            if not ready:
                self._manager.tell("READY=1")
                ready = True
            if due - measured_at >= INVENTORY_S:
                measured_at = due
                self._measure_again()
            # On the grid of the interval; turns that were slept through
            # (suspend, a frozen process) are not made up for.
            due += self._interval_s
            if due < loop.time():
                due = loop.time() + self._interval_s
            await self._pause_for(due - loop.time())
            due = min(due, loop.time())  # a reload ends the pause early

    async def _pause_for(self, pause_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._pause = loop.create_future()
        timer = loop.call_later(pause_s, self._end_pause)
        try:
            await self._pause
        finally:
            timer.cancel()

    def _end_pause(self) -> None:
        if self._pause is not None and not self._pause.done():
            self._pause.set_result(None)

    def _notice_sleep(self) -> None:
        """Dial anew after a suspend: the old connection is long forgotten."""
        slept_ms = self._sleep.slept_ms()
        if slept_ms is not None:
            self._log.info("resumed", slept_s=slept_ms // 1000)
            self._uplink.hang_up("this host was asleep")

    async def _feed_watchdog(self, watchdog_s: float) -> None:
        """Tell the manager that samples still come, however seldom."""
        loop = asyncio.get_running_loop()
        while True:
            late_s = loop.time() - self._sampled_at - self._interval_s
            if late_s < watchdog_s:
                self._manager.tell("WATCHDOG=1")
            await asyncio.sleep(watchdog_s / 3)

    def _sample(self) -> None:
        readings = self._sampler.sample(time.monotonic_ns())
        self._changes.tell(readings.signals, self._log)
        links, link_holes = self._links()
        gpu_holes = () if self._gpu is None else self._gpu.holes()
        self._greet_new_gpus()
        self._seq += 1
        frame = Frame(
            seq=self._seq,
            boot_ms=boot_ms(),
            gaps=self._ring.dropped,
            cpu=readings.cpu,
            memory=readings.memory,
            links=links,
            gpus=None if self._gpu is None else self._gpu.section(time.monotonic()),
            holes=(*readings.holes, *link_holes, *gpu_holes),
            io=readings.io,
            net=readings.net,
            clock_offset_ms=self._uplink.clock_offset_ms,
        )
        self._ring.push(frame.seq, encode(frame))
        self._uplink.frame_ready()

    def _greet_new_gpus(self) -> None:
        infos = () if self._gpu is None else self._gpu.infos()
        if infos != self._gpu_infos:
            self._gpu_infos = infos
            self._uplink.greet_again()

    def _look_for_gpus(self) -> None:
        """Start the GPU probe where there is a GPU; elsewhere load none of it."""
        settings = self._settings
        trees = (settings.sysfs, settings.procfs, DEV)
        if self._gpu is not None or not settings.gpu or not look(*trees).gpu:
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
        self._gpu_task = asyncio.create_task(self._gpu.run())

    def _links(self) -> tuple[tuple[Link, ...], tuple[Hole, ...]]:
        pingers = list(enumerate(self._pingers.values(), start=1))
        links = (self._uplink.link(), *(p.link(peer) for peer, p in pingers))
        holes = [*self._uplink.holes()]
        for peer, pinger in pingers:
            holes += pinger.holes(peer)
        return links, tuple(holes)

    def _wanted(self) -> tuple[str, ...]:
        peers = self._peers if self._settings.accept_peers else ()
        return (*self._settings.targets, *peers)

    def _ping(self, wanted: tuple[str, ...]) -> bool:
        """Ping exactly these from now on; return whether that is a change."""
        good: list[str] = []
        for target in dict.fromkeys(wanted):
            try:
                parse_target(target)
            except ValueError as exc:
                self._log.warning("target_ignored", target=target, reason=exc)
            else:
                good.append(target)
        if good == list(self._pingers):
            return False
        for target in set(self._pingers) - set(good):
            self._ping_tasks.pop(target).cancel()
        self._pingers = {
            target: self._pingers.get(target)
            or Pinger(target, interval_s=max(1.0, self._interval_s))
            for target in good
        }
        for target in good:
            if target not in self._ping_tasks:
                task = asyncio.create_task(self._pingers[target].run())
                self._ping_tasks[target] = task
        return True

    def _measure_again(self) -> None:
        measured = measure(self._settings, self._host)
        self._look_for_gpus()
        if measured != self._measured:
            self._measured = measured
            self._uplink.greet_again()
