"""When to sample and what to send.

In standard mode a frame goes out with each sample. In edge mode one goes out
when a value has moved past its deadband since the last frame that was sent,
when a reading appeared or went, or when the heartbeat is due; while nothing
moves the samples themselves come further apart. A pure function of the values
and the time.
"""

from collections.abc import Mapping

Values = Mapping[str, float | None]

# How far a value may move unsent: by so much, or by the share of the value
# sent last, whichever is more. Small rates and round trips are small whatever
# their ratio.
DEADBANDS: Mapping[str, tuple[float, float]] = {
    "cpu.run_queue": (0.25, 0.0),  # tasks per CPU
    "memory.swap_in": (1024.0 * 1024, 0.5),  # bytes/s
    "memory.swap_out": (1024.0 * 1024, 0.5),
    "memory.major_faults": (20.0, 0.5),
    "memory.refaults": (100.0, 0.5),
    "memory.high_events": (0.0, 0.5),
    "memory.max_events": (0.0, 0.5),
    "memory.oom_kills": (0.0, 0.5),
    "nic.errors": (0.0, 0.5),
    "nic.drops": (0.0, 0.5),
    "nic.softnet_drops": (0.0, 0.5),
    "link.rtt": (5000.0, 0.5),  # µs
}
SHARE_DEADBAND = (0.05, 0.0)  # all others are shares of time or memory

CALM_AFTER_S = 30.0


class Cadence:
    """The pace of one agent. Times are a monotonic clock's, in seconds."""

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s

    @property
    def silence_s(self) -> float | None:
        """The longest silence to announce; None: a frame each interval."""
        return None

    def wanted(self, values: Values, now_s: float) -> bool:
        """Return whether these are worth a frame; if so they count as sent."""
        del values, now_s
        return True

    def pause_s(self, now_s: float) -> float:
        """Return how long to wait for the next sample."""
        del now_s
        return self.interval_s


class OnChange(Cadence):
    """The pace of edge mode."""

    def __init__(self, interval_s: float, calm_s: float, heartbeat_s: float) -> None:
        super().__init__(interval_s)
        self.calm_s = max(calm_s, interval_s)
        self.heartbeat_s = max(heartbeat_s, interval_s)
        self._sent: Values | None = None
        self._sent_s = 0.0
        self._moved_s = 0.0

    @property
    def silence_s(self) -> float | None:
        """The longest silence to announce."""
        return self.heartbeat_s

    def wanted(self, values: Values, now_s: float) -> bool:
        """Return whether these are worth a frame; if so they count as sent."""
        moved = self._sent is None or _moved(self._sent, values)
        if moved:
            self._moved_s = now_s
        elif now_s - self._sent_s < self.heartbeat_s - self.interval_s / 2:
            return False
        self._sent = values
        self._sent_s = now_s
        return True

    def pause_s(self, now_s: float) -> float:
        """Return how long to wait for the next sample."""
        if now_s - self._moved_s >= CALM_AFTER_S:
            # Never so long that a heartbeat would come late.
            left_s = self._sent_s + self.heartbeat_s - now_s
            return max(self.interval_s, min(self.calm_s, left_s))
        return self.interval_s


def _moved(before: Values, after: Values) -> bool:
    for name, value in after.items():
        sent = before.get(name)
        if value == sent:
            continue
        if value is None or sent is None:
            return True
        least, share = DEADBANDS.get(name, SHARE_DEADBAND)
        if abs(value - sent) > max(least, share * sent):
            return True
    return False
