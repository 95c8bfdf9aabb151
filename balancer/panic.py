"""The panic threshold: when most capacity looks bad, doubt the looking.

From Envoy's healthy panic threshold, computed on capacity instead of hosts
and on what remains after everything else was left out. Under it headroom is
ignored and capacity alone decides, since the few nodes that look well would
otherwise get everybody's load. It widens nothing: drained and lost nodes stay
out, and stale ones are still taken only when nothing else fits.
"""

from collections.abc import Iterable

from .snapshot import State
from .standing import USABLE


def remaining(nodes: Iterable[tuple[State, float]]) -> float:
    """Return the usable share of the capacity, 0.0-1.0; 1.0 of no capacity."""
    whole = left = 0.0
    for state, capacity in nodes:
        whole += capacity
        if state in USABLE:
            left += capacity
    return left / whole if whole > 0 else 1.0
