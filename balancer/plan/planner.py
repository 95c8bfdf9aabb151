"""The plan: moves that pay for themselves, within bounds.

An item short of replicas gets one where that saves the most waiting, on a node
with a free place or in the place of the item that is missed least. Greedy and
deterministic: the most urgent first, equal ones by name.

Bounds, all hard: one load a node; few nodes at once; an item's last replica
stays; two replicas or more span risk groups; what a move saves over the horizon
exceeds `margin` times its cost. What was wanted and not done is in `rejected`,
with the rule.
"""

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

from .fleet import Fleet, Holder, Item
from .settings import Settings
from .spread import common, spans
from .wait import need, slots_over, waited_task_s


class Move(NamedTuple):
    """One node loads one item, and lets go of another first if it must."""

    node: str
    load: str
    evict: str | None
    because: str
    saves_s: float  # task-seconds of waiting over the horizon
    costs_s: float  # of the same: the load, and the waiting for what is evicted


class Rejected(NamedTuple):
    """A replica that an item is short of, and the rule that kept it from it."""

    load: str
    rule: str  # demand, moving, node, last replica, spread, margin
    because: str
    saves_s: float | None  # None: not worked out
    costs_s: float | None


class Needed(NamedTuple):
    """An item's state before the plan."""

    item: str
    replicas: int  # usable, those that are loading included
    need: int | None  # None: demand not known
    rate: float | None  # tasks a second, the most that `need` is for


class Plan(NamedTuple):
    """Moves to review, and what was decided against. Nothing is applied yet."""

    at_s: float
    moves: tuple[Move, ...]
    rejected: tuple[Rejected, ...]
    needs: tuple[Needed, ...]


class _Option(NamedTuple):
    """A place for a replica: the cheapest first."""

    costs_s: float
    spent: int  # places in use, so that free ones spread over nodes
    node: str
    evict: str | None


def make(fleet: Fleet, settings: Settings | None = None) -> Plan:
    """Return the plan for a fleet; without settings, by the usual ones."""
    return _Planner(fleet, settings or Settings()).plan()


