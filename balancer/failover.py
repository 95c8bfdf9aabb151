"""Where to go next if the first choice fails: what does not fail with it.

Each next node shares no risk group with those before it, or else the fewest,
and among such nodes costs least. Chosen among the nodes that were compared:
in a large fleet that is a sample.
"""

from collections.abc import Sequence

ALTERNATIVES = 2


def alternatives(order: Sequence[int], groups: Sequence[Sequence[str]]) -> list[int]:
    """Return up to two positions to follow `order[0]`; `order` is by cost."""
    taken: set[str] = set(groups[order[0]])
    left = list(order[1:])
    chosen: list[int] = []
    while left and len(chosen) < ALTERNATIVES:
        # min keeps the first of equals, which costs least.
        following = min(
            left, key=lambda position: len(taken.intersection(groups[position]))
        )
        left.remove(following)
        chosen.append(following)
        taken.update(groups[following])
    return chosen
