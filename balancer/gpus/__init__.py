"""Placing tasks on GPUs so that what stays free stays useful.

Keep the mix of what is asked (`RecentAsks`), and let `Floor.place` pick, or ask
`growth` what one node would lose. `docs/gpu-placement.md` says what decides.
"""

from .fgd import Choice, Fgd, Policy, growth
from .floor import Floor, Placement
from .mix import Mix, Part, RecentAsks, typical
from .room import Ask, Room, fits, stranding, take

__all__ = [
    "Ask",
    "Choice",
    "Fgd",
    "Floor",
    "Mix",
    "Part",
    "Placement",
    "Policy",
    "RecentAsks",
    "Room",
    "fits",
    "growth",
    "stranding",
    "take",
    "typical",
]
