"""How far the collector believes its own ears.

When its loop lags, or it waits for a CPU or for memory, frames lie unread
and it is not the fleet that fell silent. Silence then counts for less, so
that a starved collector marks nobody stale or lost. And when most of the
fleet falls silent at once, the fault is more likely near here: nobody is
called lost for a good while longer.
"""

import math
from pathlib import Path
from typing import NamedTuple

# Lag that halves the trust, in seconds; lag of the past fades with FADE_S.
LAG_S = 1.0
FADE_S = 5.0
# Share of time spent waiting from which the host counts as under pressure.
CALM = 0.3
LEAST = 0.2
# Fewer silent nodes than this say nothing about us.
MANY = 10
PATIENCE = 5.0


class Hearing(NamedTuple):
    """How well the fleet could be heard lately."""

    deaf_s: float = 0.0  # frames may have lain unread for so long
    attention: float = 1.0  # share of its time that the collector had for them


ATTENTIVE = Hearing()


class Trust:
    """Fed once a tick."""

    def __init__(self, procfs: Path = Path("/proc")) -> None:
        self._waits = procfs / "self/schedstat"
        self._stalls = procfs / "pressure/memory"
        self._lag_s = 0.0
        self._waiting = 0.0  # share of time, faded
        self._at: float | None = None
        self._waited_s: float | None = None
        self.hearing = ATTENTIVE

    @property
    def level(self) -> float:
        """What the trust comes to, above 0 to 1."""
        return self.hearing.attention / (1.0 + self.hearing.deaf_s / LAG_S)

    @property
    def why(self) -> str:
        """Say what the level comes from."""
        return (
            f"its loop lags by {self._lag_s:.1f} s, and it waits for CPU or memory "
            f"{100 * self._waiting:.0f} % of the time"
        )

    def see(self, now: float, tick_s: float) -> None:
        """Note that a tick runs; ticks are meant to be `tick_s` apart."""
        before, self._at = self._at, now
        waited_s = self._read_waited_s()
        before_s, self._waited_s = self._waited_s, waited_s
        if before is None or now <= before:
            return
        elapsed_s = now - before
        kept = math.exp(-elapsed_s / FADE_S)
        self._lag_s = max(self._lag_s * kept, elapsed_s - tick_s, 0.0)
        if waited_s is not None and before_s is not None:
            share = min(1.0, max(0.0, waited_s - before_s) / elapsed_s)
            self._waiting = kept * self._waiting + (1 - kept) * share
        calm = 1.0 - max(0.0, self._waiting - CALM) / (1.0 - CALM)
        self.hearing = Hearing(self._lag_s, max(LEAST, calm))

    def _read_waited_s(self) -> float | None:
        """Return the time this process waited for a CPU or for memory so far.

        From schedstat's run delay (kernel Documentation/scheduler/
        sched-stats.rst) and the memory pressure's `full` line; None where
        the kernel has neither.
        """
        found = [_run_delay_s(self._waits), _full_stall_s(self._stalls)]
        known = [seconds for seconds in found if seconds is not None]
        return sum(known) if known else None


def _run_delay_s(path: Path) -> float | None:
    try:
        return int(path.read_bytes().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def _full_stall_s(path: Path) -> float | None:
    try:
        for line in path.read_bytes().splitlines():
            if line.startswith(b"full"):
                return int(line.rpartition(b"total=")[2]) / 1e6
    except (OSError, ValueError):
        pass
    return None


def patience(silent: int, heard: int) -> float:
    """Return how many times longer than usual nobody is called lost.

    `silent` nodes are stale, `heard` ones are not.
    """
    return PATIENCE if silent >= MANY and silent > heard else 1.0
