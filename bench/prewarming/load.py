"""The load: models by popularity, bursts that repeat, and every task drawn."""

import random
from typing import NamedTuple

NODES = 12
PLACES = 3  # a node
MODELS = 24
LOAD_S = 12.0
SLOTS = 2  # of a model in a place
SERVICE_S = 0.35  # mean, exponential
BASE = 45.0  # tasks a second, all models
PERIOD_S = 240.0
BURST_S = 40.0
PAIRS = 3
BURST = 6.0  # tasks a second more, each model of the pair, in the mean
LATE_S = 8.0  # a burst may be, or early
UNEVEN = 0.3  # a burst may be larger or smaller by


class Task(NamedTuple):
    """One arrival."""

    at_s: float
    model: int
    service_s: float


class Burst(NamedTuple):
    """One burst of one model."""

    start_s: float
    rate: float  # tasks a second more


class Load(NamedTuple):
    """A run's tasks, and what they were drawn from."""

    seed: int
    length_s: float
    base: tuple[float, ...]  # tasks a second by model
    bursts: dict[int, tuple[Burst, ...]]  # by model, one a period
    tasks: tuple[Task, ...]

    def rate(self, model: int, at_s: float) -> float:
        """Return the tasks a second that a model has at a time, without chance."""
        more = sum(
            burst.rate
            for burst in self.bursts.get(model, ())
            if burst.start_s <= at_s < burst.start_s + BURST_S
        )
        return self.base[model] + more


def drawn(seed: int, length_s: float) -> Load:
    """Return the load of a seed: who is popular, who bursts, and each task."""
    rng = random.Random(seed)
    ranks = list(range(1, MODELS + 1))
    rng.shuffle(ranks)
    whole = sum(1 / rank for rank in ranks)
    base = tuple(BASE / rank / whole for rank in ranks)
    # Those that are small otherwise: nobody keeps replicas of them for nothing.
    small = [model for model in range(MODELS) if ranks[model] > 4]
    chosen = rng.sample(small, 2 * PAIRS)
    offset_s = rng.uniform(0, PERIOD_S)
    bursts = {
        model: _bursts(rng, offset_s + index // 2 * PERIOD_S / PAIRS, length_s)
        for index, model in enumerate(chosen)
    }
    load = Load(seed, length_s, base, bursts, ())
    tasks: list[Task] = []
    for model in range(MODELS):
        # Thinning (Lewis and Shedler 1979): draw at the peak, keep by the rate.
        peak = base[model] + (BURST * (1 + UNEVEN) if model in bursts else 0.0)
        at_s = rng.expovariate(peak)
        while at_s < length_s:
            if rng.random() * peak < load.rate(model, at_s):
                tasks.append(Task(at_s, model, rng.expovariate(1 / SERVICE_S)))
            at_s += rng.expovariate(peak)
    return load._replace(tasks=tuple(sorted(tasks)))


def _bursts(rng: random.Random, first_s: float, length_s: float) -> tuple[Burst, ...]:
    turns = range(-1, int(length_s / PERIOD_S) + 1)
    return tuple(
        Burst(
            first_s + turn * PERIOD_S + rng.uniform(-LATE_S, LATE_S),
            BURST * rng.uniform(1 - UNEVEN, 1 + UNEVEN),
        )
        for turn in turns
    )
