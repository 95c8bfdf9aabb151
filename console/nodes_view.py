"""The fleet at a glance: `trimtab nodes`, and the live lines of `make run`."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from trimtab.client import NodeSummary

from . import units
from .harmless import harmless
from .states import state
from .terminal import table

DIMENSIONS = ("cpu", "memory", "network", "gpu")


def fleet(nodes: Sequence[NodeSummary], *, roomy: bool) -> Table:
    """Return a row a node, as ordered; a narrow terminal gets fewer columns."""
    placed = roomy and any(node.site or node.zone for node in nodes)
    columns = ["node", "state", "score", "limiting"]
    columns += [*DIMENSIONS] if roomy else []
    columns += ["age"]
    columns += ["site/zone"] if placed else []
    shown = table(*columns, numbers=("score", *DIMENSIONS, "age"))
    for node in nodes:
        cells: list[str | Text] = [
            Text(harmless(node.name)),
            state(node),
            units.number(node.score),
            Text(harmless(node.limiting or units.NO_READING)),
        ]
        if roomy:
            cells += [units.number(node.headroom.get(d)) for d in DIMENSIONS]
        cells.append(age(node))
        if placed:
            cells.append(Text(harmless(f"{node.site or ''}/{node.zone or ''}")))
        shown.add_row(*cells)
    return shown


def line(node: NodeSummary) -> str:
    """Return a node in one line of plain text."""
    rooms = "  ".join(f"{d} {units.number(node.headroom.get(d))}" for d in DIMENSIONS)
    return (
        f"{harmless(node.name)}  {state(node).plain}  score {units.number(node.score)}"
        f"  limiting {harmless(node.limiting or units.NO_READING)}  {rooms}"
    )


def age(node: NodeSummary) -> str:
    """Return the age of the newest reading."""
    return units.duration(None if node.age_ms is None else node.age_ms / 1000)
