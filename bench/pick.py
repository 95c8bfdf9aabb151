"""How fast the router picks: picks a second, the tail, and memory a lease.

    python bench/pick.py
    python bench/pick.py --nodes 100 10000 --picks 50000 --json

One core, processor time. Every task takes 5 ms, has a latency budget and a
risk group to avoid; a tenth of the nodes is too far, an eighth is in the group,
a few are stale or ejected. Picks are timed in batches, and the outcomes that
close them apart; 450 are under way at any time. A snapshot arrives every
quarter of a second and its update is timed with the picks. The tail is of
single picks in wall time: on a busy machine it shows the machine.
"""

import argparse
import gc
import sys
import tracemalloc
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from time import perf_counter, process_time
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.report import Report, table

from trimtab.balancer import (
    Decision,
    Node,
    NoFit,
    Outcome,
    Pick,
    Router,
    Settings,
    Snapshot,
    State,
    Task,
    parse_task,
)

SNAPSHOT_S = 0.25
UNDER_WAY = 450
TASK_S = 0.005
BATCH = 150
REPEATS = 5
LEASES = 50_000
# What is wanted.
PICKS_S = 100_000
EXPLAINED_S = 50_000
SCALING = 1.3
TAIL_US = 50.0
LEASE_BYTES = 300


def fleet(size: int, at: float, version: int, rng: Random) -> Snapshot:
    """Return a fleet of unlike nodes."""
    return Snapshot.of(
        (
            Node(
                f"{i:032x}",
                f"n{i}",
                f"10.0.{i // 250}.{i % 250}:80",
                state=State.STALE if i % 50 == 7 else State.HEALTHY,
                sampled_at=at,
                cpu=rng.uniform(0.2, 1),
                memory=rng.uniform(0.2, 1),
                slots=rng.choice((2, 4, 8, 16)),
                speed=rng.choice((0.6, 1.0, 1.6)),
                rtt_p95_ms=rng.uniform(1, 25) if i % 10 else 80.0,
                groups=(f"rack{i % 8}",),
            )
            for i in range(size)
        ),
        version=version,
        at=at,
    )


class Spent(NamedTuple):
    """Processor time in seconds."""

    picking_s: float
    closing_s: float


def _id(made: Decision | Pick | NoFit) -> str:
    match made:
        case NoFit():
            raise LookupError(made.sentence)
        case _:
            return made.id


class Load:
    """Picks and closes, in batches, with as many leases under way as in a fleet."""

    def __init__(self, size: int, *, explained: bool) -> None:
        self._rng = Random(1)
        self.router = Router(Random(2), Settings())
        self._size = size
        self._snapshot = fleet(size, 0.0, 1, self._rng)
        self.router.update(self._snapshot)
        self._explained = explained
        plain = {"duration_s": TASK_S, "latency_budget_ms": 200}
        self._tasks = [
            parse_task({**plain, "avoid": [group]}) for group in ("rack3", "rack5")
        ]
        self._open: deque[str] = deque()
        self.now = 0.0
        self._renewed_at = 0.0
        self._columns = [
            tuple(self._rng.uniform(0.2, 1) for _ in range(size)) for _ in range(4)
        ]
        self._eject()

    def _eject(self) -> None:
        """Let a few nodes fail until they are out."""
        for row in range(2, self._size, 40):
            for _ in range(5):
                ident = self._snapshot.ids[row]
                self.router.board.ended(ident, ok=False, slowness=None, now=self.now)

    def play(self, picks: int, timed: list[float] | None = None) -> Spent:
        """Make so many picks, and return the processor time they took."""
        router, tasks, rng = self.router, self._tasks, self._rng
        pick: Callable[[Task, float], Decision | Pick | NoFit]
        pick = router.route if self._explained else router.pick
        steps = [i / PICKS_S for i in range(BATCH)]
        spent = Spent(0.0, 0.0)
        for batch in range(picks // BATCH):
            before = process_time()
            self._renew()
            task, now = tasks[batch % 2], self.now
            made: list[Decision | Pick | NoFit] = []
            if timed is None:
                made += [pick(task, now + step) for step in steps]
            else:
                for step in steps:
                    began = perf_counter()
                    made.append(pick(task, now + step))
                    timed.append(perf_counter() - began)
            self.now += BATCH / PICKS_S
            between = process_time()
            self._open += map(_id, made)
            while len(self._open) > UNDER_WAY:
                ident = self._open.popleft()
                service_ms = 1000 * TASK_S * rng.uniform(0.6, 1.4)
                router.close(ident, Outcome.OK, self.now, service_ms=service_ms)
            spent = Spent(
                spent.picking_s + between - before,
                spent.closing_s + process_time() - between,
            )
        return spent

    def _renew(self) -> None:
        now = self.now
        if now - self._renewed_at < SNAPSHOT_S:
            return
        self._renewed_at = now
        size, version = self._size, self._snapshot.version + 1
        self._snapshot = self._snapshot.renewed(
            version,
            now,
            sampled_at=(now,) * size,
            cpu=self._columns[version % len(self._columns)],
        )
        self.router.update(self._snapshot)


class Speed(NamedTuple):
    """What was measured, the best of a few."""

    picks_s: float
    with_closing_s: float  # picks a second with the outcomes that close them
    p99_us: float


def measured(size: int, picks: int, *, explained: bool) -> Speed:
    """Return the speed in a fleet of a size."""
    load = Load(size, explained=explained)
    load.play(picks)
    gc.collect()
    runs = [load.play(picks) for _ in range(REPEATS)]
    tails = []
    for _ in range(REPEATS):
        timed: list[float] = []
        load.play(picks, timed)
        tails.append(sorted(timed)[int(0.99 * len(timed))] * 1e6)
    return Speed(
        picks / min(run.picking_s for run in runs),
        picks / min(sum(run) for run in runs),
        min(tails),
    )


def lease_bytes() -> float:
    """Return what one open lease takes, with its id."""
    load = Load(1000, explained=False)
    load.router.pick(Task(), 0.0)
    gc.collect()
    tracemalloc.start()
    for i in range(LEASES):
        load.router.pick(Task(), i / 100_000)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / LEASES


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_RAW)
    parser.add_argument("--nodes", type=int, nargs="*", default=[100, 1000, 10_000])
    parser.add_argument("--picks", type=int, default=50_000, help="a measurement")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    report = Report("pick", argv)
    rows: list[list[object]] = []
    plain: list[float] = []
    for explained in (False, True):
        for size in options.nodes:
            speed = measured(size, options.picks, explained=explained)
            wanted = EXPLAINED_S if explained else PICKS_S
            met = speed.picks_s >= wanted and speed.p99_us < TAIL_US
            rows.append([size, explained, *speed, wanted, met])
            if not explained:
                plain.append(speed.picks_s)
    ratio = max(plain) / min(plain)
    size_bytes = lease_bytes()
    text = report.keep({"rows": rows, "ratio": ratio, "lease_bytes": size_bytes})
    if options.json:
        sys.stdout.write(f"{text}\n")
        return
    head = ["nodes", "explained", "picks/s", "with outcomes", "p99 µs", "wanted", "met"]
    sys.stdout.write(
        f"{table(head, rows)}\n\n"
        f"between sizes {ratio:.2f} times (at most {SCALING}); "
        f"a lease takes {size_bytes:.0f} bytes (under {LEASE_BYTES})\n"
    )


_RAW = argparse.RawDescriptionHelpFormatter

if __name__ == "__main__":
    main(sys.argv[1:])
