"""Which nodes a list shows, in what order, and where its next page begins.

A cursor holds the order, and the key and id of the last node shown, not a
position: nodes that come or go meanwhile make no other node appear twice or
not at all. A node whose own key changes between two pages may.
"""

import binascii
import heapq
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from aiohttp import web

from ..fleet import Fleet
from ..health import DIMENSIONS
from ..states import Admin, State
from .parameters import one, several, whole, words
from .problems import Problem

DEFAULT_LIMIT, MOST = 100, 1000
SORTS = ("name", "score", "confidence", "age", *DIMENSIONS)
PARAMETERS = ("state", "site", "label", "limiting", "admin", "sort", "limit", "cursor")
STATES = {state.name.lower(): state for state in State}
ADMINS = {admin.name.lower(): admin for admin in Admin}

# What they last said is no reading any more.
SILENT = (State.LOST, State.SLEEPING)

Key = str | float | None


class Entry(NamedTuple):
    """A node's place in an order; the id settles ties."""

    key: Key  # None comes last, whatever the direction
    ident: str
    row: int


class Order(NamedTuple):
    """By what a list is sorted."""

    by: str
    descending: bool

    def __str__(self) -> str:
        return f"-{self.by}" if self.descending else self.by


class Page(NamedTuple):
    """The rows to show, and the cursor of the next page; None after the last."""

    rows: list[int]
    next: str | None


def page(request: web.Request, fleet: Fleet) -> Page:
    """Return what a request for a list asks for; Problem 400 if it is wrong."""
    order = _order(request)
    limit = whole(request, "limit", DEFAULT_LIMIT, 1, MOST)
    after = _cursor(request, order)
    keys = _keys(fleet, order.by)
    entries = [
        Entry(keys(row), fleet.nodes[row].hex_id, row)
        for row in _filtered(request, fleet)
    ]
    shown = _after(entries, order, after, limit + 1)
    more = len(shown) > limit
    del shown[limit:]
    return Page([e.row for e in shown], _written(order, shown[-1]) if more else None)


def _filtered(request: web.Request, fleet: Fleet) -> Iterator[int]:
    """Yield the rows that pass; several values of one parameter are alternatives."""
    rows = np.array(fleet.rows(), dtype=np.intp)
    states = words(request, "state", STATES)
    if states:
        rows = rows[np.isin(fleet.state[rows], [STATES[s] for s in states])]
    admins = words(request, "admin", ADMINS)
    if admins:
        rows = rows[np.isin(fleet.admin[rows], [ADMINS[a] for a in admins])]
    else:  # deleted nodes are shown to who asks for them
        rows = rows[fleet.admin[rows] != Admin.TOMBSTONED]
    limiting = words(request, "limiting", DIMENSIONS)
    if limiting:
        heard = ~np.isin(fleet.state[rows], SILENT)
        wanted = [DIMENSIONS.index(dimension) for dimension in limiting]
        rows = rows[heard & np.isin(fleet.limiting[rows], wanted)]
    sites = several(request, "site")
    labels = [_label(text) for text in several(request, "label")]
    for row in rows.tolist():
        inventory = fleet.nodes[row].hello.inventory
        if sites and inventory.site not in sites:
            continue
        if all(_has(inventory.labels, *label) for label in labels):
            yield row


def _label(text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    if not key:
        raise Problem(
            400, f"label: expected KEY=VALUE, or KEY alone, got {text[:40]!r}"
        )
    return key, value if equals else None


def _has(labels: Mapping[str, str], key: str, value: str | None) -> bool:
    held = labels.get(key)
    return held is not None and value in (None, held)


def _keys(fleet: Fleet, by: str) -> Callable[[int], Key]:
    """Return what a row is sorted by; None where an answer would show null."""
    if by == "name":
        return lambda row: fleet.nodes[row].name
    if by == "age":
        # Newest first, and unlike an age it stands still between two pages.
        return lambda row: _known(-float(fleet.sampled_at[row]))
    if by in DIMENSIONS:
        column = fleet.headroom[:, DIMENSIONS.index(by)]
    else:
        column = fleet.score if by == "score" else fleet.confidence
    return lambda row: (
        None if fleet.state[row] in SILENT else _known(float(column[row]))
    )


def _known(value: float) -> float | None:
    return None if value != value else value


def _after(
    entries: list[Entry], order: Order, after: Entry | None, limit: int
) -> list[Entry]:
    def place(entry: Entry) -> tuple[Key, str]:
        return entry.key, entry.ident

    known = [e for e in entries if e.key is not None]
    unread = [e for e in entries if e.key is None]
    if after is not None and after.key is not None:
        held = place(after)
        known = [
            e
            for e in known
            if (place(e) < held if order.descending else place(e) > held)
        ]
    elif after is not None:
        known, unread = [], [e for e in unread if e.ident > after.ident]
    pick = heapq.nlargest if order.descending else heapq.nsmallest
    shown = pick(limit, known, key=place)
    rest = heapq.nsmallest(limit - len(shown), unread, key=lambda e: e.ident)
    return shown + rest


def _order(request: web.Request) -> Order:
    text = one(request, "sort") or "name"
    by = text.removeprefix("-")
    if by not in SORTS:
        raise Problem(
            400,
            f"sort: expected one of {', '.join(SORTS)}, or one with - before it for "
            f"the other way round, got {text[:40]!r}",
        )
    return Order(by, text != by)


def _written(order: Order, last: Entry) -> str:
    text = json.dumps([str(order), last.key, last.ident], separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _cursor(request: web.Request, order: Order) -> Entry | None:
    text = one(request, "cursor")
    if text is None:
        return None
    try:
        packed = text.encode("ascii")
        made = json.loads(urlsafe_b64decode(packed + b"=" * (-len(packed) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        made = None
    match made:
        case [str(by), key, str(ident)] if by == str(order) and _fits(order, key):
            return Entry(key, ident, -1)
        case _:
            raise Problem(
                400,
                f"cursor: expected the next of an answer to the same sort={order}, "
                f"got {text[:40]!r}",
            )


def _fits(order: Order, key: object) -> bool:
    if order.by == "name":
        return isinstance(key, str)
    number = isinstance(key, int | float) and not isinstance(key, bool)
    return key is None or (number and key == key)
