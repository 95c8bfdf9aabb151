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
        self.failure: str | None = None  # of the last commit

    async def commit(self) -> dict[int, int]:
        """Store what is new; return the highest stored sequence by row."""
        fleet, unix_now = self._fleet, self._clock.unix()
        fleet.score_waiting(self._clock.monotonic(), unix_now)
        minutes = fleet.rollups.drain()
        rows = {key.row for key in minutes} | fleet.unsaved
        if not rows:
            return {}
        fleet.unsaved = set()
        stored = {row: int(fleet.seq[row]) for row in rows}
        nodes = [self._registered(row) for row in rows]
        sums = [
            (fleet.nodes[key.row].node_id, key.minute, value)
            for key, value in minutes.items()
        ]
        oldest = int(unix_now // 60) - self._settings.keep_minutes_h * 60
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._thread, self._store.commit, nodes, sums, oldest
            )
        except sqlite3.Error as exc:
            fleet.rollups.put_back(minutes)
            fleet.unsaved |= rows
            if self.failure is None:
                log.error("store_failing", error=str(exc), file=str(self._store.path))
            self.failure = str(exc)
            return {}
        if self.failure is not None:
            log.info("store_recovered", file=str(self._store.path))
            self.failure = None
        return {row: seq for row, seq in stored.items() if seq >= 0}

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
        )

    def close(self) -> None:
        """Wait for the write under way, and end the thread."""
        self._thread.shutdown(wait=True)
