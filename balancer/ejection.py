"""Ejection: a node that fails again and again gets nothing for a while.

Five failures in a row eject it for 5 s, the next time for 10 s, up to a
minute; a quiet minute forgives. Never so that more than 40 % of the capacity
is out: that is tested with the node counted out already (Envoy tests before,
and overshoots). When the bound holds back an ejection, too much looks bad for
the looks to be true, and the router panics. A node comes back on probation:
counters start anew, it is drawn a tenth as often and up to its full share in
10 s, and until its first success it has one task at a time.
"""

# Envoy's outlier detection: consecutive failures, base time, and its growth.
FAILURES = 5
BASE_S = 5.0
MOST_S = 60.0
FORGIVEN_S = 60.0
# Of the capacity; Envoy's default of 10 % of the hosts protects too few.
MOST_CAPACITY = 0.4
RAMP_S = 10.0
RAMP_FLOOR = 0.1


class Standing:
    """The failures of one node, and its time out. Times in seconds."""

    __slots__ = ("failures", "since", "times", "until")

    def __init__(self) -> None:
        self.failures = 0  # since the last success
        self.times = 0  # ejections that are not forgiven
        self.until = 0.0  # ejected before this
        self.since = float("-inf")  # when it joined or came back

    def succeeded(self, now: float) -> None:
        """Take a success, which ends a row of failures."""
        self.failures = 0
        if self.times and now - self.until > FORGIVEN_S:
            self.times = 0

    def failed(self, now: float, *, room: bool) -> bool:
        """Take a failure; True if the node is ejected by it.

        `room` says that the capacity bound allows it. What was sent before
        an ejection and fails during it says nothing new.
        """
        if now < self.until:
            return False
        self.failures += 1
        if self.failures < FAILURES or not room:
            return False
        self.until = now + min(MOST_S, BASE_S * 2**self.times)
        self.times += 1
        self.failures = 0
        self.since = self.until
        return True

    def ramp(self, now: float) -> float:
        """Return the share of its draws that it gets, 0.1-1.0."""
        return min(1.0, max(RAMP_FLOOR, (now - self.since) / RAMP_S))


def within_bound(out: float, more: float, whole: float) -> bool:
    """Say whether this capacity may go out too, beside what is out already."""
    return out + more <= MOST_CAPACITY * whole
