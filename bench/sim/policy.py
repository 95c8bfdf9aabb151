"""What a policy is asked, and what it is told."""

from random import Random
from typing import NamedTuple

from .fleet import Answer, Server
from .world import Arrival, World


class Report(NamedTuple):
    """What an agent says of its node."""

    node: int
    sampled_at: float
    used: float  # share of its slots in use over the period, with noise
    qps: float
    eps: float  # errors a second


class Policy:
    """Decides for all balancers of a world; `begin` comes first.

    A policy that publishes weights, counts or pools has one set a balancer.
    """

    name = "?"
    tick_s = 0.1

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def begin(self, world: World, servers: list[Server]) -> None:
        """Meet the world. Only an oracle may look at the servers."""

    def tick(self, now: float, reports: list[Report]) -> None:
        """Take the reports that have arrived."""

    def pick(self, now: float, arrival: Arrival) -> tuple[int, object]:
        """Return the node, and a token to be handed to `done`."""
        raise NotImplementedError

    def done(
        self,
        now: float,
        balancer: int,
        node: int,
        token: object,
        answer: Answer,
        in_flight: int,
    ) -> None:
        """Take an answer, with what the node had in flight then."""
