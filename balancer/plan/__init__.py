"""The rebalance plan: which node should load which data item, and is it worth it.

`rates` makes demand of a forecast, `make` a `Plan` of a `Fleet`. Nothing is
applied here. `docs/plan.md` says what decides.
"""

from .demand import rates
from .document import BadFleet, parse_fleet, shown
from .fleet import Fleet, Holder, Item
from .planner import Move, Needed, Plan, Rejected, make
from .settings import Settings

__all__ = [
    "BadFleet",
    "Fleet",
    "Holder",
    "Item",
    "Move",
    "Needed",
    "Plan",
    "Rejected",
    "Settings",
    "make",
    "parse_fleet",
    "rates",
    "shown",
]
