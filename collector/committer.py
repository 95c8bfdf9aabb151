"""From memory to the store: a transaction each second, then its ack.

A sample is acknowledged only once it is stored, so what a kill takes from
memory is still in the agents' rings and comes again. When the store fails
(disk full, file locked), the sums stay in memory, scoring goes on, and the
next commit tries again.
"""

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import structlog

from .fleet import Fleet
from .session import Clock
from .settings import Settings
from .store import Registered, Store

log = structlog.get_logger()

LEAP_S = 3600.0


class Committer:
    """Owns the store's writing thread."""

    def __init__(
        self, fleet: Fleet, store: Store, settings: Settings, clock: Clock
    ) -> None:
        self._fleet = fleet
        self._store = store
        self._settings = settings
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._turn = asyncio.Lock()
        self._skew_s = clock.unix() - clock.monotonic()
        self._forget_at = 0.0
        self.failure: str | None = None  # of the last commit

    async def commit(self) -> dict[int, int]:
        """Store what is new; return the highest stored sequence by row.

        Cancelled or not, a write that began is waited for and accounted for.
        """
        return await asyncio.shield(self._commit())

    async def _commit(self) -> dict[int, int]:
        async with self._turn:
            return await self._commit_now()

    async def _commit_now(self) -> dict[int, int]:
        fleet, unix_now = self._fleet, self._clock.unix()
        fleet.score_waiting(self._clock.monotonic(), unix_now)
        minutes = fleet.rollups.drain()
        rows = {key.row for key in minutes} | fleet.unsaved
        rows = {row for row in rows if fleet.there[row]}
        forgotten, fleet.forgotten = fleet.forgotten, []
        retired = fleet.take_retired()
        if not (rows or forgotten or minutes):
            fleet.reuse(retired)
            return {}
        fleet.unsaved = set()
        stored = {
            row: (fleet.nodes[row].hello.boot_id, int(fleet.seq[row])) for row in rows
        }
        nodes = [self._registered(row) for row in rows]
        sums = [
            (fleet.nodes[key.row].shown_id, key.minute, value)
            for key, value in minutes.items()
        ]
        oldest = self._forget_before(unix_now)
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._thread, self._store.commit, nodes, sums, oldest, forgotten
            )
        except sqlite3.Error as exc:
            fleet.rollups.put_back(minutes)
            fleet.unsaved |= rows
            fleet.forgotten += forgotten
            fleet.retire_again(retired)
            if self.failure is None:
                log.error("store_failing", error=str(exc), file=str(self._store.path))
            self.failure = str(exc)
            return {}
        fleet.reuse(retired)
        if self.failure is not None:
            log.info("store_recovered", file=str(self._store.path))
            self.failure = None
        # A node may have booted anew while this was being written: its new
        # sequences have nothing to do with what was stored.
        return {
            row: seq
            for row, (boot_id, seq) in stored.items()
            if seq >= 0 and fleet.nodes[row].hello.boot_id == boot_id
        }

    def _forget_before(self, unix_now: float) -> int:
        """Return the oldest minute to keep.

        After a leap of the wall clock nothing is forgotten for an hour: it
        may be a mistake, and history is not to be paid for it.
        """
        now = self._clock.monotonic()
        skew_s = unix_now - now
        if abs(skew_s - self._skew_s) > LEAP_S:
            log.warning("clock_stepped", by_s=round(skew_s - self._skew_s))
            self._forget_at = now + LEAP_S
        self._skew_s = skew_s
        if now < self._forget_at:
            return 0
        return int(unix_now // 60) - self._settings.keep_minutes_h * 60

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
        )

    def close(self) -> None:
        """Wait for the write under way, and end the thread."""
        self._thread.shutdown(wait=True)
