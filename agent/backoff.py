"""Full-jitter back-off: how long to wait before dialling again.

Source: M. Brooker, "Exponential Backoff and Jitter" (AWS, 2015): a uniform
draw below a doubling cap spreads a fleet that lost its collector at once.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

BASE_S = 0.5
# Below the collector's default grace of 30 s, so that a fleet is back before
# it counts as lost. A link that costs more to wake has a cap of its own.
CAP_S = 15.0
# Even the luckiest draw leaves the collector a breath.
LEAST_S = 0.1


def delay_s(failures: int, rng: "Random", longest_s: float | None = None) -> float:
    """Return the wait after so many failures in a row (1 or more)."""
    cap = min(longest_s or CAP_S, BASE_S * 2 ** min(failures, 16))
    return max(LEAST_S, rng.uniform(0, cap))
