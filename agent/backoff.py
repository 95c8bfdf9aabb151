"""Full-jitter back-off: how long to wait before dialling again.

Source: M. Brooker, "Exponential Backoff and Jitter" (AWS, 2015): a uniform
draw below a doubling cap spreads a fleet that lost its collector at once.
"""

import random

BASE_S = 0.5
CAP_S = 60.0
# Even the luckiest draw leaves the collector a breath.
LEAST_S = 0.1


def delay_s(failures: int, rng: random.Random) -> float:
    """Return the wait after so many failures in a row (1 or more)."""
    cap = min(CAP_S, BASE_S * 2 ** min(failures, 16))
    return max(LEAST_S, rng.uniform(0, cap))
