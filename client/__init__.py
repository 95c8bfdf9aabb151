"""The collector's HTTP API for Python.

>>> with Client("http://127.0.0.1:7767") as collector:  # doctest: +SKIP
...     match collector.route({"class": "batch", "memory_mib": 2000}):
...         case Decision(node=node, id=lease):
...             collector.outcome(lease, "ok", service_ms=work_on(node))
...         case NoFit(detail=why_not):
...             print(why_not)

Every call raises an ApiError whose text says what was asked of which URL and
what came back.
"""

from .api import Client
from .authority import BadAuthority
from .base_url import DEFAULT_URL, BadUrl, parse_base
from .decisions import (
    Alternative,
    BadTask,
    Candidate,
    Closed,
    Decision,
    Example,
    Filtered,
    NoFit,
    Outcome,
    Why,
)
from .errors import ApiError, NoCollector, NotFound, WrongServer
from .events import Event, EventPage
from .forecasts import Band, Forecast
from .history import History, Series
from .nodes import Drain, Hole, Link, Node, NodeSummary
from .ready import Ready

__all__ = [
    "DEFAULT_URL",
    "Alternative",
    "ApiError",
    "BadAuthority",
    "BadTask",
    "BadUrl",
    "Band",
    "Candidate",
    "Client",
    "Closed",
    "Decision",
    "Drain",
    "Event",
    "EventPage",
    "Example",
    "Filtered",
    "Forecast",
    "History",
    "Hole",
    "Link",
    "NoCollector",
    "NoFit",
    "Node",
    "NodeSummary",
    "NotFound",
    "Outcome",
    "Ready",
    "Series",
    "Why",
    "WrongServer",
    "parse_base",
]