class _Planner:
    """One plan in the making."""

    def __init__(self, fleet: Fleet, settings: Settings) -> None:
        self._fleet = fleet
        self._settings = settings
        self._items = {item.name: item for item in fleet.items}
        self._usable = sorted(h for h in fleet.holders if h.usable)
        self._everywhere = common(h.groups for h in self._usable)
        self._groups = {h.name: h.groups for h in self._usable}
        self._budget = max(1, int(settings.moving_share * len(self._usable)))
        self._moving = sum(bool(h.loading) for h in self._usable)
        self._moved: set[str] = set()
        # Replicas that serve now, and those that will, by item: node -> groups.
        self._serving: dict[str, dict[str, frozenset[str]]] = {}
        self._coming: dict[str, dict[str, frozenset[str]]] = {}
        for holder in self._usable:
            for name in holder.holds:
                self._serving.setdefault(name, {})[holder.name] = holder.groups
            for name in holder.holds | holder.loading:
                self._coming.setdefault(name, {})[holder.name] = holder.groups
        # What was worked out; of an item that a move touches it goes again.
        self._rates: dict[tuple[str, int], float | None] = {}
        self._missed: dict[str, float] = {}
        self._may: dict[str, dict[str, bool]] = {}

    def plan(self) -> Plan:
        needs = tuple(map(self._needed, sorted(self._fleet.items)))
        moves: list[Move] = []
        rejected: list[Rejected] = []
        refused: set[str] = set()
        while due := next((i for i in self._due() if i.name not in refused), None):
            found = self._place(due)
            if isinstance(found, Move):
                moves.append(found)
                self._carry_out(found)
            else:
                rejected.append(found)
                refused.add(due.name)
        rejected += [
            Rejected(n.item, "demand", "its demand is not known", None, None)
            for n in needs
            if n.need is None
        ]
        return Plan(self._fleet.now, tuple(moves), tuple(rejected), needs)

    def _needed(self, item: Item) -> Needed:
        rate = self._rate(item, 1)
        return Needed(
            item.name,
            self._replicas(item),
            None if rate is None else self._need(item, rate),
            rate,
        )

    def _due(self) -> Iterator[Item]:
        """Yield the items that are short, the soonest needed and shortest first.

        The next interval's needs are due now. Later ones are if the plans until
        then could not load them all: then some must begin early.
        """
        seen: set[str] = set()
        for ahead in range(1, self._settings.lookahead + 1):
            short = [
                (self._short(item, ahead), item.name) for item in self._items.values()
            ]
            short = [(by, name) for by, name in short if by > 0]
            if sum(by for by, _ in short) <= (ahead - 1) * self._budget:
                continue
            for _, name in sorted(short, key=lambda one: (-one[0], one[1])):
                if name not in seen:
                    seen.add(name)
                    yield self._items[name]

    def _short(self, item: Item, ahead: int) -> int:
        rate = self._rate(item, ahead)
        return 0 if rate is None else self._need(item, rate) - self._replicas(item)

    def _place(self, item: Item) -> Move | Rejected:
        """Return the best move that gives an item a replica, or why there is none."""
        saves_s = self._saves(item)
        if (moving := self._moving + len(self._moved)) >= self._budget:
            why = (
                f"{moving} of {len(self._usable)} nodes are loading, {self._budget} may"
            )
            return self._no(item, "moving", why, saves_s)
        options, fault = self._options(item)
        if not options:
            return self._no(item, *fault, saves_s)
        best = min(options)
        costs_s = item.load_s + best.costs_s
        if saves_s <= self._settings.margin * costs_s:
            return self._no(
                item,
                "margin",
                f"it would save {saves_s:.1f} s of waiting and cost {costs_s:.1f} s:"
                f" less than {self._settings.margin:g} times",
                saves_s,
                costs_s,
            )
        return Move(
            best.node, item.name, best.evict, self._because(item), saves_s, costs_s
        )

    def _options(self, item: Item) -> tuple[list[_Option], tuple[str, str]]:
        """Return where a replica may go, else the rule that leaves nothing."""
        present = self._coming.get(item.name, {})
        open_nodes = [
            h
            for h in self._usable
            if h.name not in self._moved
            and h.name not in present
            and not h.loading
            and h.places > 0
        ]
        if not open_nodes:
            why = "every node holds it, is loading, or moves in this plan"
            return [], ("node", why)
        risks = common(present.values()) - self._everywhere
        spread = [h for h in open_nodes if not risks & h.groups]
        if not spread:
            shared = ", ".join(sorted(risks))
            why = f"every node open to it shares {shared} with its replicas"
            return [], ("spread", why)
        found = [option for h in spread for option in self._rooms(h)]
        why = "what the nodes open to it hold are last replicas, or must stay spread"
        return found, ("last replica", why)

    def _rooms(self, holder: Holder) -> Iterator[_Option]:
        spent = holder.places - holder.free
        if holder.free > 0:
            yield _Option(0.0, spent, holder.name, None)
            return
        for name in sorted(holder.holds):
            if self._may_go(name, holder):
                yield _Option(self._misses(name), spent, holder.name, name)

    def _may_go(self, name: str, holder: Holder) -> bool:
        known = self._may.setdefault(name, {})
        if holder.name not in known:
            known[holder.name] = self._spared(name, holder)
        return known[holder.name]

    def _spared(self, name: str, holder: Holder) -> bool:
        """Return whether an item can do without its replica on a node."""
        item = self._items.get(name)
        if item is None or item.rates is None:
            return False  # nobody knows what it is for
        if self._serving[name].keys() <= {holder.name}:
            return False
        before = list(self._coming[name].values())
        after = [g for k, g in self._coming[name].items() if k != holder.name]
        return spans(after, self._everywhere) or not spans(before, self._everywhere)

    def _carry_out(self, move: Move) -> None:
        groups = self._groups[move.node]
        self._moved.add(move.node)
        self._coming.setdefault(move.load, {})[move.node] = groups
        if move.evict is not None:
            del self._serving[move.evict][move.node]
            del self._coming[move.evict][move.node]
        for name in filter(None, (move.load, move.evict)):
            self._missed.pop(name, None)
            self._may.pop(name, None)

    def _replicas(self, item: Item) -> int:
        return len(self._coming.get(item.name, ()))

    def _need(self, item: Item, rate: float) -> int:
        return need(rate, item.service_s, item.slots, self._settings.filling)

    def _rate(self, item: Item, ahead: int) -> float | None:
        """Return the most asked for from a load's end until plans later, `ahead`.

        What this plan loads serves from then on; the next can do better after.
        """
        key = item.name, ahead
        if key not in self._rates:
            self._rates[key] = self._most(item, ahead)
        return self._rates[key]

    def _most(self, item: Item, ahead: int) -> float | None:
        if not item.rates:
            return None
        step_s, last = self._fleet.step_s, len(item.rates)
        first = min(int(item.load_s // step_s), last - 1)
        end_s = item.load_s + ahead * self._settings.interval_s
        return max(item.rates[first : max(first + 1, ceil(end_s / step_s))])

    def _saves(self, item: Item) -> float:
        """Return the waiting that one replica more saves over the horizon."""
        return self._waits(item, 0, self._settings.horizon_s) - self._waits(
            item, 1, self._settings.horizon_s
        )

    def _misses(self, name: str) -> float:
        """Return the waiting that one replica less costs until it could be back."""
        if name not in self._missed:
            item = self._items[name]
            until_s = item.load_s + self._settings.interval_s
            fewer, now = (self._waits(item, more, until_s) for more in (-1, 0))
            self._missed[name] = fewer - now
        return self._missed[name]

    def _waits(self, item: Item, more: int, until_s: float) -> float:
        step_s = self._fleet.step_s
        rates = (item.rates or ())[: max(1, ceil(until_s / step_s))]
        slots = slots_over(
            len(rates),
            step_s,
            self._replicas(item) * item.slots,
            more * item.slots,
            item.load_s if more > 0 else 0.0,
        )
        return waited_task_s(rates, step_s, item.service_s, slots)

    def _because(self, item: Item) -> str:
        here = self._replicas(item)
        for ahead in range(1, self._settings.lookahead + 1):
            if self._short(item, ahead) > 0:
                rate = self._rate(item, ahead) or 0.0
                within_s = item.load_s + ahead * self._settings.interval_s
                return (
                    f"{rate:.3g} tasks/s within {within_s:.0f} s need"
                    f" {self._need(item, rate)} replicas, {here} are there"
                )
        return f"{here} are there"

    def _no(
        self,
        item: Item,
        rule: str,
        why: str,
        saves_s: float | None = None,
        costs_s: float | None = None,
    ) -> Rejected:
        return Rejected(item.name, rule, why, saves_s, costs_s)
