"""The agent at work: sample, frame, ring, uplink, once an interval.

The sampling loop waits for nobody: probes read procfs only, pings run beside
it, and while the collector is away frames go into the ring.
"""

import asyncio
import ssl
import time
from contextlib import suppress

from trimtab.wire import VERSION, Frame, Hello, Hole, Link, Welcome, encode

from . import inventory
from .clocks import boot_ms
from .emit import Log
from .host import Host
from .identity import Identity
from .notify import Manager
from .probes.ping import Pinger
from .probes.resolve import parse_target
from .ring import Ring
from .sampler import Readings, Sampler
from .settings import Settings
from .uplink import Uplink

MOST_PEERS = 16  # that a collector may ask for, beside the configured targets
FLUSH_S = 2.0  # at the end, for the collector to store what it got
INVENTORY_S = 60.0  # CPUs and memory come and go on a running host


class Agent:
    """One host's agent, from its settings to its frames."""

    def __init__(
        self,
        settings: Settings,
        identity: Identity,
        token: str | None,
        host: Host,
        log: Log,
        manager: Manager,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._token = token
        self._host = host
        self._log = log
        self._manager = manager
        self._sampler = Sampler(host)
        self._ring = Ring(settings.ring_kib * 1024)
        self._uplink = Uplink(settings.collector, self._ring, self, log, tls=tls)
        self._interval_s = settings.interval_s
        self._boot_id = inventory.boot_id(host)
        self._machine = inventory.machine_hash()
        self._measured = self._measure()
        # Grows over restarts within a boot, with nothing kept on disk.
        self._seq = boot_ms()
        self._pingers: dict[str, Pinger] = {}
        self._ping_tasks: dict[str, asyncio.Task[None]] = {}
        self._states: dict[str, str] = {}  # as last logged, by signal

    def hello(self) -> Hello:
        """Return who is calling, as of now."""
        cpus, memory_mib = self._measured
        return Hello(
            node_id=self._identity.node_id,
            boot_id=self._boot_id,
            name=self._settings.name or inventory.node_name(_hostname()),
            key=self._identity.key,
            token=self._token,
            machine=self._machine,
            agent_version=VERSION,
            interval_ms=round(self._interval_s * 1000),
            boot_ms=boot_ms(),
            inventory=self._settings.inventory()._replace(
                cpus=cpus, memory_mib=memory_mib, targets=tuple(self._pingers)
            ),
        )

    def welcomed(self, welcome: Welcome) -> None:
        """Take the cadence and the peers that the collector asks for."""
        if welcome.stored_seq is not None and welcome.stored_seq > self._seq:
            # Restarted on a boot clock that went back (a migrated container).
            self._seq = welcome.stored_seq
        changed = False
        if welcome.interval_ms is not None:
            interval_s = max(0.05, welcome.interval_ms / 1000)
            changed = interval_s != self._interval_s
            self._interval_s = interval_s
        if self._settings.accept_peers:
            wanted = (*self._settings.targets, *welcome.peers[:MOST_PEERS])
            changed |= self._ping(wanted)
        if changed:
            self._uplink.greet_again()

    async def run(self, stopping: asyncio.Event) -> None:
        """Work until told to stop."""
        self._ping(self._settings.targets)
        uplink = asyncio.create_task(self._uplink.run())
        sampling = asyncio.create_task(self._sample_for_ever())
        stop = asyncio.create_task(stopping.wait())
        self._log.info(
            "agent_started",
            node=self.hello().name,
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
        tasks = [uplink, sampling, stop, *self._ping_tasks.values()]
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended  # a bug: let it be seen
        self._log.info("agent_stopped", lost=0 if flushed else len(self._ring))

    async def _sample_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        ready = False
        measured_at = due
        watchdog_at = due
        while True:
            self._sample()
            if not ready:
                self._manager.tell("READY=1")
                ready = True
            if self._manager.watchdog_s and due >= watchdog_at:
                self._manager.tell("WATCHDOG=1")
                watchdog_at = due + self._manager.watchdog_s / 3
            if due - measured_at >= INVENTORY_S:
                measured_at = due
                self._measure_again()
            # On the grid of the interval; turns that were slept through
            # (suspend, a frozen process) are not made up for.
            due += self._interval_s
            if due < loop.time():
                due = loop.time() + self._interval_s
            await asyncio.sleep(due - loop.time())

    def _sample(self) -> None:
        readings = self._sampler.sample(time.monotonic_ns())
        self._say_changes(readings)
        links, link_holes = self._links()
        self._seq += 1
        frame = Frame(
            seq=self._seq,
            boot_ms=boot_ms(),
            gaps=self._ring.dropped,
            cpu=readings.cpu,
            memory=readings.memory,
            links=links,
            holes=(*readings.holes, *link_holes),
        )
        self._ring.push(frame.seq, encode(frame))
        self._uplink.frame_ready()

    def _links(self) -> tuple[tuple[Link, ...], tuple[Hole, ...]]:
        pingers = list(enumerate(self._pingers.values(), start=1))
        links = (self._uplink.link(), *(p.link(peer) for peer, p in pingers))
        holes = [*self._uplink.holes()]
        for peer, pinger in pingers:
            holes += pinger.holes(peer)
        return links, tuple(holes)

    def _say_changes(self, readings: Readings) -> None:
        for signal in readings.signals:
            state = signal.state.name.lower()
            if self._states.get(signal.name, "ok") != state:
                self._log.info(
                    "signal_state",
                    signal=signal.name,
                    state=state,
                    reason=signal.reason or None,
                    mend=signal.mend or None,
                )
            self._states[signal.name] = state

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

    def _measure(self) -> tuple[int | None, int | None]:
        cpus = None
        with suppress(Exception):
            cpus = inventory.usable_cpus(self._host)
        return cpus, inventory.memory_mib(self._host)

    def _measure_again(self) -> None:
        measured = self._measure()
        if measured != self._measured:
            self._measured = measured
            self._uplink.greet_again()


def _hostname() -> str:
    import socket

    return socket.gethostname()
