"""Routing decisions: pure, without I/O, clock or global chance.

Build a `Snapshot`, hand it to a `Router` with `update`, and ask `route` with a
`Task`. `docs/routing.md` says what decides.
"""

from .bus import Board, Share
from .damping import Damper
from .decision import Alternative, Candidate, Decision, NoFit
from .outcome import Closing, Outcome
from .pool import Filtered, Mode
from .router import Pick, Router
from .settings import Settings
from .snapshot import Admin, Node, Snapshot, State
from .task import BadTask, Problem, Task, parse_task

__all__ = [
    "Admin",
    "Alternative",
    "BadTask",
    "Board",
    "Candidate",
    "Closing",
    "Damper",
    "Decision",
    "Filtered",
    "Mode",
    "NoFit",
    "Node",
    "Outcome",
    "Pick",
    "Problem",
    "Router",
    "Settings",
    "Share",
    "Snapshot",
    "State",
    "Task",
    "parse_task",
]
