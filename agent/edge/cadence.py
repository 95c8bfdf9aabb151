"""When to sample and what to send: on change, with a heartbeat, calmer when calm.

A frame goes out when a value has moved past its deadband since the last frame
that was sent, when a reading appeared or went, or when the heartbeat is due.
While nothing moves the samples themselves come further apart. A pure function
of the values and the time.
"""

from collections.abc import Mapping
from typing import NamedTuple

# How far a value may move unsent, in its own unit. Shares of time and memory;
# tasks per CPU; for rates and round trips a share of the value sent last.
DEADBANDS: Mapping[str, float] = {
    "cpu.run_queue": 0.25,
}
SHARE_DEADBAND = 0.05
RATIO_DEADBAND = 0.5
# Below these a rate or a round trip is small whatever its ratio.
RATIO_FLOOR = {
    "bytes/s": 1024.0 * 1024,
    "faults/s": 20.0,
    "refaults/s": 100.0,
    "us": 5000.0,
}

CALM_AFTER_S = 30.0


class Value(NamedTuple):
    """A reading, or None, and the unit that its deadband goes by."""

    value: float | None
    unit: str


class Cadence:
    """The pace of one agent. Times are a monotonic clock's, in seconds."""

    def __init__(self, interval_s: float, calm_s: float, heartbeat_s: float) -> None:
        self.interval_s = interval_s
        self.calm_s = max(calm_s, interval_s)
        self.heartbeat_s = max(heartbeat_s, interval_s)
        self._sent: Mapping[str, Value] | None = None
        self._sent_at = 0.0
        self._moved_at = 0.0

    def wanted(self, values: Mapping[str, Value], now: float) -> bool:
        """Return whether these are worth a frame; if so they count as sent."""
        moved = self._sent is None or any(
            _moved(name, self._sent.get(name), value) for name, value in values.items()
        )
        if moved:
            self._moved_at = now
        if not moved and now - self._sent_at < self.heartbeat_s - self.interval_s / 2:
            return False
        self._sent = values
        self._sent_at = now
        return True

    def pause_s(self, now: float) -> float:
        """Return how long to wait for the next sample."""
        if now - self._moved_at >= CALM_AFTER_S:
            # Never so long that a heartbeat would come late.
            left_s = self._sent_at + self.heartbeat_s - now
            return max(self.interval_s, min(self.calm_s, left_s))
        return self.interval_s


def _moved(name: str, before: Value | None, after: Value) -> bool:
    if before is None or before.value is None or after.value is None:
        return before is None or (before.value is None) != (after.value is None)
    change = abs(after.value - before.value)
    if name in DEADBANDS:
        return change > DEADBANDS[name]
    if after.unit == "share":
        return change > SHARE_DEADBAND
    floor = RATIO_FLOOR.get(after.unit, 0.0)
    return change > max(floor, RATIO_DEADBAND * before.value)
