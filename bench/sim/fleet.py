"""The nodes at work: first come, first served, by as many as there are slots.

Since a node serves in order, when a request will be done is known as soon as
it is sent: no event is needed for its start.
"""

from heapq import heapify, heapreplace
from typing import NamedTuple

from .world import TIMEOUT_S, Machine


class Answer(NamedTuple):
    """What comes back to the balancer, and when."""

    at: float
    ok: bool
    service_ms: float  # 0.0 if it failed
    began: float  # service, for the books; `at` if never
    ended: float


class Server:
    """One node with its slots."""

    __slots__ = ("busy_s", "free", "in_flight", "machine", "served")

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.free = [0.0] * machine.slots  # when each slot is free
        heapify(self.free)
        self.in_flight = 0
        self.served = 0
        self.busy_s = 0.0

    def expected(self, now: float, work_ms: float) -> float:
        """Return when an answer would be back: what only a clairvoyant knows."""
        machine = self.machine
        start = max(now + machine.rtt_s / 2, self.free[0])
        speed = machine.speed(start)
        if speed <= 0:
            return now + TIMEOUT_S * 10
        return start + work_ms / 1000 / speed + machine.rtt_s / 2

    def take(self, now: float, work_ms: float, horizon: float) -> Answer:
        """Send a request, and return its answer. `horizon`: who waits until then."""
        machine = self.machine
        half = machine.rtt_s / 2
        start = max(now + half, self.free[0])
        if start >= horizon:
            # Its client is gone when a slot gets free: it is dropped unserved.
            return Answer(horizon, False, 0.0, horizon, horizon)
        speed = machine.speed(start)
        if speed <= 0:
            return Answer(horizon, False, 0.0, horizon, horizon)
        service = work_ms / 1000 / speed
        end = start + service
        heapreplace(self.free, end)
        self.served += 1
        self.busy_s += service
        back = end + half
        if back >= horizon or machine.speed(end) <= 0:
            return Answer(horizon, False, 0.0, start, end)
        return Answer(back, True, service * 1000, start, end)
