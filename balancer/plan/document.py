"""A fleet from JSON, and a plan to JSON for review.

Every problem of a document is told at once, with its place, value and what is
allowed.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, TypeVar

from .fleet import Fleet, Holder, Item
from .planner import Plan

VERSION = 1
T = TypeVar("T")


class BadFleet(ValueError):
    """A document that is no fleet; `problems` has a line for each fault."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def parse_fleet(document: object) -> Fleet:
    """Return the fleet that a decoded JSON document says; BadFleet if it can't."""
    reader = _Reader()
    whole = reader.mapping("", document)
    fleet = Fleet(
        now=reader.number("at_s", whole.get("at_s"), _any),
        step_s=reader.number("step_s", whole.get("step_s"), _positive),
        holders=reader.each("nodes", whole.get("nodes"), reader.holder),
        items=reader.each("items", whole.get("items"), reader.item),
    )
    reader.once("nodes", [h.name for h in fleet.holders])
    reader.once("items", [i.name for i in fleet.items])
    if reader.problems:
        raise BadFleet(reader.problems)
    return fleet


def shown(plan: Plan) -> dict[str, object]:
    """Return a plan ready for JSON."""
    return {
        "version": VERSION,
        "at_s": plan.at_s,
        "applied": False,
        "moves": [move._asdict() for move in plan.moves],
        "rejected": [one._asdict() for one in plan.rejected],
        "needs": [one._asdict() for one in plan.needs],
    }


Allowed = tuple[str, Callable[[float], bool]]
_any: Allowed = ("a number", lambda _: True)
_positive: Allowed = ("a number above 0", lambda value: value > 0)
_natural: Allowed = ("a number, 0 or more", lambda value: value >= 0)
_count: Allowed = ("a whole number, 0 or more", lambda v: v >= 0 and v == int(v))
_some: Allowed = ("a whole number, 1 or more", lambda v: v >= 1 and v == int(v))


class _Reader:
    """Reads on past problems, so that all are told."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def holder(self, place: str, value: object) -> Holder:
        held = self.mapping(place, value)
        found = Holder(
            name=self.text(f"{place}.node", held.get("node")),
            places=int(self.number(f"{place}.places", held.get("places"), _count)),
            holds=self.names(f"{place}.holds", held.get("holds", [])),
            loading=self.names(f"{place}.loading", held.get("loading", [])),
            groups=self.names(f"{place}.groups", held.get("groups", [])),
            usable=self.claim(f"{place}.usable", held.get("usable", True)),
        )
        if found.free < 0:
            self._wrong(
                f"{place}.places", found.places, "room for what it holds and loads"
            )
        return found

    def item(self, place: str, value: object) -> Item:
        held = self.mapping(place, value)
        rates = held.get("rates")
        return Item(
            name=self.text(f"{place}.item", held.get("item")),
            load_s=self.number(f"{place}.load_s", held.get("load_s"), _natural),
            service_s=self.number(
                f"{place}.service_s", held.get("service_s"), _positive
            ),
            slots=int(self.number(f"{place}.slots", held.get("slots"), _some)),
            rates=None
            if rates is None
            else self.each(
                f"{place}.rates", rates, lambda p, v: self.number(p, v, _natural)
            ),
        )

    def mapping(self, place: str, value: object) -> Mapping[str, Any]:
        if isinstance(value, dict):
            return value
        self._wrong(place or "the document", value, "an object")
        return {}

    def each(
        self, place: str, value: object, one: Callable[[str, object], T]
    ) -> tuple[T, ...]:
        if not isinstance(value, list):
            self._wrong(place, value, "a list")
            return ()
        return tuple(one(f"{place}[{i}]", entry) for i, entry in enumerate(value))

    def names(self, place: str, value: object) -> frozenset[str]:
        return frozenset(self.each(place, value, self.text))

    def text(self, place: str, value: object) -> str:
        if isinstance(value, str) and value:
            return value
        self._wrong(place, value, "a name")
        return ""

    def claim(self, place: str, value: object) -> bool:
        if not isinstance(value, bool):
            self._wrong(place, value, "true or false")
        return value is True

    def number(self, place: str, value: object, allowed: Allowed) -> float:
        words, fits = allowed
        if (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and isfinite(value)
            and fits(value)
        ):
            return value
        self._wrong(place, value, words)
        return 1.0

    def once(self, place: str, names: Sequence[str]) -> None:
        for name in sorted(n for n, times in Counter(names).items() if n and times > 1):
            self.problems.append(f"{place}: {name!r} is there more than once")

    def _wrong(self, place: str, value: object, words: str) -> None:
        self.problems.append(f"{place}: {value!r:.60}, but it must be {words}")
