"""The cache: nodes with places, models in them, tasks at them; event by event."""

import statistics
from collections import deque
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from .load import LOAD_S, MODELS, NODES, PLACES, SLOTS, Load, Task

SLOW_S = 5.0
# A task that has not begun by then is given up, and counts as that late.
PATIENCE_S = 15.0


class Outcome(NamedTuple):
    """What the second half of a run was like."""

    mean_s: float
    fluctuation_s: float  # standard deviation of the means of each second
    p99_s: float
    slow: float  # share of tasks over 5 s
    loads: int


class Replica:
    """A model in a place."""

    def __init__(self, node: int, model: int, ready: bool) -> None:
        self.node = node
        self.model = model
        self.ready = ready  # loaded
        self.gone = False  # evicted: what runs ends, nothing begins
        self.running = 0
        self.queue: deque[Task] = deque()
        self.used_s = 0.0  # last

    @property
    def tasks(self) -> int:
        """What it has, running and waiting."""
        return self.running + len(self.queue)


class Policy(Protocol):
    """Who decides."""

    every_s: float | None  # between calls of `tick`; None: never

    def pick(self, cache: "Cache", task: Task) -> Replica | None:
        """Return where a task goes; may load it there. None: it waits for a load."""

    def tick(self, cache: "Cache") -> None:
        """Move models, if it is time."""


class Cache:
    """All nodes at one time."""

    def __init__(self, load: Load) -> None:
        self.now = 0.0
        self.loads = 0
        self.nodes: list[dict[int, Replica]] = [{} for _ in range(NODES)]
        self.of: list[list[Replica]] = [[] for _ in range(MODELS)]
        self.tasks = [0] * NODES  # running and waiting
        self._events: list[tuple[float, int, Replica, Task | None]] = []
        self._count = 0
        self._stray: deque[Task] = deque()  # without a replica, for now
        self._stuck = False  # the first of them waits for a load to end
        self.finished: list[tuple[Task, float]] = []
        self._fill(load)

    def _fill(self, load: Load) -> None:
        # One of each model, then where a replica has most to do.
        order = sorted(range(MODELS), key=lambda m: -load.base[m])
        replicas = [1] * MODELS
        while sum(replicas) < NODES * PLACES:
            replicas[max(order, key=lambda m: load.base[m] / replicas[m])] += 1
        for model in order:
            for _ in range(replicas[model]):
                open_nodes = [n for n in range(NODES) if model not in self.nodes[n]]
                node = min(open_nodes, key=lambda n: len(self.nodes[n]))
                self._add(Replica(node, model, ready=True))

    def load(self, node: int, model: int, evict: int | None) -> Replica:
        """Begin to load a model, in the place of another if there is no room."""
        if evict is not None:
            self._evict(self.nodes[node][evict])
        if len(self.nodes[node]) >= PLACES or model in self.nodes[node]:
            raise ValueError(f"node {node} has no place for model {model}")
        replica = Replica(node, model, ready=False)
        self._add(replica)
        self.loads += 1
        self._at(self.now + LOAD_S, replica, None)
        return replica

    def offer(self, task: Task, policy: Policy) -> None:
        """Give a task to the replica that a policy picks."""
        self._stray.append(task)
        self._settle(policy)

    def until(self, now: float, policy: Policy) -> None:
        """Let everything happen up to a time."""
        while self._events and self._events[0][0] <= now:
            self.now, _, replica, task = heappop(self._events)
            if task is None:
                replica.ready = True
                self._stuck = False
                self._begin(replica)
                self._settle(policy)
            else:
                replica.running -= 1
                self.tasks[replica.node] -= 1
                self.finished.append((task, self.now))
                self._begin(replica)
        self.now = now
        self._settle(policy)

    def _settle(self, policy: Policy) -> None:
        """Route what has no replica, until a task can have none before a load ends."""
        while self._stray and not self._stuck:
            task = self._stray.popleft()
            if self._given_up(task):
                continue
            replica = policy.pick(self, task)
            if replica is None:
                self._stray.appendleft(task)
                self._stuck = True
            else:
                replica.used_s = self.now
                replica.queue.append(task)
                self.tasks[replica.node] += 1
                self._begin(replica)

    def _begin(self, replica: Replica) -> None:
        while (
            replica.queue
            and replica.ready
            and not replica.gone
            and replica.running < SLOTS
        ):
            task = replica.queue.popleft()
            if self._given_up(task):
                self.tasks[replica.node] -= 1
                continue
            replica.running += 1
            self._at(self.now + task.service_s, replica, task)

    def _given_up(self, task: Task) -> bool:
        return self.now - task.at_s > PATIENCE_S

    def _add(self, replica: Replica) -> None:
        self.nodes[replica.node][replica.model] = replica
        self.of[replica.model].append(replica)

    def _evict(self, replica: Replica) -> None:
        replica.gone = True
        del self.nodes[replica.node][replica.model]
        self.of[replica.model].remove(replica)
        self._stray.extend(replica.queue)
        self.tasks[replica.node] -= len(replica.queue)
        replica.queue.clear()

    def _at(self, at_s: float, replica: Replica, task: Task | None) -> None:
        self._count += 1
        heappush(self._events, (at_s, self._count, replica, task))


def simulate(load: Load, policy: Policy) -> Outcome:
    """Return how a load fares under a policy."""
    cache = Cache(load)
    tick_s = policy.every_s
    for task in load.tasks:
        while policy.every_s is not None and tick_s is not None and tick_s <= task.at_s:
            cache.until(tick_s, policy)
            policy.tick(cache)
            tick_s += policy.every_s
        cache.until(task.at_s, policy)
        cache.offer(task, policy)
    cache.until(load.length_s + 60.0, policy)
    return measured(cache, load)


def measured(cache: Cache, load: Load) -> Outcome:
    """Return the figures of the second half. A second is that of the arrival."""
    ended = dict(cache.finished)
    seconds: dict[int, list[float]] = {}
    for task in load.tasks:
        if task.at_s >= load.length_s / 2:
            took_s = ended[task] - task.at_s if task in ended else PATIENCE_S
            seconds.setdefault(int(task.at_s), []).append(took_s)
    took = sorted(one for second in seconds.values() for one in second)
    return Outcome(
        mean_s=statistics.fmean(took),
        fluctuation_s=statistics.pstdev(map(statistics.fmean, seconds.values())),
        p99_s=took[int(0.99 * len(took))],
        slow=sum(one > SLOW_S for one in took) / len(took),
        loads=cache.loads,
    )
