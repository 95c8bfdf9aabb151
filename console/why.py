"""A decision's reason in a sentence: which node, against what, and by how much."""

from trimtab.client import Candidate, Decision

from . import units
from .harmless import harmless

_MODES = {
    "spill": "No fresh and sound node fits, so a stale or ejected one was taken.",
    "panic": (
        "Too little of the capacity looks usable, so headroom was ignored (panic)."
    ),
}


def sentence(decision: Decision) -> str:
    """Return why this node, in plain text that is safe to show."""
    why, node = decision.why, harmless(decision.node)
    chosen = next((c for c in why.candidates if c.node == decision.node), None)
    rivals = [c for c in why.candidates if c.node != decision.node]
    seen = "" if why.looked_at is None else f" of {why.looked_at} looked at"
    if why.compared == 1:
        said = f"{node} is the only node that fits{seen}"
    else:
        said = f"{node} answers soonest of {units.count(why.compared)} that fit{seen}"
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
        f"(round trip {units.milliseconds(chosen.rtt_ms)}, {busy(chosen)} slots taken)"
    )


def busy(candidate: Candidate) -> str:
    """Return the slots taken by leases, ours and of other balancers, of how many."""
    return f"{candidate.in_flight + candidate.elsewhere:.3g} of {candidate.slots}"
