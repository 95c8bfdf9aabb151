"""The fleet table: a row a node, a numpy column a quantity.

Frames wait as they came; on each tick all of them are read and scored at once,
the newest live frame of each node replaces its row, and every frame, live or
late, goes into its minute's rollup. A frame is late when its reading would be
stale on arrival: it is history, and never touches the row.

Time is the collector's monotonic clock in seconds, passed in as `now`.
"""

from contextlib import suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .boot_offset import BootOffsets
from .drains import Drain
from .health import DIMENSIONS, Health, assess
from .node import Node
from .readings import WIDTH
from .rollup import Rollups
from .sequence import fresh
from .states import (
    Admin,
    Heard,
    State,
    decayed,
    next_states,
    stale_after_s,
    worse,
)
from .trust import ATTENTIVE, Hearing
from .waiting import Batch, Waiting

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

_FIRST_ROWS = 64
ID_BYTES = 16


class Change(NamedTuple):
    """A node went from one state to another."""

    row: int
    before: State
    after: State
    rule: int  # index into RULES: what decided


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
        self.drains: dict[int, Drain] = {}  # of rows that are not active
        self.waiting = Waiting()
        self.repeated = 0  # frames that had been counted before
        self.introduced: set[int] = set()  # rows whose node is not as it was
        self._offsets = BootOffsets()
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
        self.silent_at = _column("silent_at")
        self.flaps = _column("flaps")
        self.flapped_at = _column("flapped_at")
        self.asleep = _column("asleep")
        self.there = _column("there")
        self.gpu_free_mib = _column("gpu_free_mib")
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
        self.introduced.add(index)
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
        self.drains.pop(index, None)
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

    def intend(self, index: int, admin: Admin, drain: Drain | None) -> None:
        """Set what the operator wants of a node."""
        self.admin[index] = admin
        if drain is None:
            self.drains.pop(index, None)
        else:
            self.drains[index] = drain
        self.unsaved.add(index)
        self.version += 1

    def rename(self, index: int, name: str) -> None:
        """Show a node under another name, which must be free."""
        node = self.nodes[index]
        del self._by_name[node.name]
        node.name = name
        self._by_name[name] = index
        self.introduced.add(index)
        self.version += 1

    def greet(self, index: int, interval_s: float, silence_s: float | None) -> None:
        """Take over the cadence that a hello announces."""
        self.interval_s[index] = interval_s
        self.stale_after_s[index] = stale_after_s(interval_s, silence_s)
        self.unsaved.add(index)
        self.introduced.add(index)
        self.version += 1

    def begin(
        self, index: int, now: float, boot_ms: int, interval_s: float, *, anew: bool
    ) -> None:
        """Take the boot clock of a hello; `anew` where a conversation begins."""
        if anew:
            self._offsets.begin(index)
        at, difference_s = np.array([now]), np.array([now - boot_ms / 1000])
        self._offsets.see(np.array([index]), at, difference_s, np.array([interval_s]))

    def sleep(self, index: int) -> None:
        """Note that a node announced its sleep."""
        self.asleep[index] = True

    def tick(
        self,
        now: float,
        unix_now: float,
        lost_after_s: float,
        hearing: Hearing = ATTENTIVE,
    ) -> list[Change]:
        """Score what arrived, renew every state, return what changed."""
        self.score_waiting(now, unix_now)
        return self._renew_states(now, lost_after_s, hearing)

    def score_waiting(self, now: float, unix_now: float) -> None:
        """Read and score what waits; rows and rollups then hold every frame taken.

        Whoever sent a wrong frame hears of it.
        """
        if not len(self.waiting):
            return
        waiting, self.waiting = self.waiting, Waiting()
        batch, wrong = waiting.read()
        if len(batch.rows):
            self._take(batch, now, unix_now)
            self.version += 1
        for sender, error in wrong:
            sender.refuse(error)

    def _take(self, batch: Batch, now: float, unix_now: float) -> None:
        batch = batch.of(np.argsort(batch.rows, kind="stable"))
        begins = _begins(batch.rows)
        rows = batch.rows[begins]
        self._see_clocks(batch, begins, rows)
        sampled_at = np.minimum(
            batch.arrived_at, batch.boot_s + self._offsets.seconds(batch.rows)
        )
        new = fresh(begins, batch.seq, self.seq[rows])
        if not new.all():
            self.repeated += int((~new).sum())
            kept = np.flatnonzero(new)
            batch, sampled_at = batch.of(kept), sampled_at[kept]
            if not len(kept):
                return
            begins = _begins(batch.rows)
            rows = batch.rows[begins]
        self.seq[rows] = np.maximum.reduceat(batch.seq, begins)
        self._hear(batch, begins, rows)
        health = assess(batch.values)
        minutes = np.floor_divide(unix_now - now + sampled_at, 60)
        self.rollups.add(batch.rows, minutes.astype(np.int64), batch.values, health)
        late = batch.arrived_at - sampled_at > self.stale_after_s[batch.rows]
        self._replace(batch, begins, ~batch.backfill & ~late, sampled_at, health)
        nodes = self.nodes
        for index in rows.tolist():
            nodes[index].last_seen = unix_now

    def _see_clocks(self, batch: Batch, begins: Rows, rows: Rows) -> None:
        differences_s = batch.arrived_at - batch.boot_s
        differences_s[batch.backfill] = np.inf
        least_s = np.minimum.reduceat(differences_s, begins)
        seen = np.flatnonzero(np.isfinite(least_s))
        self._offsets.see(
            rows[seen],
            batch.arrived_at[begins[seen]],
            least_s[seen],
            self.interval_s[rows[seen]],
        )

    def _hear(self, batch: Batch, begins: Rows, rows: Rows) -> None:
        """Note who spoke; backfill, kept back before, is no sign of life."""
        arrived_at = np.where(batch.backfill, -np.inf, batch.arrived_at)
        newest = np.maximum.reduceat(arrived_at, begins)
        spoke = np.isfinite(newest)
        self.arrived_at[rows[spoke]] = newest[spoke]
        self.heard[rows[spoke]] = True
        self.asleep[rows[spoke]] = False

    def _replace(
        self,
        batch: Batch,
        begins: Rows,
        live: Flags,
        sampled_at: Floats,
        health: Health,
    ) -> None:
        """Let the newest live frame of each node be its row."""
        places = np.where(live, np.arange(len(live)), -1)
        newest = np.maximum.reduceat(places, begins)
        counts = np.add.reduceat(live.astype(np.int64), begins)
        picked = newest[newest >= 0]
        rows = batch.rows[picked]
        self.readings[rows] = batch.values[picked]
        self.headroom[rows] = health.headroom[picked]
        self.score[rows] = health.score[picked]
        self.confidence[rows] = health.confidence[picked]
        self.limiting[rows] = health.limiting[picked]
        self.gpu_free_mib[rows] = batch.gpu_free_mib[picked]
        self.sampled_at[rows] = sampled_at[picked]
        self.frames[rows] += counts[newest >= 0]
        nodes, data = self.nodes, batch.data
        for index, start, end, gaps in zip(
            rows.tolist(),
            batch.starts[picked].tolist(),
            batch.ends[picked].tolist(),
            batch.gaps[picked].tolist(),
            strict=True,
        ):
            node = nodes[index]
            node.newest = data[start:end]
            node.gaps = gaps

    def _renew_states(
        self, now: float, lost_after_s: float, hearing: Hearing
    ) -> list[Change]:
        n = len(self.nodes)
        before = self.state[:n].copy()
        # Where we may have been deaf ourselves, silence counts for less.
        silent_s = now - self.arrived_at[:n] - hearing.deaf_s
        silent_s *= hearing.attention
        self.silent_at[:n][silent_s > self.stale_after_s[:n]] = now
        flaps = decayed(self.flaps[:n], now - self.flapped_at[:n])
        after, rule = next_states(
            Heard(
                state=before,
                held_s=now - self.state_since[:n],
                silent_s=silent_s,
                stale_after_s=self.stale_after_s[:n],
                steady_s=now - self.silent_at[:n],
                flaps=flaps,
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
        sank = changed[worse(before[changed], after[changed])]
        self.flaps[sank] = flaps[sank] + 1
        self.flapped_at[sank] = now
        return [
            Change(int(i), State(int(before[i])), State(int(after[i])), int(rule[i]))
            for i in changed
        ]

    def silent_and_heard(self) -> tuple[int, int]:
        """Return how many nodes are stale, and how many are heard of."""
        there = self.there[: len(self.nodes)]
        states = self.state[: len(self.nodes)][there]
        heard = (states >= State.JOINING) & (states <= State.SATURATED)
        return int((states == State.STALE).sum()), int(heard.sum())


def _begins(rows: Rows) -> Rows:
    """Return where each row begins in a sorted array of them."""
    return np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])


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
    "silent_at": _Spec(np.float64, -np.inf),  # when it was silent too long, last
    "flaps": _Spec(np.float64, 0),  # changes for the worse, as of flapped_at
    "flapped_at": _Spec(np.float64, 0),
    "asleep": _Spec(np.bool_, 0),
    "there": _Spec(np.bool_, 0),  # the row has a node
    "gpu_free_mib": _Spec(np.float64, np.nan),  # the most free on one device
    "seq": _Spec(np.int64, -1),  # highest taken of this boot
}


def _column(name: str, rows: int = _FIRST_ROWS) -> np.ndarray:
    spec = _COLUMNS[name]
    return np.full((rows, *spec.width), spec.fill, dtype=spec.dtype)
