"""The rebalance plan: which node should load which data item, and is it worth it.

`make` takes a `Fleet` and gives a `Plan`; `rates` makes demand of a forecast.
Nothing is applied here, and nothing asks it yet.
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
