"""The fleet table: a row a node, a numpy column a quantity.

Frames arrive one by one and wait in a batch; on each tick the whole batch is
scored at once, the newest live frame of each node replaces its row, and every
frame, live or late, goes into its minute's rollup. A frame is late when its
reading would be stale on arrival: it is history, and never touches the row.

Time is the collector's monotonic clock in seconds, passed in as `now`.
"""

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from trimtab.wire import Frame

from .health import DIMENSIONS, Health, assess
from .node import Node
from .readings import WIDTH, row
from .rollup import Rollups
from .states import Admin, Heard, State, next_states, stale_after_s

_FIRST_ROWS = 64
ID_BYTES = 16


class Waiting(NamedTuple):
    """A frame between its arrival and the tick."""

    row: int
    live: bool
    sampled_at: float
    arrived_at: float
    frame: Frame


class Change(NamedTuple):
    """A node went from one state to another."""

    row: int
    before: State
    after: State


class Fleet:
    """`nodes[row]` and each column share the index; a forgotten row is reused."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.rollups = Rollups()
        self.version = 0  # grows with every change that a reader could see
        self.unsaved: set[int] = set()  # rows whose registry entry changed
        self.forgotten: list[bytes] = []  # ids to be deleted from the registry
        self._retired: list[int] = []  # rows whose last sums may still wait
        self._free: list[int] = []
        self._by_id: dict[bytes, int] = {}
        self._by_name: dict[str, int] = {}
        self._batch: list[Waiting] = []
        self.readings = _column("readings")
        self.headroom = _column("headroom")
        self.score = _column("score")
        self.confidence = _column("confidence")
        self.limiting = _column("limiting")
        self.state = _column("state")
        self.admin = _column("admin")
        self.state_since = _column("state_since")
        self.sampled_at = _column("sampled_at")
        self.arrived_at = _column("arrived_at")
        self.heard = _column("heard")
        self.interval_s = _column("interval_s")
        self.stale_after_s = _column("stale_after_s")
        self.frames = _column("frames")
        self.asleep = _column("asleep")
        self.there = _column("there")
        self.seq = _column("seq")

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, node: Node, now: float, state: State) -> int:
        """Return the row of a new node. Id and name must be new."""
        if self._free:
            index = self._free.pop()
            for name, spec in _COLUMNS.items():
                getattr(self, name)[index] = spec.fill
            self.nodes[index] = node
        else:
            index = len(self.nodes)
            if index == len(self.state):
                self._grow()
            self.nodes.append(node)
        self.there[index] = True
        self._by_id[node.shown_id] = index
        self._by_name[node.name] = index
        self.state[index] = state
        self.state_since[index] = now
        self.arrived_at[index] = now
        self.version += 1
        return index

    def rows(self) -> list[int]:
        """Return the rows of the nodes there are."""
        return np.flatnonzero(self.there[: len(self.nodes)]).tolist()

    def retire(self, index: int) -> None:
        """Forget a node: it is in no answer any more, and may come anew."""
        node = self.nodes[index]
        del self._by_id[node.shown_id]
        del self._by_name[node.name]
        self.there[index] = False
        self.unsaved.discard(index)
        self.forgotten.append(node.shown_id)
        self._retired.append(index)
        self.version += 1

    def take_retired(self) -> list[int]:
        """Return the rows retired since the last call; see `reuse`."""
        rows, self._retired = self._retired, []
        return rows

    def retire_again(self, rows: list[int]) -> None:
        """Take back what `take_retired` gave: it could not be settled yet."""
        self._retired += rows

    def reuse(self, rows: list[int]) -> None:
        """Let retired rows be taken again: nothing of them waits any more."""
        self._free += rows

    def _grow(self) -> None:
        for name in _COLUMNS:
            held = getattr(self, name)
            grown = _column(name, 2 * len(held))
            grown[: len(held)] = held
            setattr(self, name, grown)

    def find(self, node: str) -> int | None:
        """Return the row of a hexadecimal id or a shown name.

        The id comes first: any node may take another's id for its name.
        """
        if len(node) == 2 * ID_BYTES:
            with suppress(ValueError):
                index = self._by_id.get(bytes.fromhex(node))
                if index is not None:
                    return index
        return self._by_name.get(node)

    def find_id(self, node_id: bytes) -> int | None:
        """Return the row of an id."""
        return self._by_id.get(node_id)

    def free_name(self, wanted: str) -> str:
        """Return the name, or the first of name~2, name~3, … not yet held."""
        name, holder = wanted, 1
        while name in self._by_name:
            holder += 1
            name = f"{wanted}~{holder}"
        return name

    def rename(self, index: int, name: str) -> None:
        """Show a node under another name, which must be free."""
        node = self.nodes[index]
        del self._by_name[node.name]
        node.name = name
        self._by_name[name] = index
        self.version += 1

    def greet(self, index: int, interval_s: float, silence_s: float | None) -> None:
        """Take over the cadence that a hello announces."""
        self.interval_s[index] = interval_s
        self.stale_after_s[index] = stale_after_s(interval_s, silence_s)
        self.unsaved.add(index)
        self.version += 1

    def take(
        self,
        index: int,
        frame: Frame,
        sampled_at: float,
        now: float,
        *,
        backfill: bool = False,
    ) -> bool:
        """Queue a frame for the tick; False if it was counted before.

        Backfill was kept back while there was no connection: it is no sign of
        life, and like every late frame it never touches the row.
        """
        if frame.seq <= self.seq[index]:
            return False
        self.seq[index] = frame.seq
        live = not backfill and now - sampled_at <= self.stale_after_s[index]
        if not backfill:
            self.arrived_at[index] = now
            self.heard[index] = True
            self.asleep[index] = False
        self._batch.append(Waiting(index, live, sampled_at, now, frame))
        return True

    def sleep(self, index: int) -> None:
        """Note that a node announced its sleep."""
        self.asleep[index] = True

    def tick(self, now: float, unix_now: float, lost_after_s: float) -> list[Change]:
        """Score what arrived, renew every state, return what changed."""
        self.score_waiting(now, unix_now)
        return self._renew_states(now, lost_after_s)

    def score_waiting(self, now: float, unix_now: float) -> None:
        """Score the batch: rows and rollups then hold every frame taken."""
        if not self._batch:
            return
        batch, self._batch = self._batch, []
        values = np.array([row(waiting.frame) for waiting in batch])
        health = assess(values)
        self.rollups.add(
            rows=np.array([waiting.row for waiting in batch]),
            minutes=np.array(
                [int((unix_now - now + w.sampled_at) // 60) for w in batch]
            ),
            values=values,
            health=health,
        )
        newest = {w.row: i for i, w in enumerate(batch) if w.live}
        if newest:
            self._replace(batch, values, health, newest)
        for index in {waiting.row for waiting in batch}:
            self.nodes[index].last_seen = unix_now
        self.version += 1

    def _replace(
        self,
        batch: list[Waiting],
        values: np.ndarray,
        health: Health,
        newest: dict[int, int],
    ) -> None:
        rows = np.fromiter(newest.keys(), dtype=np.intp)
        picked = np.fromiter(newest.values(), dtype=np.intp)
        self.readings[rows] = values[picked]
        self.headroom[rows] = health.headroom[picked]
        self.score[rows] = health.score[picked]
        self.confidence[rows] = health.confidence[picked]
        self.limiting[rows] = health.limiting[picked]
        for waiting in batch:
            if waiting.live:
                self.frames[waiting.row] += 1
        for index, i in newest.items():
            frame = batch[i].frame
            self.sampled_at[index] = batch[i].sampled_at
            node = self.nodes[index]
            node.links, node.holes, node.gaps = frame.links, frame.holes, frame.gaps
            node.gpus = frame.gpus

    def _renew_states(self, now: float, lost_after_s: float) -> list[Change]:
        n = len(self.nodes)
        before = self.state[:n].copy()
        after = next_states(
            Heard(
                state=before,
                held_s=now - self.state_since[:n],
                silent_s=now - self.arrived_at[:n],
                stale_after_s=self.stale_after_s[:n],
                heard=self.heard[:n],
                frames=self.frames[:n],
                asleep=self.asleep[:n],
                score=self.score[:n].astype(np.float64),
            ),
            lost_after_s,
        )
        changed = np.flatnonzero((before != after) & self.there[:n])
        if not len(changed):
            return []
        self.version += 1
        self.state[changed] = after[changed]
        self.state_since[changed] = now
        self.frames[changed[after[changed] == State.LOST]] = 0
        return [
            Change(int(i), State(int(before[i])), State(int(after[i]))) for i in changed
        ]


class _Spec(NamedTuple):
    dtype: type[np.generic]
    fill: float
    width: tuple[int, ...] = ()


_COLUMNS = {
    "readings": _Spec(np.float32, np.nan, (WIDTH,)),
    "headroom": _Spec(np.float32, np.nan, (len(DIMENSIONS),)),
    "score": _Spec(np.float32, np.nan),
    "confidence": _Spec(np.float32, 0),
    "limiting": _Spec(np.int8, -1),
    "state": _Spec(np.int8, State.UNKNOWN),
    "admin": _Spec(np.int8, Admin.ACTIVE),
    "state_since": _Spec(np.float64, 0),
    "sampled_at": _Spec(np.float64, np.nan),
    "arrived_at": _Spec(np.float64, 0),  # of its newest frame, or of its row
    "heard": _Spec(np.bool_, 0),  # it spoke since the collector started
    "interval_s": _Spec(np.float64, 1),
    "stale_after_s": _Spec(np.float64, stale_after_s(1.0, None)),
    "frames": _Spec(np.int64, 0),  # live ones since it joined
    "asleep": _Spec(np.bool_, 0),
    "there": _Spec(np.bool_, 0),  # the row has a node
    "seq": _Spec(np.int64, -1),  # highest taken of this boot
}


def _column(name: str, rows: int = _FIRST_ROWS) -> np.ndarray:
    spec = _COLUMNS[name]
    return np.full((rows, *spec.width), spec.fill, dtype=spec.dtype)
