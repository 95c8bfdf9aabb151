"""The collector's parts, joined; service.py gives them time and sockets."""

from collections import Counter

import structlog
from aiohttp import web

from trimtab.balancer import Router

from .admission import recall
from .committer import Committer
from .credentials import Credentials
from .fleet import Fleet
from .session import Clock, Intake
from .settings import Settings
from .snapshots import snapshot
from .states import State
from .store import Store

log = structlog.get_logger()

FROZEN_S = 1.0

COLLECTOR: web.AppKey["Collector"] = web.AppKey("collector")


class Collector:
    """One fleet, from its frames to its routing."""

    def __init__(
        self, settings: Settings, store: Store, clock: Clock, router: Router
    ) -> None:
        self.settings = settings
        self.store = store
        self.clock = clock
        self.router = router
        self.fleet = Fleet()
        self.credentials = Credentials(
            store.credentials(),
            may_be_open=settings.insecure or not settings.beyond_loopback,
        )
        self.intake = Intake(self.fleet, self.credentials, settings, clock)
        self.committer = Committer(self.fleet, store, settings, clock)
        self.decisions: Counter[str] = Counter()  # by mode
        self.ticked_at = clock.monotonic()
        self._published = -1
        registry = store.registry()
        recall(self.fleet, registry, clock.monotonic(), settings.lost_after_s)
        for row, node in enumerate(registry):
            if node.seq >= 0:
                self.intake.stored_seq[row] = node.seq
        self.tick()

    def tick(self) -> None:
        """Renew scores and states, and publish the fleet if it changed."""
        now = self.clock.monotonic()
        slept_s = now - self.ticked_at
        if slept_s > FROZEN_S + self.settings.tick_s:
            # It was us who were away: what waits in the sockets is read first.
            log.warning("collector_frozen", for_s=round(slept_s, 1))
            self.fleet.score_waiting(now, self.clock.unix())
            self.ticked_at = now
            return
        changes = self.fleet.tick(now, self.clock.unix(), self.settings.lost_after_s)
        for change in changes:
            log.log(
                _LEVELS.get(change.after, 20),
                "node_state",
                node=self.fleet.nodes[change.row].name,
                before=change.before.name.lower(),
                after=change.after.name.lower(),
            )
        if self.fleet.version != self._published:
            self._published = self.fleet.version
            self.router.update(snapshot(self.fleet, self._published, now))
        self.ticked_at = now

    def expired(self) -> list[int]:
        """Return the rows of ephemeral nodes and clones lost for long enough."""
        fleet = self.fleet
        lost_s = self.clock.monotonic() - fleet.state_since
        limit_s = self.settings.forget_ephemeral_s
        return [
            row
            for row in fleet.rows()
            if fleet.state[row] == State.LOST
            and lost_s[row] > limit_s
            and (
                fleet.nodes[row].hello.inventory.ephemeral
                or fleet.nodes[row].clone_of is not None
            )
        ]

    async def commit(self) -> dict[int, int]:
        """Store what is new; return what may be acknowledged, by row."""
        stored = await self.committer.commit()
        self.intake.stored_seq.update(stored)
        return stored


_LEVELS = {State.STALE: 30, State.LOST: 30, State.SATURATED: 30}
