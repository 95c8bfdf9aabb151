"""Replicas span risk groups: no one rack or feed takes the last of an item.

Replicas span if no group is common to all of them, but for groups that every
usable node is in: where the whole fleet is in one room, that room is no choice.
One replica has nothing to span.
"""

from collections.abc import Iterable


def common(groups: Iterable[frozenset[str]]) -> frozenset[str]:
    """Return the groups that all share; of nothing, none."""
    held = list(groups)
    return frozenset.intersection(*held) if held else frozenset()


def spans(replicas: list[frozenset[str]], everywhere: frozenset[str]) -> bool:
    """Return whether replicas, by the groups of their nodes, span them."""
    return len(replicas) < 2 or common(replicas) <= everywhere
