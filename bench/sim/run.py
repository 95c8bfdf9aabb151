"""One run: a policy meets a world."""

from dataclasses import dataclass
from heapq import heappop, heappush
from math import fsum, nan
from random import Random
from statistics import fmean, pstdev
from time import process_time

from .fleet import Answer, Server
from .policy import Policy, Report
from .world import TIMEOUT_S, WARM_S, World


@dataclass(frozen=True)
class Result:
    """What came of a run."""

    mean_ms: float
    std_ms: float  # of the mean of each second: the fluctuation
    p99_ms: float
    p999_ms: float
    timeouts: float  # share of requests
    utilisation: float  # of all slots
    idle: float  # share of the nodes that use less than a fifth of their slots
    spread: float  # standard deviation over nodes of their utilisation
    cpu_s: float
    requests: int


def run(world: World, policy: Policy) -> Result:
    """Play a world against a policy."""
    began = process_time()
    servers = [Server(machine) for machine in world.machines]
    scale = world.cell.scale
    timeout_s = TIMEOUT_S * max(1.0, scale)
    policy.begin(world, servers)
    reports = _Reports(world)
    latencies: list[tuple[float, float, bool]] = []
    events: list[tuple[float, int, int, int, object, Answer]] = []
    sequence = 0
    due = 0.0
    arrivals = world.arrivals
    place, count = 0, len(arrivals)
    while place < count or events:
        at = arrivals[place].at if place < count else float("inf")
        done_at = events[0][0] if events else float("inf")
        now = min(at, done_at)
        if due <= now:
            if place >= count:
                break
            policy.tick(due, reports.until(due))
            due += policy.tick_s
            continue
        if done_at <= at:
            _, _, balancer, node, token, answer = heappop(events)
            server = servers[node]
            server.in_flight -= 1
            policy.done(now, balancer, node, token, answer, server.in_flight)
            continue
        place += 1
        arrival = arrivals[place - 1]
        balancer = arrival.balancer
        node, token = policy.pick(now, arrival)
        server = servers[node]
        server.in_flight += 1
        answer = server.take(now, arrival.work_ms, now + timeout_s)
        reports.note(node, answer)
        sequence += 1
        heappush(events, (answer.at, sequence, balancer, node, token, answer))
        if now >= WARM_S:
            latencies.append((now, (answer.at - now) * 1000, answer.ok))
    return _result(latencies, servers, world, process_time() - began)


class _Reports:
    """What agents say: every period, and on its way for the delay."""

    def __init__(self, world: World) -> None:
        cell = world.cell
        self._world = world
        self._rng = Random("reports")
        self._period = cell.period_s
        self._busy: list[dict[int, float]] = [{} for _ in world.machines]
        self._ended: list[dict[int, list[int]]] = [{} for _ in world.machines]
        self._next = 1

    def note(self, node: int, answer: Answer) -> None:
        """Book the time a slot is in use in the periods it falls into."""
        began, ended = answer.began, answer.ended
        period = self._period
        if ended > began:
            first, last = int(began / period), int(ended / period)
            books = self._busy[node]
            for index in range(first, last + 1):
                inside = min(ended, (index + 1) * period) - max(began, index * period)
                books[index] = books.get(index, 0.0) + inside
        counts = self._ended[node].setdefault(int(answer.at / period), [0, 0])
        counts[0 if answer.ok else 1] += 1

    def until(self, now: float) -> list[Report]:
        """Return the reports that have arrived by now and were not returned."""
        found: list[Report] = []
        cell = self._world.cell
        while self._next * self._period + cell.delay_s <= now:
            index = self._next - 1
            sampled = self._next * self._period
            for node, machine in enumerate(self._world.machines):
                busy = self._busy[node].pop(index, 0.0)
                ok, failed = self._ended[node].pop(index, (0, 0))
                noise = 1 + self._rng.gauss(0, cell.noise)
                if machine.speed(sampled) <= 0:
                    continue  # its agent is in the dark too
                used = busy / self._period / machine.slots * noise
                found.append(
                    Report(
                        node,
                        sampled,
                        min(1.0, max(0.0, used)),
                        ok / self._period,
                        failed / self._period,
                    )
                )
            self._next += 1
        return found


def _result(
    latencies: list[tuple[float, float, bool]],
    servers: list[Server],
    world: World,
    cpu_s: float,
) -> Result:
    values = sorted(ms for _, ms, _ in latencies)
    seconds: dict[int, list[float]] = {}
    for at, ms, _ in latencies:
        seconds.setdefault(int(at), []).append(ms)
    means = [fmean(found) for found in seconds.values()]
    size = len(values)
    used = [s.busy_s / world.until / s.machine.slots for s in servers]
    slots = sum(s.machine.slots for s in servers)
    return Result(
        mean_ms=fsum(values) / size if size else nan,
        std_ms=pstdev(means),
        p99_ms=values[int(size * 0.99)],
        p999_ms=values[int(size * 0.999)],
        timeouts=sum(not ok for *_, ok in latencies) / size,
        utilisation=sum(s.busy_s for s in servers) / world.until / slots,
        idle=sum(share < 0.2 for share in used) / len(used),
        spread=pstdev(used),
        cpu_s=cpu_s,
        requests=size,
    )
