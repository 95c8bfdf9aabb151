"""How much waiting a number of replicas means, in task-seconds.

A fluid queue carries what is over capacity from step to step; within capacity
chance still makes tasks wait, by Sakasegawa's approximation for many servers
(1977), rho^sqrt(2(c + 1)) / (1 - rho) tasks. In each step the greater counts.
Coarse on purpose: it compares one replica more with one less, and more slots
never mean more waiting.
"""

from collections.abc import Sequence
from math import ceil, sqrt

# Nearer to 1 the formula runs off to infinity, which no queue does in minutes.
_FULL = 0.98


def need(rate: float, service_s: float, slots: int, filling: float) -> int:
    """Return the replicas that a rate of tasks a second asks for."""
    # A hair of rounding must not cost a replica.
    return max(0, ceil(rate * service_s / (filling * slots) - 1e-9))


def waited_task_s(
    rates: Sequence[float], step_s: float, service_s: float, slots: Sequence[float]
) -> float:
    """Return what all tasks together wait, with so many slots in each step."""
    total = backlog = 0.0
    for rate, open_slots in zip(rates, slots, strict=True):
        arrives = rate * step_s
        capacity = open_slots * step_s / service_s
        left = max(0.0, backlog + arrives - capacity)
        waiting = (backlog + left) / 2
        if capacity:
            # Within one step chance can't pile up more than as if none were served.
            by_chance = min(_queue(arrives / capacity, open_slots), arrives / 2)
            waiting = max(waiting, by_chance)
        total += waiting * step_s
        backlog = left
    return total


def _queue(load: float, slots: float) -> float:
    load = min(load, _FULL)
    waiting: float = load ** sqrt(2 * (slots + 1)) / (1 - load)
    return waiting


def slots_over(
    steps: int, step_s: float, slots: float, more: float, from_s: float
) -> list[float]:
    """Return the slots in each step if `more` of them are there from a time on."""
    found: list[float] = []
    for step in range(steps):
        share = min(1.0, max(0.0, (step + 1) - from_s / step_s))
        found.append(slots + share * more)
    return found
