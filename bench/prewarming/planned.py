"""The shipped plan, with demand as last seen, as foreseen, or as known."""

from collections.abc import Callable, Sequence

from trimtab.balancer.forecast import Kind, Series
from trimtab.balancer.plan import Fleet, Holder, Item, Settings, make, rates

from .cache import Cache, Replica
from .load import LOAD_S, MODELS, PLACES, SERVICE_S, SLOTS, Load, Task

STEP_S = 10.0
INTERVAL_S = 20.0
STEPS = 30  # of 10 s: the horizon of the plan, 300 s
GAIN = 0.5

# Tasks a second in the coming steps, from the counts of the last step, by model.
Demand = Callable[[float, int, float], Sequence[float] | None]


class Planned:
    """Routes to what is loaded, and moves by the plan."""

    def __init__(self, demand: Demand | None) -> None:
        self.every_s: float | None = STEP_S
        self._demand = demand
        self._counts = [0] * MODELS

    def pick(self, cache: Cache, task: Task) -> Replica:
        """Return the replica with the fewest tasks, loaded ones first."""
        self._counts[task.model] += 1
        return min(cache.of[task.model], key=lambda one: (not one.ready, one.tasks))

    def tick(self, cache: Cache) -> None:
        """Count a step; every second one, plan and carry out."""
        counts, self._counts = self._counts, [0] * MODELS
        if self._demand is None:
            return
        demand = [
            self._demand(cache.now, model, counts[model] / STEP_S)
            for model in range(MODELS)
        ]
        if cache.now % INTERVAL_S:
            return
        plan = make(_fleet(cache, demand), Settings(interval_s=INTERVAL_S))
        for move in plan.moves:
            evict = None if move.evict is None else int(move.evict)
            cache.load(int(move.node), int(move.load), evict)


def _fleet(cache: Cache, demand: Sequence[Sequence[float] | None]) -> Fleet:
    holders = tuple(
        Holder(
            name=str(node),
            places=PLACES,
            holds=frozenset(str(m) for m, one in held.items() if one.ready),
            loading=frozenset(str(m) for m, one in held.items() if not one.ready),
        )
        for node, held in enumerate(cache.nodes)
    )
    items = tuple(
        Item(
            name=str(model),
            load_s=LOAD_S,
            service_s=SERVICE_S,
            slots=SLOTS,
            rates=None if ahead is None else tuple(ahead),
        )
        for model, ahead in enumerate(demand)
    )
    return Fleet(cache.now, STEP_S, holders, items)


def static(_load: Load) -> Planned:
    """No plan."""
    return Planned(None)


def last(_load: Load) -> Planned:
    """The last step, held."""
    return Planned(lambda _now, _model, rate: [rate] * STEPS)


def mean(load: Load) -> Planned:
    """An exponential mean, held."""
    means = list(load.base)

    def demand(_now: float, model: int, rate: float) -> Sequence[float]:
        means[model] += GAIN * (rate - means[model])
        return [means[model]] * STEPS

    return Planned(demand)


def foreseen(_load: Load) -> Planned:
    """The shipped forecast of each model's count a step."""
    kind = Kind(STEP_S, counts=True)
    series = [Series(kind) for _ in range(MODELS)]

    def demand(now: float, model: int, rate: float) -> Sequence[float] | None:
        series[model].update(now - STEP_S, rate * STEP_S)
        if now % INTERVAL_S:
            return None
        return rates(series[model].forecast(STEPS), STEP_S, rate)

    return Planned(demand)


def known(load: Load) -> Planned:
    """The rates that the tasks were drawn by."""

    def demand(now: float, model: int, _rate: float) -> Sequence[float]:
        return [load.rate(model, now + (step + 0.5) * STEP_S) for step in range(STEPS)]

    return Planned(demand)
