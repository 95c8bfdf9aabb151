"""The collector's parts, joined; service.py gives them time and sockets."""

import structlog
from aiohttp import web

from trimtab.balancer import Router

from .admission import recall
from .committer import Committer
from .credentials import Credentials
from .decided import Decided
from .drains import Drain, progress
from .events import KEPT, Events, Kind
from .fleet import Change, Fleet
from .health import DIMENSIONS
from .session import Clock, Intake
from .settings import Settings
from .snapshots import Snapshots
from .states import RULES, Admin, State, When
from .store import Notice, Store
from .trust import Trust, patience

log = structlog.get_logger()

FROZEN_S = 1.0
TOMBSTONE_S = 90 * 86_400.0  # silent for so long, a deleted node is forgotten
# Trust below the first is worth telling, above the second it is well again.
DISTRUST, TRUST = 0.5, 0.9

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
        self.snapshots = Snapshots(self.fleet)
        self.events = Events(clock.unix, store.events(KEPT))
        self.decided = Decided()
        self.trust = Trust()
        self.credentials = Credentials(
            store.credentials(),
            may_be_open=(settings.insecure or not settings.beyond_loopback)
            and not store.guarded,
        )
        self.intake = Intake(self.fleet, self.credentials, settings, clock, self.events)
        self.committer = Committer(
            self.fleet,
            store,
            self.events,
            self.decided,
            self.credentials,
            settings,
            clock,
        )
        self.ticked_at = clock.monotonic()
        self._published = -1
        self._distrusted = self._patient = False
        registry = store.registry()
        recall(self.fleet, registry, clock.monotonic(), settings.lost_after_s)
        for row, node in enumerate(registry):
            if node.seq >= 0:
                self.intake.stored_seq[row] = node.seq
        self.tick()

    def tick(self) -> None:
        """Renew scores and states, and publish the fleet if it changed."""
        now = self.clock.monotonic()
        self.trust.see(now, self.settings.tick_s)
        self._tell_trust()
        slept_s = now - self.ticked_at
        if slept_s > FROZEN_S + self.settings.tick_s:
            # It was us who were away: what waits in the sockets is read first.
            self.events.say(
                Kind.COLLECTOR, f"was frozen for {slept_s:.1f} s", for_s=slept_s
            )
            self.fleet.score_waiting(now, self.clock.unix())
            self.ticked_at = now
            return
        changes = self.fleet.tick(
            now, self.clock.unix(), self._lost_after_s(), self.trust.hearing
        )
        for change in changes:
            self._tell(change)
        self._progress_drains()
        if self.fleet.version != self._published:
            self._published = self.fleet.version
            self.router.update(self.snapshots.renew(self._published, now))
        self.ticked_at = now

    def _lost_after_s(self) -> float:
        """Return the grace; longer while most of the fleet is silent at once."""
        silent, heard = self.fleet.silent_and_heard()
        factor = patience(silent, heard)
        if (factor > 1) != self._patient:
            self._patient = factor > 1
            self.events.say(
                Kind.COLLECTOR,
                f"{silent} nodes are silent and {heard} are heard: the fault is "
                "likely near this collector, so that nobody is called lost for "
                f"{factor * self.settings.lost_after_s:g} s"
                if self._patient
                else "most of the fleet is heard again",
                silent=silent,
                heard=heard,
            )
        return factor * self.settings.lost_after_s

    def _tell_trust(self) -> None:
        level = self.trust.level
        if not self._distrusted and level < DISTRUST:
            self._distrusted = True
            self.events.say(
                Kind.COLLECTOR,
                f"distrusts itself: {self.trust.why}. Silence counts for less",
                trust=round(level, 2),
            )
        elif self._distrusted and level > TRUST:
            self._distrusted = False
            self.events.say(Kind.COLLECTOR, "trusts itself again", trust=1.0)

    def _tell(self, change: Change) -> None:
        fleet, row = self.fleet, change.row
        when = RULES[change.rule].when
        reason = str(when)
        if when in (When.SILENT, When.GONE):
            silent_s = self.clock.monotonic() - fleet.arrived_at[row]
            reason = f"{when}: nothing heard for {silent_s:.1f} s"
        elif when in (When.WORST, When.POOR, When.ALWAYS):
            limiting = int(fleet.limiting[row])
            reason = f"score {fleet.score[row]:.2f}" + (
                f", limited by {DIMENSIONS[limiting]}" if limiting >= 0 else ""
            )
        self.events.say(
            Kind.STATE,
            reason,
            node=fleet.nodes[row].name,
            node_id=fleet.nodes[row].hex_id,
            before=change.before.name.lower(),
            after=change.after.name.lower(),
        )

    def _progress_drains(self) -> None:
        now, unix_now = self.clock.monotonic(), self.clock.unix()
        for row, drain in list(self.fleet.drains.items()):
            before = Admin(int(self.fleet.admin[row]))
            if before is not Admin.DRAINING:
                continue
            node = self.fleet.nodes[row]
            open_leases = self.router.load(node.hex_id, now).in_flight
            after = progress(before, drain, unix_now, open_leases)
            if after is not before:
                self.fleet.intend(row, after, drain)
                reason = (
                    "its work is done"
                    if open_leases == 0
                    else f"the deadline has come, with {open_leases} leases open"
                )
                self._tell_admin(row, before, reason, None)

    # What people ask for

    def drain(
        self, row: int, *, until_unix_s: float | None, reason: str, by: str | None
    ) -> None:
        """Take a node out: no new tasks; at the deadline no sticky ones either."""
        before = Admin(int(self.fleet.admin[row]))
        drain = Drain(self.clock.unix(), until_unix_s, reason, by)
        self.fleet.intend(row, Admin.DRAINING, drain)
        self._tell_admin(row, before, reason, by)

    def undrain(self, row: int, *, by: str | None) -> None:
        """Put a node back, a deleted one too."""
        before = Admin(int(self.fleet.admin[row]))
        if before is not Admin.ACTIVE:
            self.fleet.intend(row, Admin.ACTIVE, None)
            self._tell_admin(row, before, "put back", by)

    def delete(self, row: int, *, reason: str, by: str | None) -> None:
        """Delete a node: its agent is refused until it is put back."""
        before = Admin(int(self.fleet.admin[row]))
        if before is Admin.TOMBSTONED:
            return
        drain = Drain(self.clock.unix(), None, reason, by)
        self.fleet.intend(row, Admin.TOMBSTONED, drain)
        self.intake.deleted.add(row)
        self._tell_admin(row, before, reason, by, Kind.DELETED)

    def hold(self, row: int, holds: tuple[str, ...], *, by: str | None) -> None:
        """Note the data that a node holds now."""
        node = self.fleet.nodes[row]
        if node.hello.inventory.holds == holds:
            return
        node.hold(holds)
        self.fleet.unsaved.add(row)
        self.fleet.version += 1
        self.events.say(
            Kind.HOLDS,
            f"holds {len(holds)} data items",
            node=node.name,
            node_id=node.hex_id,
            by=by,
        )

    def _tell_admin(
        self,
        row: int,
        before: Admin,
        reason: str,
        by: str | None,
        kind: Kind = Kind.ADMIN,
    ) -> None:
        node = self.fleet.nodes[row]
        self.events.say(
            kind,
            reason,
            node=node.name,
            node_id=node.hex_id,
            by=by,
            before=before.name.lower(),
            after=Admin(int(self.fleet.admin[row])).name.lower(),
        )

    def take_notices(self, notices: list[Notice]) -> None:
        """Make events of what other commands did."""
        for notice in notices:
            if notice.ident not in self.committer.notices:
                self.events.say(Kind(notice.kind), notice.reason, by="command line")
                self.committer.notices.append(notice.ident)

    def expired(self) -> list[int]:
        """Return the rows of those to forget.

        Ephemeral nodes and clones lost for long enough, and deleted nodes
        that nobody has heard of for a season.
        """
        fleet = self.fleet
        lost_s = self.clock.monotonic() - fleet.state_since
        unix_now = self.clock.unix()
        found = []
        for row in fleet.rows():
            node = fleet.nodes[row]
            if fleet.admin[row] == Admin.TOMBSTONED:
                if unix_now - node.last_seen > TOMBSTONE_S:
                    found.append(row)
            elif (
                fleet.state[row] == State.LOST
                and lost_s[row] > self.settings.forget_ephemeral_s
                and (node.hello.inventory.ephemeral or node.clone_of is not None)
            ):
                found.append(row)
        return found

    def tell_forgotten(self, row: int) -> None:
        """Note that a node is about to be forgotten."""
        node = self.fleet.nodes[row]
        self.events.say(
            Kind.FORGOTTEN, "gone for long", node=node.name, node_id=node.hex_id
        )

    async def commit(self) -> dict[int, int]:
        """Store what is new; return what may be acknowledged, by row."""
        stored = await self.committer.commit()
        self.intake.stored_seq.update(stored)
        return stored
