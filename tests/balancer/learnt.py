"""What weights learnt from outcomes must be true to, whoever learns them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import NamedTuple

from .recorded import Done

Weights = Mapping[str, float]


class Learnt(NamedTuple):
    """The weights as they were after one more piece of work."""

    at_s: float
    weights: Weights


def followed(
    done: Iterable[Done], learn: Callable[[Done], Mapping[str, float]]
) -> list[Learnt]:
    """Return the weights after each piece; `learn` gives a service time a node."""
    return [
        Learnt(each.at_s, {node: 1 / time for node, time in learn(each).items()})
        for each in done
    ]


def right_weights(done: Iterable[Done]) -> dict[str, float]:
    """Return 1 / median time a node, with a mean of 1."""
    times: dict[str, list[float]] = defaultdict(list)
    for each in done:
        times[each.node].append(each.service_s)
    return even({node: 1 / median(values) for node, values in times.items()})


def even(weights: Weights) -> dict[str, float]:
    """Return the weights scaled to a mean of 1."""
    mean = fmean(weights.values())
    return {node: weight / mean for node, weight in weights.items()}


def usual_weights(track: Sequence[Learnt], after_s: float) -> dict[str, float]:
    """Return each node's median weight from then on, with a mean of 1.

    A weight follows what happens, so it is held against a whole job by where
    it mostly was, and not by where it ended.
    """
    seen: dict[str, list[float]] = defaultdict(list)
    for learnt in track:
        if learnt.at_s >= after_s:
            for node, weight in learnt.weights.items():
                seen[node].append(weight)
    return even({node: median(values) for node, values in seen.items()})


def away(learnt: Weights, right: Weights) -> dict[str, float]:
    """Return how far each weight is from the right one, as a share of it."""
    return {node: learnt[node] / right[node] - 1 for node in right}


def losses(track: Sequence[Learnt], share: float) -> dict[str, list[float]]:
    """Return when each node was so much below its own usual weight.

    Weights count against the median node's, so that a fleet that slows down as
    a whole has no straggler.
    """
    seen: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for at_s, weights in track:
        middle = median(weights.values())
        for node, weight in weights.items():
            seen[node].append((at_s, weight / middle))
    found: dict[str, list[float]] = {}
    for node, values in seen.items():
        usual = median(weight for _, weight in values)
        below = [at_s for at_s, weight in values if weight < (1 - share) * usual]
        if below:
            found[node] = below
    return found


def swing(track: Sequence[Learnt], after_s: float) -> dict[str, float]:
    """Return the widest a weight strays from its own median, as a share of it."""
    seen: dict[str, list[float]] = defaultdict(list)
    for learnt in track:
        if learnt.at_s >= after_s:
            for node, weight in even(learnt.weights).items():
                seen[node].append(weight)
    middle = {node: median(values) for node, values in seen.items()}
    return {
        node: max(abs(value / middle[node] - 1) for value in values)
        for node, values in seen.items()
    }
