"""The peers, each in its published form with its published parameters.

All get what real ones have: health checks of 2 s that need 3 failures to take
a node out and 2 successes to take it back (HAProxy: inter 2s fall 3 rise 2),
and an ejection of 5 s times the number of ejections after 5 failures in a row
(Envoy's outlier detection). Weights are slots times nominal speed wherever the
real implementation has weights.
"""

from bisect import bisect
from itertools import accumulate
from math import exp
from random import Random

from .fleet import Answer, Server
from .policy import Policy, Report
from .world import Arrival, World

_FOREVER = float("inf")
_CHECK_S = 2.0
_FALL, _RISE = 3, 2


class Checked(Policy):
    """A policy with health checks and ejection: `alive[balancer]` are the nodes."""

    tick_s = 0.1

    def begin(self, world: World, servers: list[Server]) -> None:
        size = len(world.machines)
        self.size, self.clients = size, world.cell.balancers
        self.weights = world.capacity
        self.world = world
        self._checks = [self.rng.uniform(0, _CHECK_S) for _ in range(size)]
        self._bad = [0] * size
        self._good = [0] * size
        self._up = [True] * size
        self._failures = [[0] * size for _ in range(self.clients)]
        self._times = [[0] * size for _ in range(self.clients)]
        self._until = [[0.0] * size for _ in range(self.clients)]
        self.alive = [list(range(size)) for _ in range(self.clients)]
        self.sent = [[0] * size for _ in range(self.clients)]
        for balancer in range(self.clients):
            self.renewed(balancer)

    def renewed(self, balancer: int) -> None:
        """Hear that the nodes alive for a balancer changed."""

    def tick(self, now: float, reports: list[Report]) -> None:
        changed = False
        for node, due in enumerate(self._checks):
            if due > now:
                continue
            self._checks[node] += _CHECK_S
            if self.world.machines[node].speed(now) > 0:
                self._bad[node] = 0
                self._good[node] += 1
                if not self._up[node] and self._good[node] >= _RISE:
                    self._up[node] = changed = True
            else:
                self._good[node] = 0
                self._bad[node] += 1
                if self._up[node] and self._bad[node] >= _FALL:
                    self._up[node] = False
                    changed = True
        for balancer in range(self.clients):
            over = any(0.0 < until <= now for until in self._until[balancer])
            if changed or over:
                self._list(balancer, now)

    def _list(self, balancer: int, now: float) -> None:
        until = self._until[balancer]
        for node in range(self.size):
            if 0.0 < until[node] <= now:
                until[node] = 0.0
        found = [n for n in range(self.size) if self._up[n] and until[n] <= now]
        self.alive[balancer] = found or list(range(self.size))
        self.renewed(balancer)

    def done(
        self,
        now: float,
        balancer: int,
        node: int,
        token: object,
        answer: Answer,
        in_flight: int,
    ) -> None:
        self.sent[balancer][node] -= 1
        failures = self._failures[balancer]
        if answer.ok:
            failures[node] = 0
            return
        failures[node] += 1
        out = sum(until > now for until in self._until[balancer])
        if failures[node] >= 5 and out < max(1, self.size // 10):
            failures[node] = 0
            self._times[balancer][node] += 1
            self._until[balancer][node] = now + 5.0 * self._times[balancer][node]
            self._list(balancer, now)

    def pick(self, now: float, arrival: Arrival) -> tuple[int, object]:
        node = self.choose(now, arrival)
        self.sent[arrival.balancer][node] += 1
        return node, now

    def choose(self, now: float, arrival: Arrival) -> int:
        """Return the node."""
        raise NotImplementedError


class Drawn(Checked):
    """With draws by weight."""

    def renewed(self, balancer: int) -> None:
        if not hasattr(self, "_sums"):
            self._sums: list[list[float]] = [[] for _ in range(self.clients)]
        alive = self.alive[balancer]
        self._sums[balancer] = list(accumulate(self.weights[n] for n in alive))

    def draw(self, balancer: int) -> int:
        """Return a node by weight."""
        sums, alive = self._sums[balancer], self.alive[balancer]
        return alive[bisect(sums, self.rng.random() * sums[-1], 0, len(sums) - 1)]

    def two(self, balancer: int) -> tuple[int, int]:
        """Return two unlike nodes by weight, if there are two."""
        first = self.draw(balancer)
        for _ in range(10):
            second = self.draw(balancer)
            if second != first:
                return first, second
        return first, first


class RandomWeighted(Drawn):
    """HAProxy's random(1)."""

    name = "random"

    def choose(self, now: float, arrival: Arrival) -> int:
        return self.draw(arrival.balancer)


class RoundRobin(Checked):
    """Every node in turn."""

    name = "round robin"

    def begin(self, world: World, servers: list[Server]) -> None:
        size = len(world.machines)
        self._turn = [self.rng.randrange(size) for _ in range(world.cell.balancers)]
        super().begin(world, servers)

    def choose(self, now: float, arrival: Arrival) -> int:
        self._turn[arrival.balancer] += 1
        alive = self.alive[arrival.balancer]
        return alive[self._turn[arrival.balancer] % len(alive)]


class Stride(Checked):
    """Weighted round robin by smooth credits, from a random phase."""

    name = "static weights"

    def begin(self, world: World, servers: list[Server]) -> None:
        self._credit: list[list[float]] = []
        super().begin(world, servers)
        self._credit = [
            [self.rng.random() * w for w in self.weights] for _ in range(self.clients)
        ]
        self.shares = list(self.weights)

    def choose(self, now: float, arrival: Arrival) -> int:
        credit, alive = self._credit[arrival.balancer], self.alive[arrival.balancer]
        shares = self.shares
        total = 0.0
        best, most = alive[0], -_FOREVER
        for node in alive:
            share = shares[node]
            total += share
            credit[node] += share
            if credit[node] > most:
                best, most = node, credit[node]
        credit[best] -= total
        return best


class Orca(Stride):
    """gRPC's weighted round robin (A58): qps / (utilisation + penalty · eps/qps)."""

    name = "ORCA weights"

    def begin(self, world: World, servers: list[Server]) -> None:
        super().begin(world, servers)
        self._known: dict[int, float] = {}
        self._since: dict[int, float] = {}
        self._heard: dict[int, float] = {}
        self._weighed_at = 0.0
        self.shares = [1.0] * self.size

    def tick(self, now: float, reports: list[Report]) -> None:
        super().tick(now, reports)
        for node, sampled, used, qps, eps in reports:
            if qps + eps <= 0 or used <= 0:
                continue
            self._since.setdefault(node, sampled)
            self._heard[node] = sampled
            self._known[node] = (qps + eps) / (used + eps / (qps + eps))
        if now - self._weighed_at < 1.0:
            return
        self._weighed_at = now
        usable = {
            node: weight
            for node, weight in self._known.items()
            if now - self._since[node] >= 10.0 and now - self._heard[node] < 180.0
        }
        if len(usable) < 2:
            self.shares = [1.0] * self.size
            return
        mean = sum(usable.values()) / len(usable)
        self.shares = [usable.get(node, mean) for node in range(self.size)]


class LeastConn(Checked):
    """HAProxy's leastconn: (connections + 1) / weight, equals in turn."""

    name = "least connections"

    def begin(self, world: World, servers: list[Server]) -> None:
        super().begin(world, servers)
        self._used = [
            [self.rng.random() for _ in range(self.size)] for _ in range(self.clients)
        ]
        self._turn = 1.0

    def choose(self, now: float, arrival: Arrival) -> int:
        balancer = arrival.balancer
        sent, used, weights = self.sent[balancer], self._used[balancer], self.weights
        best, least = 0, _FOREVER
        for node in self.alive[balancer]:
            cost = (sent[node] + 1) / weights[node]
            if cost < least or (cost == least and used[node] < used[best]):
                best, least = node, cost
        self._turn += 1.0
        used[best] = self._turn
        return best


class TwoChoices(Drawn):
    """HAProxy's random(2): two draws by weight, the less loaded for its weight."""

    name = "P2C"

    def choose(self, now: float, arrival: Arrival) -> int:
        first, second = self.two(arrival.balancer)
        sent = self.sent[arrival.balancer]
        one = (sent[first] + 1) / self.weights[first]
        other = (sent[second] + 1) / self.weights[second]
        return first if one <= other else second


class PeakEwma(Drawn):
    """Finagle's peak EWMA over two draws: cost · (pending + 1), decay 10 s.

    Draws are by weight and pending is counted for each slot, so that unlike
    nodes do not count against it.
    """

    name = "peak-EWMA"
    decay_s = 10.0
    penalty_ms = 60_000.0

    def begin(self, world: World, servers: list[Server]) -> None:
        super().begin(world, servers)
        self._cost = [[0.0] * self.size for _ in range(self.clients)]
        self._at = [[0.0] * self.size for _ in range(self.clients)]
        self._slots = [m.slots for m in world.machines]

    def _load(self, balancer: int, node: int, now: float) -> float:
        cost = self._cost[balancer][node]
        pending = self.sent[balancer][node]
        if cost == 0.0 and pending:
            return self.penalty_ms + pending
        faded = cost * exp(-(now - self._at[balancer][node]) / self.decay_s)
        return faded * (pending + 1) / self._slots[node]

    def choose(self, now: float, arrival: Arrival) -> int:
        first, second = self.two(arrival.balancer)
        one = self._load(arrival.balancer, first, now)
        other = self._load(arrival.balancer, second, now)
        return first if one <= other else second

    def done(
        self,
        now: float,
        balancer: int,
        node: int,
        token: object,
        answer: Answer,
        in_flight: int,
    ) -> None:
        super().done(now, balancer, node, token, answer, in_flight)
        rtt_ms = (now - float(token)) * 1000  # type: ignore[arg-type]
        costs, times = self._cost[balancer], self._at[balancer]
        old = costs[node]
        if rtt_ms > old:
            costs[node] = rtt_ms
        else:
            fade = exp(-(now - times[node]) / self.decay_s)
            costs[node] = old * fade + rtt_ms * (1 - fade)
        times[node] = now


class C3(Checked):
    """C3 (NSDI 2015): R - 1/mu + q^3/mu with q = 1 + outstanding · clients + queue.

    A server is a node of several slots here, so q is taken for each slot: as
    published, large nodes would be shunned.
    """

    name = "C3"
    keep = 0.9

    def begin(self, world: World, servers: list[Server]) -> None:
        super().begin(world, servers)
        blank = [[0.0] * self.size for _ in range(self.clients)]
        self._response = [list(row) for row in blank]
        self._service = [list(row) for row in blank]
        self._queue = [list(row) for row in blank]
        self._slots = [m.slots for m in world.machines]

    def choose(self, now: float, arrival: Arrival) -> int:
        balancer = arrival.balancer
        response, service = self._response[balancer], self._service[balancer]
        queue, sent = self._queue[balancer], self.sent[balancer]
        best, least = [0], _FOREVER
        for node in self.alive[balancer]:
            q = (1 + sent[node] * self.clients + queue[node]) / self._slots[node]
            mu = service[node]
            score = response[node] - mu + q * q * q * mu
            if score < least:
                best, least = [node], score
            elif score == least:
                best.append(node)
        return best[0] if len(best) == 1 else self.rng.choice(best)

    def done(
        self,
        now: float,
        balancer: int,
        node: int,
        token: object,
        answer: Answer,
        in_flight: int,
    ) -> None:
        super().done(now, balancer, node, token, answer, in_flight)
        response_ms = (now - float(token)) * 1000  # type: ignore[arg-type]
        self._mix(self._response[balancer], node, response_ms)
        self._mix(self._queue[balancer], node, float(in_flight))
        if answer.ok:
            self._mix(self._service[balancer], node, answer.service_ms)

    def _mix(self, means: list[float], node: int, value: float) -> None:
        old = means[node]
        means[node] = value if old == 0 else self.keep * old + (1 - self.keep) * value


class Prequal(Checked):
    """Prequal (NSDI 2024): a pool of probes, hot or cold by requests in flight.

    Three probes a query, pool min(16, n/3), age 1 s, Q_RIF 0.84, delta 1; of
    the pool the worst goes in turn with the oldest at each query.
    """

    name = "Prequal"
    probes = 3
    quantile = 0.84
    age_s = 1.0

    def begin(self, world: World, servers: list[Server]) -> None:
        super().begin(world, servers)
        self._servers = servers
        self._most = min(16, max(2, self.size // 3))
        self._pool: list[list[list[float]]] = [[] for _ in range(self.clients)]
        self._latest = [[0.0] * 64 for _ in range(self.clients)]
        self._worst = [False] * self.clients
        self._medians: list[dict[int, list[float]]] = [{} for _ in range(self.size)]
        self._slots = [m.slots for m in world.machines]
        share = 1 - self._most / self.size
        # (1 + delta) / ((1 - m/n) · r_probe - r_remove), delta 1, one removed
        self._reuse = max(1.0, 2.0 / max(0.1, share * self.probes - 1.0))

    def _latency(self, node: int, rif: int) -> float:
        """Return the median latency at about this many in flight, as it says."""
        books = self._medians[node]
        for distance in range(8):
            for key in (rif - distance, rif + distance):
                found = books.get(key)
                if found:
                    return sorted(found)[len(found) // 2]
        return 0.0

    def choose(self, now: float, arrival: Arrival) -> int:
        balancer = arrival.balancer
        pool = [
            probe
            for probe in self._pool[balancer]
            if now - probe[1] < self.age_s and probe[4] > 0
        ]
        alive = self.alive[balancer]
        usable = set(alive)
        pool = [p for p in pool if int(p[0]) in usable]
        node = self._best(balancer, pool) if len(pool) > 1 else self.rng.choice(alive)
        pool = self._removed(balancer, pool)
        for probed in self.rng.sample(alive, min(self.probes, len(alive))):
            machine = self.world.machines[probed]
            if machine.speed(now) <= 0:
                continue
            rif = self._servers[probed].in_flight
            latency = self._latency(probed, rif)
            self._latest[balancer].append(float(rif))
            pool.append([probed, now + machine.rtt_s, float(rif), latency, self._reuse])
        del self._latest[balancer][:-64]
        self._pool[balancer] = pool[-self._most :]
        return node

    def _hot(self, balancer: int) -> float:
        recent = sorted(self._latest[balancer])
        return recent[int(self.quantile * (len(recent) - 1))]

    def _best(self, balancer: int, pool: list[list[float]]) -> int:
        hot = self._hot(balancer)
        cold = [probe for probe in pool if probe[2] <= hot]
        best = min(cold, key=lambda p: p[3]) if cold else min(pool, key=lambda p: p[2])
        best[4] -= 1
        best[2] += 1  # sent there since the probe
        return int(best[0])

    def _removed(self, balancer: int, pool: list[list[float]]) -> list[list[float]]:
        if len(pool) < self._most:
            return pool
        self._worst[balancer] = not self._worst[balancer]
        if not self._worst[balancer]:
            return pool[1:]
        hot = self._hot(balancer)
        warm = [probe for probe in pool if probe[2] > hot]
        worst = max(warm, key=lambda p: p[2]) if warm else max(pool, key=lambda p: p[3])
        pool.remove(worst)
        return pool

    def done(
        self,
        now: float,
        balancer: int,
        node: int,
        token: object,
        answer: Answer,
        in_flight: int,
    ) -> None:
        super().done(now, balancer, node, token, answer, in_flight)
        latency_ms = (now - float(token)) * 1000  # type: ignore[arg-type]
        found = self._medians[node].setdefault(in_flight, [])
        found.append(latency_ms)
        del found[:-9]


class Clairvoyant(Policy):
    """Knows when each node would answer, and takes the first."""

    name = "clairvoyant"

    def begin(self, world: World, servers: list[Server]) -> None:
        self._servers = servers

    def pick(self, now: float, arrival: Arrival) -> tuple[int, object]:
        work_ms = arrival.work_ms
        ends = [server.expected(now, work_ms) for server in self._servers]
        return ends.index(min(ends)), None


class Oracle(Policy):
    """Knows every node's true load and present speed, not its queue's end."""

    name = "oracle"

    def begin(self, world: World, servers: list[Server]) -> None:
        self._servers = servers

    def pick(self, now: float, arrival: Arrival) -> tuple[int, object]:
        best, least = 0, _FOREVER
        for node, server in enumerate(self._servers):
            machine = server.machine
            speed = machine.speed(now)
            if speed <= 0:
                continue
            u = (server.in_flight + 1) / machine.slots
            cost = machine.rtt_s * 1000 + arrival.work_ms / speed * (1 + u * u)
            if cost < least:
                best, least = node, cost
        return best, None


PEERS: dict[str, type[Policy]] = {
    each.name: each
    for each in (
        RandomWeighted,
        RoundRobin,
        Stride,
        Orca,
        LeastConn,
        TwoChoices,
        PeakEwma,
        C3,
        Prequal,
    )
}
ORACLES: dict[str, type[Policy]] = {each.name: each for each in (Oracle, Clairvoyant)}


def made(kind: type[Policy], seed: int) -> Policy:
    """Return a policy with chance of its own."""
    return kind(Random(f"{seed} {kind.name}"))
