"""All the nodes with their devices, and where the next task goes.

Nodes in the same condition (kind, and what is free) are one entry, and what
the policy said of a condition and a task is kept with it: a placement among a
thousand nodes looks through the conditions there are and computes only what is
new. Of nodes that cost the same, the one put down first is taken.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .fgd import Choice, Policy
from .room import Ask, Room, fits

# Kinds of task whose costs are kept at once.
_KINDS = 512


class Placement(NamedTuple):
    """Where a task went; hand it to `release` when it ends."""

    node: str
    ask: Ask
    devices: tuple[int, ...]  # by index on the node
    cost: float  # the policy's; with FGD what the fragment grew by
    before: Room
    left: Room


class _Condition:
    """Nodes that are alike, and what was found of them."""

    __slots__ = ("choices", "nodes", "room")

    def __init__(self, room: Room) -> None:
        self.room = room
        self.nodes: list[int] = []  # ascending
        self.choices: dict[int, Choice | None] = {}  # by kind; None: does not fit


class _Node:
    __slots__ = ("condition", "free", "name")

    def __init__(self, name: str, condition: _Condition, free: list[int]) -> None:
        self.name = name
        self.condition = condition
        self.free = free  # by index of the device


class Floor:
    """Nodes, what is free on each, and the policy that places tasks on them."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._nodes: dict[int, _Node] = {}  # by place in the order of `put`
        self._places: dict[str, int] = {}
        self._next_place = 0
        self._conditions: dict[Room, _Condition] = {}
        self._kinds: dict[Ask, int] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def follow(self, policy: Policy) -> None:
        """Place by another policy, or another mix, from now on."""
        self._policy = policy
        self._forget()

    def put(self, name: str, room: Room, free: Sequence[int]) -> None:
        """Add a node, or say what it has now; `free` by index of the device."""
        if tuple(sorted(free)) != room.free:
            raise ValueError(f"free of {name}: {room.free} expected, got {free}")
        place = self._places.get(name)
        if place is None:
            place = self._places[name] = self._next_place
            self._next_place += 1
        else:
            self._leave(place)
        self._nodes[place] = _Node(name, self._enter(place, room), list(free))

    def drop(self, name: str) -> None:
        """Remove a node; KeyError if there is none of that name."""
        place = self._places.pop(name)
        self._leave(place)
        del self._nodes[place]

    def room(self, name: str) -> Room:
        """Return what a node has left; KeyError if there is none of that name."""
        return self._nodes[self._places[name]].condition.room

    def rooms(self) -> Iterator[Room]:
        """Return what each node has left."""
        for condition in self._conditions.values():
            for _ in condition.nodes:
                yield condition.room

    def choice(self, name: str, ask: Ask) -> Choice | None:
        """Return what a task would cost on this node; None: does not fit.

        KeyError if there is no node of that name.
        """
        condition = self._nodes[self._places[name]].condition
        return self._choice(condition, ask, self._kind(ask))

    def fitting(self, ask: Ask) -> list[str]:
        """Return the nodes that can take a task now, as they were put down."""
        kind = self._kind(ask)
        places = (
            place
            for condition in self._conditions.values()
            if self._choice(condition, ask, kind) is not None
            for place in condition.nodes
        )
        return [self._nodes[place].name for place in sorted(places)]

    def place(self, ask: Ask) -> Placement | None:
        """Put a task where it costs least; None: it fits nowhere."""
        kind = self._kind(ask)
        best: tuple[float, int] | None = None
        choice: Choice | None = None
        for condition in self._conditions.values():
            # Known ones are read here, without a call: this is the whole cost.
            try:
                found = condition.choices[kind]
            except KeyError:
                found = self._choice(condition, ask, kind)
            if found is None or (best is not None and found.cost > best[0]):
                continue
            rank = found.cost, condition.nodes[0]
            if best is None or rank < best:
                best, choice = rank, found
        if best is None or choice is None:
            return None
        return self._seat(best[1], ask, choice)

    def seat(self, name: str, ask: Ask, choice: Choice) -> Placement:
        """Put a task on this node, on devices chosen; KeyError: no such node."""
        return self._seat(self._places[name], ask, choice)

    def release(self, placement: Placement) -> None:
        """Give back what a task had; a node that is gone has nothing to get."""
        place = self._places.get(placement.node)
        if place is None:
            return
        node, ask = self._nodes[place], placement.ask
        room = node.condition.room
        for device in placement.devices:
            node.free[device] = min(room.whole, node.free[device] + ask.each)
        self._move(
            place,
            room._replace(
                cpu_milli=room.cpu_milli + ask.cpu_milli,
                memory_mib=room.memory_mib + ask.memory_mib,
                free=tuple(sorted(node.free)),
            ),
        )

    def _seat(self, place: int, ask: Ask, choice: Choice) -> Placement:
        node = self._nodes[place]
        before = node.condition.room
        devices: list[int] = []
        for amount in choice.chosen:
            device = node.free.index(amount)
            devices.append(device)
            node.free[device] = -1  # not a second time
        for device, amount in zip(devices, choice.chosen, strict=True):
            node.free[device] = amount - ask.each
        left = self._policy.left(before, ask, choice.chosen)
        self._move(place, left)
        return Placement(node.name, ask, tuple(devices), choice.cost, before, left)

    def _choice(self, condition: _Condition, ask: Ask, kind: int) -> Choice | None:
        if kind not in condition.choices:
            room = condition.room
            condition.choices[kind] = (
                self._policy.choice(room, ask) if fits(room, ask) else None
            )
        return condition.choices[kind]

    def _kind(self, ask: Ask) -> int:
        if len(self._kinds) >= _KINDS:
            self._forget()
        return self._kinds.setdefault(ask, len(self._kinds))

    def _forget(self) -> None:
        self._kinds.clear()
        for condition in self._conditions.values():
            condition.choices.clear()

    def _move(self, place: int, room: Room) -> None:
        self._leave(place)
        self._nodes[place].condition = self._enter(place, room)

    def _enter(self, place: int, room: Room) -> _Condition:
        condition = self._conditions.get(room)
        if condition is None:
            condition = self._conditions[room] = _Condition(room)
        insort(condition.nodes, place)
        return condition

    def _leave(self, place: int) -> None:
        condition = self._nodes[place].condition
        del condition.nodes[bisect_left(condition.nodes, place)]
        if not condition.nodes:
            del self._conditions[condition.room]
