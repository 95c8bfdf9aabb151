"""How urgent a node is, and the words and colours for its state.

At three in the morning the first line should be the one to act on. So nodes
that are in use and silent or full come first, then the merely strained, the
unknown and the well; what the operator has taken out comes after all that,
since it is as it was wanted. Within a state the least score leads, then the
name. The colour only repeats what the word says.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.text import Text

from trimtab.client import NodeSummary

from .harmless import harmless

_URGENCY = (
    "lost",
    "saturated",
    "stale",
    "strained",
    "unknown",
    "joining",
    "healthy",
    "sleeping",
)
_COLOURS = {
    "lost": "bold red",
    "saturated": "red",
    "stale": "magenta",
    "strained": "yellow",
    "unknown": "cyan",
    "joining": "cyan",
    "healthy": "green",
    "sleeping": "dim",
}


def worst_first(nodes: Iterable[NodeSummary]) -> list[NodeSummary]:
    """Return the nodes, the one to look at first at the top."""
    return sorted(nodes, key=_urgency)


def _urgency(node: NodeSummary) -> tuple[bool, int, float, str]:
    # A state of a newer collector counts as unknown.
    state = node.state if node.state in _URGENCY else "unknown"
    score = 2.0 if node.score is None else node.score
    return node.admin != "active", _URGENCY.index(state), score, node.name


def state(node: NodeSummary) -> Text:
    """Return the state, and the operator's intent where it is a special one."""
    words = node.state if node.admin == "active" else f"{node.state}, {node.admin}"
    return Text(harmless(words), style=_COLOURS.get(node.state, ""))


def tally(nodes: Sequence[NodeSummary]) -> str:
    """Return how many nodes there are in each state."""
    if not nodes:
        return "No node has reported yet: start an agent with 'trimtab-agent run'."
    counts = Counter(node.state for node in worst_first(nodes))
    parts = [f"{n} {harmless(name)}" for name, n in counts.items()]
    out = sum(node.admin != "active" for node in nodes)
    if out:
        parts.append(f"{out} taken out by the operator")
    return f"{len(nodes)} node{'s' * (len(nodes) != 1)}: {', '.join(parts)}."
