"""The shipped router as a policy: one `Router` a balancer, and the lease bus.

All look at one board, since every board would hold the same; where the bus is
lost each has its own, as in production.
"""

from heapq import heappop, heappush
from random import Random

from trimtab.balancer import Board, Node, NoFit, Outcome, Router, Snapshot, State, Task
from trimtab.balancer.bus import FLUSH_S, Share

from .fleet import Answer, Server
from .policy import Policy, Report
from .world import LONG_MS, SHORT_MS, WARM_S, Arrival, World

_HOP_S = 0.002  # of a share between balancers
_LOST = (WARM_S + 10, WARM_S + 80)


class Ours(Policy):
    """Options: "no labels", "no bus", "bus lost", "wrong labels"."""

    name = "trimtab"
    tick_s = 0.25

    def begin(self, world: World, servers: list[Server]) -> None:
        cell = world.cell
        options = set(cell.options)
        self._labels = "no labels" not in options
        self._wrong = 0.2 if "wrong labels" in options else 0.0
        self._lost = "bus lost" in options
        self._count = cell.balancers
        self._bus = "no bus" not in options and self._count > 1
        shared = self._bus and not self._lost
        board = Board() if shared else None
        self._routers = [
            Router(Random(self.rng.random()), name=f"b{i}", board=board)
            for i in range(self._count)
        ]
        self._boards = [board] if board else [r.board for r in self._routers]
        scale = cell.scale
        self._tasks = (
            Task(duration_s=SHORT_MS * scale / 1000),
            Task(duration_s=LONG_MS * scale / 1000),
        )
        self._plain = Task()
        self._heard = [0.0] * cell.nodes
        self._used: list[float | None] = [None] * cell.nodes
        self._world = world
        self._version = 0
        self._silent_s = 1.5 * cell.period_s + 1.5 * cell.delay_s + 0.1
        nodes = [
            Node(
                f"{i:032x}",
                f"n{i}",
                slots=m.slots,
                speed=m.nominal,
                rtt_p95_ms=m.rtt_s * 1000,
                groups=m.groups,
            )
            for i, m in enumerate(world.machines)
        ]
        self._rows = {node.id: i for i, node in enumerate(nodes)}
        self._snapshot = Snapshot.of(nodes)
        self._flights: list[tuple[float, int, Share]] = []
        self._flushes: list[tuple[float, int]] = []
        self._flushing = [False] * self._count
        self._sent = 0
        for router in self._routers:
            router.balancers(self._count, connected=self._bus, now=0.0)
            router.update(self._snapshot)

    def tick(self, now: float, reports: list[Report]) -> None:
        for node, sampled, used, _, _ in reports:
            self._heard[node] = sampled
            self._used[node] = used
        states = tuple(
            State.STALE if now - heard > self._silent_s and now > 5.0 else State.HEALTHY
            for heard in self._heard
        )
        self._version += 1
        self._snapshot = self._snapshot.renewed(
            self._version,
            now,
            states=states,
            sampled_at=tuple(
                None if used is None else heard
                for heard, used in zip(self._heard, self._used, strict=True)
            ),
            cpu=tuple(None if used is None else 1 - used for used in self._used),
        )
        for router in self._routers:
            router.update(self._snapshot)
        if self._lost:
            self._cut(now)

    def _cut(self, now: float) -> None:
        up = not _LOST[0] <= now < _LOST[1]
        if up == self._bus:
            return
        self._deliver(now)
        self._bus = up
        for router in self._routers:
            router.balancers(self._count, connected=up, now=now)
        if up:
            for router in self._routers:
                self._send(now, router.whole_share(now))

    def _send(self, now: float, share: Share) -> None:
        self._sent += 1
        heappush(self._flights, (now + _HOP_S, self._sent, share))

    def _deliver(self, now: float) -> None:
        flushes, flights = self._flushes, self._flights
        while flushes and flushes[0][0] <= now:
            at, balancer = heappop(flushes)
            self._flushing[balancer] = False
            share = self._routers[balancer].share(at) if self._bus else None
            if share is not None:
                self._send(at, share)
        while flights and flights[0][0] <= now:
            at, _, share = heappop(flights)
            for board in self._boards:
                if not board.apply(share, at):
                    raise RuntimeError("a share was lost on a bus that loses none")

    def _say(self, now: float, balancer: int) -> None:
        if self._bus and not self._flushing[balancer]:
            self._flushing[balancer] = True
            heappush(self._flushes, (now + FLUSH_S, balancer))

    def _task(self, arrival: Arrival) -> Task:
        if not self._labels:
            return self._plain
        long = arrival.long
        if self._wrong and self.rng.random() < self._wrong:
            long = not long
        return self._tasks[long]

    def pick(self, now: float, arrival: Arrival) -> tuple[int, object]:
        self._deliver(now)
        balancer = arrival.balancer
        made = self._routers[balancer].pick(self._task(arrival), now)
        match made:
            case NoFit():
                raise LookupError(made.sentence)
        self._say(now, balancer)
        return self._rows[made.node_id], made.id

    def done(
        self,
        now: float,
        balancer: int,
        node: int,
        token: object,
        answer: Answer,
        in_flight: int,
    ) -> None:
        self._deliver(now)
        self._routers[balancer].close(
            str(token),
            Outcome.OK if answer.ok else Outcome.TIMEOUT,
            now,
            service_ms=answer.service_ms if answer.ok else None,
            node_inflight=in_flight,
        )
        self._say(now, balancer)
