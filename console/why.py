"""A decision's reason in a sentence: which node, against what, and by how much."""

from trimtab.client import Candidate, Decision

from . import units
from .harmless import harmless

_MODES = {
    "spill": "No node with fresh reports fits, so a stale one was taken.",
    "panic": (
        "Less than half of the capacity that fits is usable, so headroom "
        "was ignored (panic)."
    ),
}


def sentence(decision: Decision) -> str:
    """Return why this node, in plain text that is safe to show."""
    why, node = decision.why, harmless(decision.node)
    chosen = next((c for c in why.candidates if c.node == decision.node), None)
    rivals = [c for c in why.candidates if c.node != decision.node]
    if why.fitting == 1:
        said = f"{node} is the only node that fits"
    else:
        fit = "" if why.fitting is None else f" ({why.fitting} fit)"
        said = f"{node} answers soonest of {units.count(why.compared)} compared{fit}"
    if chosen is not None:
        said += f": {_cost(chosen)}"
    if rivals:
        next_best = rivals[0]
        said += (
            f"; next is {harmless(next_best.node)} "
            f"with {units.milliseconds(next_best.cost_ms)}"
        )
    mode = _MODES.get(why.mode)
    return f"{said}. {mode}" if mode else f"{said}."


def _cost(chosen: Candidate) -> str:
    return (
        f"{units.milliseconds(chosen.cost_ms)} expected "
        f"(round trip {units.milliseconds(chosen.rtt_ms)}, {busy(chosen)} slots busy)"
    )


def busy(candidate: Candidate) -> str:
    """Return the slots in use, by our leases and by others, of how many."""
    return f"{candidate.in_flight + candidate.others:.1f} of {candidate.slots}"
