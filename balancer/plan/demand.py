"""The demand that a plan is made for: what is foreseen, and not less than is seen.

A forecast is near the median of what may come, and a plan that is right half of
the time is late the other half: a part of the band is added. And foresight only
adds: what is asked for now is taken to go on, whatever the forecast says.
"""

from collections.abc import Sequence

from ..forecast import Expected

# Of the way from the forecast to the upper end of its band. 0, 0.3 and 1 were
# tried (bench/prewarm.py, seeds 1 to 8): 0 is late, 1 moves nearly twice as much.
CAUTION = 0.3


def rates(
    expected: Sequence[Expected], step_s: float, seen: float | None
) -> tuple[float, ...] | None:
    """Return tasks a second for each step, of a forecast of tasks a step.

    `seen` is tasks a second in the last step, None if it was not read. None if
    nothing is foreseen.
    """
    if not expected:
        return None
    least = seen or 0.0
    return tuple(max(least, _cautious(one) / step_s) for one in expected)


def _cautious(one: Expected) -> float:
    high = one.value if one.high is None else one.high
    return one.value + CAUTION * max(0.0, high - one.value)
