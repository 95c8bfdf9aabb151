"""From memory to the store: a transaction each second, then its ack.

A sample is acknowledged only once it is stored, so what a kill takes from
memory is still in the agents' rings and comes again. When the store fails
(disk full, file locked), the sums stay in memory, scoring goes on, and the
next commit tries again. When the file is damaged or gone, a new one is made
from what is in memory.
"""

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import structlog

from .credentials import Credentials
from .decided import Decided
from .events import Events, Kind
from .fleet import Fleet
from .session import Clock
from .settings import Settings
from .store import Batch, Keep, Registered, Store, damaging

log = structlog.get_logger()

LEAP_S = 3600.0
MIB = 2**20


class Committer:
    """Owns the store's writing thread."""

    def __init__(
        self,
        fleet: Fleet,
        store: Store,
        events: Events,
        decided: Decided,
        credentials: Credentials,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._fleet = fleet
        self._store = store
        self._events = events
        self._decided = decided
        self._credentials = credentials
        self._settings = settings
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._turn = asyncio.Lock()
        self._skew_s = clock.unix() - clock.monotonic()
        self._forget_at = 0.0
        self.notices: list[int] = []  # taken up, to be deleted
        self.failure: str | None = None  # of the last commit

    async def commit(self) -> dict[int, int]:
        """Store what is new; return the highest stored sequence by row.

        Cancelled or not, a write that began is waited for and accounted for.
        """
        return await asyncio.shield(self._commit())

    async def _commit(self) -> dict[int, int]:
        async with self._turn:
            broken = self._store.broken
            if broken is not None:
                await self._renew(broken)
            return await self._commit_now()

    async def _commit_now(self) -> dict[int, int]:
        fleet, unix_now = self._fleet, self._clock.unix()
        fleet.score_waiting(self._clock.monotonic(), unix_now)
        minutes = fleet.rollups.drain()
        rows = {key.row for key in minutes} | fleet.unsaved
        rows = {row for row in rows if fleet.there[row]}
        forgotten, fleet.forgotten = fleet.forgotten, []
        retired = fleet.take_retired()
        events = self._events.take_unsaved()
        decisions = self._decided.take_unsaved()
        notices, self.notices = self.notices, []
        if not (rows or forgotten or minutes or events or decisions or notices):
            fleet.reuse(retired)
            return {}
        fleet.unsaved = set()
        stored = {
            row: (fleet.nodes[row].hello.boot_id, int(fleet.seq[row])) for row in rows
        }
        batch = Batch(
            nodes=[self._registered(row) for row in rows],
            minutes=[
                (fleet.nodes[key.row].shown_id, key.minute, value)
                for key, value in minutes.items()
            ],
            forgotten=forgotten,
            events=events,
            decisions=decisions,
            notices_taken=notices,
        )
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._thread, self._store.commit, batch, self._keep(unix_now), unix_now
            )
        except sqlite3.Error as exc:
            fleet.rollups.put_back(minutes)
            fleet.unsaved |= rows
            fleet.forgotten += forgotten
            fleet.retire_again(retired)
            self._events.put_back(events)
            self.notices += notices
            await self._failed(exc)
            return {}
        fleet.reuse(retired)
        if self.failure is not None:
            self._events.say(
                Kind.COLLECTOR, f"the store works again: {self._store.path}"
            )
            self.failure = None
        # A node may have booted anew while this was being written: its new
        # sequences have nothing to do with what was stored.
        return {
            row: seq
            for row, (boot_id, seq) in stored.items()
            if seq >= 0 and fleet.nodes[row].hello.boot_id == boot_id
        }

    async def _failed(self, exc: sqlite3.Error) -> None:
        if self.failure is None:
            log.error("store_failing", error=str(exc), file=str(self._store.path))
        self.failure = str(exc)
        if damaging(exc):
            await self._renew(str(exc))

    async def _renew(self, why: str) -> None:
        """Make a new file; all that memory holds goes into it."""
        loop = asyncio.get_running_loop()
        try:
            aside = await loop.run_in_executor(self._thread, self._store.renew)
            for credential in self._credentials.known():
                await loop.run_in_executor(
                    self._thread, self._store.add_credential, credential
                )
        except (sqlite3.Error, OSError) as exc:
            if self.failure is None:
                log.error("store_failing", error=str(exc), file=str(self._store.path))
            self.failure = str(exc)
            return
        self._fleet.unsaved |= set(self._fleet.rows())
        moved = f", moved to {aside}" if aside else ""
        log.error("store_renewed", file=str(self._store.path), why=why, aside=aside)
        self._events.say(
            Kind.COLLECTOR,
            f"the database was made anew from memory: {why}{moved}. History before "
            "is lost",
        )
        self.failure = None

    def _keep(self, unix_now: float) -> Keep:
        """Return up to where history is kept.

        After a leap of the wall clock nothing is forgotten for an hour: it
        may be a mistake, and history is not to be paid for it.
        """
        settings, now = self._settings, self._clock.monotonic()
        skew_s = unix_now - now
        if abs(skew_s - self._skew_s) > LEAP_S:
            by_s = round(skew_s - self._skew_s)
            log.warning("clock_stepped", by_s=by_s)
            self._events.say(
                Kind.COLLECTOR, f"this host's wall clock stepped by {by_s} s"
            )
            self._forget_at = now + LEAP_S
        self._skew_s = skew_s
        size_bytes = settings.max_store_mib * MIB
        if now < self._forget_at:
            return Keep(size_bytes=size_bytes)
        hour = int(unix_now // 3600)
        return Keep(
            minute=(hour - settings.keep_minutes_h) * 60,
            hour=hour - settings.keep_hours_d * 24,
            size_bytes=size_bytes,
        )

    def _registered(self, row: int) -> Registered:
        node = self._fleet.nodes[row]
        return Registered(
            hello=node.hello,
            name=node.name,
            key_hash=node.key_hash,
            admin=int(self._fleet.admin[row]),
            seq=int(self._fleet.seq[row]),
            first_seen=node.first_seen,
            last_seen=node.last_seen,
            clone_of=node.clone_of,
            drain=self._fleet.drains.get(row),
            announced=node.announced,
        )

    def close(self) -> None:
        """Wait for the write under way, and end the thread."""
        self._thread.shutdown(wait=True)
