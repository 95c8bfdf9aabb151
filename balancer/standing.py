"""Who may be picked at all: the operator's intent, then what silence means.

Silence is not death, but a lost node is never picked, and a stale one only
when nothing else fits. Whom nobody has measured is neither good nor bad: it
counts as the middle of the fleet (gRPC's weighted round robin does the same).
"""

from .snapshot import Admin, State

# Not there.
GONE = frozenset({State.LOST, State.SLEEPING})
_UNMEASURED = frozenset({State.JOINING, State.UNKNOWN})
# Heard of lately, and measured.
REPORTING = frozenset({State.HEALTHY, State.STRAINED, State.SATURATED})
# Working capacity.
USABLE = frozenset({State.HEALTHY, State.STRAINED, State.JOINING, State.UNKNOWN})


def barred(admin: Admin, state: State, slots: int) -> str | None:
    """Return why a node is never picked; None if it may be."""
    if admin is not Admin.ACTIVE:
        return admin.value
    if state in GONE:
        return state.value
    return "slotless" if slots < 1 else None


def measured(state: State) -> bool:
    """Say whether the headrooms of a node in this state are to be believed."""
    return state not in _UNMEASURED
