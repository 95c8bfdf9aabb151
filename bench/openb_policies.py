"""The published policies that fragmentation gradient descent is compared with.

As in the simulator of Weng and others (USENIX ATC 2023), whose scores are whole
numbers from 0 to 100, more being better; here 100 less the score is the cost.
Devices are the fullest that have enough, except for `random`.
"""

from collections.abc import Callable, Mapping
from random import Random

from trimtab.balancer.gpus import Ask, Choice, Fgd, Floor, Mix, Placement, Room, take
from trimtab.balancer.gpus.room import tightest

# The largest node of that cluster; what is free is counted in shares of it.
MOST_CPU_MILLI = 128_000
MOST_GPU_MILLI = 8_000


def best_fit(room: Room, ask: Ask) -> int:
    """Score what is left of CPU and GPU together: less is better."""
    cpu = (room.cpu_milli - ask.cpu_milli) / MOST_CPU_MILLI * 0.5
    gpu = (sum(room.free) - ask.devices * ask.each) / MOST_GPU_MILLI * 0.5
    return int((1.0 - (cpu + gpu)) * 100)


def dot_product(room: Room, ask: Ask) -> int:
    """Score how little what is free and what is asked point the same way.

    After Grandl and others' Tetris (SIGCOMM 2014).
    """
    cpu = room.cpu_milli / MOST_CPU_MILLI * (ask.cpu_milli / MOST_CPU_MILLI)
    gpu = sum(room.free) / MOST_GPU_MILLI
    gpu *= ask.devices * ask.each / MOST_GPU_MILLI
    return int((1 - (cpu + gpu) / 2) * 100)


def packing(room: Room, ask: Ask) -> int:
    """Score devices in use before free ones, and nodes in use before free ones."""
    if not ask.asks_gpu:
        return 0
    untouched = room.free.count(room.whole)
    if untouched == len(room.free):
        return max(100 // 3 - untouched, untouched)
    chosen = tightest(room, ask)
    opened = chosen.count(room.whole)
    if opened:
        return max(100 // 2 - opened, 100 // 3)
    return max(100 - sum(free * 100 // room.whole for free in chosen) // 10, 50)


def clustering(room: Room, ask: Ask) -> int:
    """Score nodes where the same kind of task runs, and no other kind."""
    if not ask.asks_gpu:
        return 0
    used = 25 * (MOST_GPU_MILLI - sum(room.free)) // MOST_GPU_MILLI
    kinds = set(filter(None, room.note.split()))
    if kind(ask) in kinds:
        return used + (75 if len(kinds) == 1 else 50)
    return used + (0 if kinds else 25)


def kind(ask: Ask) -> str:
    """Return what clustering tells tasks apart by."""
    return "share" if ask.each < 1000 else f"{ask.devices}-gpu"


class Scored:
    """A policy of a score alone."""

    def __init__(self, score: Callable[[Room, Ask], int]) -> None:
        self._score = score

    def choice(self, room: Room, ask: Ask) -> Choice:
        """Return the fullest devices, and 100 less the score."""
        return Choice(100 - self._score(room, ask), tightest(room, ask))

    def left(self, room: Room, ask: Ask, chosen: tuple[int, ...]) -> Room:
        """Return what the node has left."""
        return take(room, ask, chosen)


class Clustering(Scored):
    """Notes what kinds run on a node."""

    def __init__(self) -> None:
        super().__init__(clustering)

    def left(self, room: Room, ask: Ask, chosen: tuple[int, ...]) -> Room:
        """Return what the node has left, and the kinds that run there."""
        left = take(room, ask, chosen)
        if not ask.asks_gpu:
            return left
        kinds = {*room.note.split(), kind(ask)}
        return left._replace(note=" ".join(sorted(kinds)))


Place = Callable[[Ask], Placement | None]


def fgd(mix: Mix, _rng: Random) -> tuple[Floor, Place]:
    """Return an empty floor and how to place on it."""
    floor = Floor(Fgd(mix))
    return floor, floor.place


def scored(score: Callable[[Room, Ask], int]) -> Callable[..., tuple[Floor, Place]]:
    """Return how to make a floor that places by this score."""

    def make(_mix: Mix, _rng: Random) -> tuple[Floor, Place]:
        floor = Floor(Clustering() if score is clustering else Scored(score))
        return floor, floor.place

    return make


def at_random(_mix: Mix, rng: Random) -> tuple[Floor, Place]:
    """Place on any node that fits, a shared device on any that has enough."""
    floor = Floor(Scored(best_fit))

    def place(ask: Ask) -> Placement | None:
        names = floor.fitting(ask)
        if not names:
            return None
        name = rng.choice(names)
        room = floor.room(name)
        chosen = tightest(room, ask)
        if ask.devices == 1 and ask.each < room.whole:
            chosen = (rng.choice([f for f in room.free if f >= ask.each]),)
        return floor.seat(name, ask, Choice(0, chosen))

    return floor, place


# As the file of published results names them.
POLICIES: Mapping[str, Callable[[Mix, Random], tuple[Floor, Place]]] = {
    "01-Random": at_random,
    "02-DotProd": scored(dot_product),
    "03-GpuClustering": scored(clustering),
    "04-GpuPacking": scored(packing),
    "05-BestFit": scored(best_fit),
    "06-FGD": fgd,
}
