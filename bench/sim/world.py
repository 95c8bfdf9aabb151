"""The fleet and the load of one run, made before any policy sees it.

Every policy meets the same nodes, arrivals, work and disturbances: what differs
between two runs of one seed is only where work went.
"""

from bisect import bisect
from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

SHORT_MS, LONG_MS = 20.0, 200.0
LONG_SHARE = 0.1
TIMEOUT_S = 2.0
WARM_S = 10.0
RUN_S = 90.0


@dataclass(frozen=True)
class Cell:
    """What a run is about: the centre, with one thing varied."""

    scenario: str = "S3"  # "steady", "S1" bursts, "S2" failures, "S3" both
    nodes: int = 24
    balancers: int = 8
    load: float = 0.6  # of the mean capacity
    period_s: float = 1.0  # of reports
    delay_s: float = 0.5
    scale: float = 1.0  # of the work
    noise: float = 0.1  # of reports
    spread: str = "fixed"  # work within a class, or "exponential"
    options: tuple[str, ...] = ()  # of the router: see sim/ours.py

    @property
    def name(self) -> str:
        """What is varied, in words."""
        plain = Cell()
        words = [self.scenario]
        for key, unit in _VARIED.items():
            value = getattr(self, key)
            if value != getattr(plain, key):
                words.append(f"{unit}{value:g}" if unit else str(value))
        return " ".join((*words, *self.options))

    def plain(self) -> "Cell":
        """Return the same for policies that have none of the router's options."""
        return replace(self, options=())


_VARIED = {
    "nodes": "n=",
    "balancers": "M=",
    "load": "rho=",
    "period_s": "period=",
    "delay_s": "delay=",
    "scale": "work×",
    "noise": "noise=",
    "spread": "",
}


class Change(NamedTuple):
    """From `at` on, the node's speed is multiplied by `factor`; 0 is a black hole."""

    at: float
    factor: float


@dataclass
class Machine:
    """One node. Its speeds are known to nobody but the simulator."""

    slots: int
    nominal: float  # speed in its inventory
    hidden: float  # the real speed
    rtt_s: float
    groups: tuple[str, ...]
    starts: list[float] = field(default_factory=lambda: [0.0])
    factors: list[float] = field(default_factory=lambda: [1.0])

    def speed(self, at: float) -> float:
        """Return the speed now; 0: whatever arrives is lost."""
        return self.hidden * self.factors[bisect(self.starts, at) - 1]


class Arrival(NamedTuple):
    """A request."""

    at: float
    balancer: int
    long: bool
    work_ms: float


@dataclass(frozen=True)
class World:
    """All of a run that no policy changes."""

    cell: Cell
    machines: list[Machine]
    arrivals: list[Arrival]
    until: float

    @property
    def capacity(self) -> list[float]:
        """What each node's inventory says that it can do."""
        return [m.slots * m.nominal for m in self.machines]


def make(cell: Cell, seed: int) -> World:
    """Return the world of a seed."""
    until = WARM_S + RUN_S
    rng = Random(f"{seed} fleet {cell.nodes}")
    machines = [_machine(rng, i) for i in range(cell.nodes)]
    for machine in machines:
        _disturb(machine, _antagonists(rng, until))
    if cell.scenario in ("S2", "S3"):
        _fail(machines, rng)
    load = Random(f"{seed} load {cell.balancers}")
    return World(cell, machines, _arrivals(cell, machines, load, until), until)


def _machine(rng: Random, index: int) -> Machine:
    nominal = rng.choice((0.6, 1.0, 1.6))
    return Machine(
        slots=rng.choice((2, 4, 8)),
        nominal=nominal,
        hidden=nominal * rng.uniform(0.8, 1.2),
        rtt_s=rng.uniform(0.002, 0.025),
        groups=(f"power{index % 8}",),
    )


def _antagonists(rng: Random, until: float) -> list[tuple[float, float, float]]:
    """Return begin, end and factor of neighbours: 8 s on, 30 s off on average."""
    found: list[tuple[float, float, float]] = []
    at = rng.expovariate(1 / 30)
    while at < until:
        end = at + rng.expovariate(1 / 8)
        found.append((at, end, 1 - rng.uniform(0.2, 0.7)))
        at = end + rng.expovariate(1 / 30)
    return found


def _disturb(machine: Machine, spans: list[tuple[float, float, float]]) -> None:
    """Multiply the machine's speed over spans of time."""
    edges = sorted({0.0, *machine.starts, *(t for s in spans for t in s[:2])})
    factors = []
    for at in edges:
        factor = machine.factors[bisect(machine.starts, at) - 1]
        for begin, end, by in spans:
            if begin <= at < end:
                factor *= by
        factors.append(factor)
    machine.starts, machine.factors = edges, factors


def _fail(machines: list[Machine], rng: Random) -> None:
    """A large node goes dark with siblings of its group at 40 %, then gray ones."""
    largest = max(m.slots for m in machines)
    dark = rng.choice([i for i, m in enumerate(machines) if m.slots == largest])
    others = [i for i in range(len(machines)) if i != dark]
    rng.shuffle(others)
    siblings, gray = others[:2], others[2:5]
    for sibling in siblings:
        machines[sibling].groups = machines[dark].groups
    begin, end = WARM_S + 15, WARM_S + 40
    _disturb(machines[dark], [(begin, end, 0.0)])
    for i in siblings:
        _disturb(machines[i], [(begin, end, 0.4)])
    for i in gray:
        _disturb(machines[i], [(WARM_S + 50, WARM_S + 75, 0.2)])


def _arrivals(
    cell: Cell, machines: list[Machine], rng: Random, until: float
) -> list[Arrival]:
    # Antagonists take about a tenth: 8 s of 38 s, 45 % on average.
    capacity = sum(m.slots * m.hidden for m in machines) * (1 - 8 / 38 * 0.45)
    mean_ms = cell.scale * (SHORT_MS * (1 - LONG_SHARE) + LONG_MS * LONG_SHARE)
    rate = cell.load * capacity / (mean_ms / 1000)
    bursts = cell.scenario in ("S1", "S3")
    found: list[Arrival] = []
    at = 0.0
    while True:
        at += rng.expovariate(rate * 1.3)
        if at >= until:
            return found
        # Thinning: the burst is the full rate, the rest of the time 1/1.3 of it.
        burst = bursts and 10 <= at % 30 < 15
        kept = rng.random() < 1 / 1.3
        long = rng.random() < LONG_SHARE
        spread = rng.expovariate(1.0) if cell.spread == "exponential" else 1.0
        balancer = rng.randrange(cell.balancers)
        if kept or burst:
            work = (LONG_MS if long else SHORT_MS) * cell.scale * spread
            found.append(Arrival(at, balancer, long, max(0.1, work)))
