"""Routing decisions: pure, without I/O, clock or global chance.

Build a `Snapshot`, hand it to a `Router` with `update`, and ask `route` with a
`Task`. `docs/routing.md` says what decides.
"""

from .decision import Alternative, Candidate, Decision, NoFit
from .pool import Filtered, Mode
from .router import Closing, Outcome, Router
from .settings import Settings
from .snapshot import Admin, Node, Snapshot, State
from .task import BadTask, Problem, Task, parse_task

__all__ = [
    "Admin",
    "Alternative",
    "BadTask",
    "Candidate",
    "Closing",
    "Decision",
    "Filtered",
    "Mode",
    "NoFit",
    "Node",
    "Outcome",
    "Problem",
    "Router",
    "Settings",
    "Snapshot",
    "State",
    "Task",
    "parse_task",
]
