"""What became of a node that an operator took out, put back or deleted."""

from trimtab.client import Node, NodeSummary

from . import units
from .harmless import harmless


def told(node: Node) -> str:
    """Return the node's standing in a sentence that is safe to show."""
    name = harmless(node.name)
    match node.admin:
        case "active":
            return f"{name} takes tasks again; it is {harmless(node.state)}."
        case "tombstoned":
            return (
                f"{name} is deleted, and its agent is refused. "
                f"'trimtab undrain {harmless(node.id)}' lets it back."
            )
        case "draining":
            return (
                f"{name} is draining: no new tasks, and none at all "
                f"{_end(node)}.{_why(node)}"
            )
        case _:
            return f"{name} is {harmless(node.admin)}: it takes no tasks.{_why(node)}"


def drain(node: NodeSummary) -> str | None:
    """Return since when, until when, by whom and why; None if it is in use.

    Not yet safe to show.
    """
    if node.drain is None:
        return None
    said = f"since {units.moment(node.drain.since)}"
    if node.drain.until is not None:
        said += f", at the latest drained at {units.moment(node.drain.until)}"
    if node.drain.by:
        said += f", by {node.drain.by}"
    return f"{said}: {node.drain.reason}"


def _end(node: Node) -> str:
    if node.drain is None or node.drain.until is None:
        return "once its work is done"
    return f"once its work is done, at the latest at {units.moment(node.drain.until)}"


def _why(node: Node) -> str:
    return "" if node.drain is None else f" Reason: {harmless(node.drain.reason)}."
