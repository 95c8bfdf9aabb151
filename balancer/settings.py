"""What an operator may set about routing, with the defaults and their origin."""

from typing import NamedTuple


class Settings(NamedTuple):
    """Each field says its unit; docs/routing.md says what it does."""

    # 8 draws beat 4 and a full scan by many balancers, in simulation.
    draws: int = 8
    full_scan: int = 24  # a lone balancer compares fleets up to this size whole
    # Envoy's healthy panic threshold, here on capacity and not on hosts.
    panic_below: float = 0.5
    # A path may take this share of a task's latency budget.
    path_share: float = 0.3
    lease_s: float = 30.0  # the least time a lease lasts without an outcome
    leases: int = 100_000  # open at once; past it the next to expire goes
    remembered: int = 4096  # decisions that can still be explained
    snapshots: int = 4  # that are kept to explain a decision in full
    asks: int = 64  # sets of needs whose fitting nodes are kept
    sticky: int = 10_000  # keys whose node is kept
    # Classes that rather get no node than one that is stale or ejected.
    fail_closed: frozenset[str] = frozenset()


DEFAULTS = Settings()
