"""Data affinity: where the data already is, unless that node is busier than it saves.

`Affinity` routes by what each node is believed to hold; `loading` counts what a
node must do before data or a model it lacks is there. `docs/affinity.md` says
what decides.
"""

from .affinity import Affinity, Destination
from .blocks import Blocks
from .loading import Item, Shelf, wait_ms, waits_ms
from .near import Option, nearest, window
from .recent import RecentWork

__all__ = [
    "Affinity",
    "Blocks",
    "Destination",
    "Item",
    "Option",
    "RecentWork",
    "Shelf",
    "nearest",
    "wait_ms",
    "waits_ms",
    "window",
]
