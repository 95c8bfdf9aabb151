"""What an operator may set about routing, with the defaults and their origin."""

from typing import NamedTuple


class Settings(NamedTuple):
    """Each field says its unit; docs/routing.md says what it does."""

    # 8 draws beat 4 and a full scan by many balancers, in simulation.
    draws: int = 8
    full_scan: int = 24  # fleets up to this size are compared whole
    # Envoy's healthy panic threshold, here on capacity and not on hosts.
    panic_below: float = 0.5
    # A path may take this share of a task's latency budget.
    path_share: float = 0.3
    lease_s: float = 30.0  # the least time a lease lasts without an outcome
    leases: int = 100_000  # open at once; past it the oldest to expire goes
    remembered: int = 4096  # decisions that can still be explained
    pools: int = 16  # sets of needs whose filtered fleet is kept


DEFAULTS = Settings()
