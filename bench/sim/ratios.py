"""Ratios of two policies over the same seeds, with their interval."""

from collections.abc import Mapping, Sequence
from math import exp, log, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

# Student's t, two-sided 95 %, by degrees of freedom.
_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18)
_T_MANY = 2.1


class Ratio(NamedTuple):
    """A ratio of means, and its 95 % interval; None with too few pairs."""

    value: float
    low: float | None
    high: float | None


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Ratio | None:
    """Return ours / theirs over pairs of one seed each; None: nothing to divide.

    The interval is of the mean logarithm of the ratios. Where a run has none
    at all (timeouts), only the ratio of means is given.
    """
    if not ours or not fmean(theirs):
        return None
    value = fmean(ours) / fmean(theirs)
    if len(ours) < 2 or min(*ours, *theirs) <= 0:
        return Ratio(value, None, None)
    logs = [log(a / b) for a, b in zip(ours, theirs, strict=True)]
    free = len(logs) - 1
    t = _T[free - 1] if free <= len(_T) else _T_MANY
    half = t * stdev(logs) / sqrt(len(logs))
    return Ratio(value, exp(fmean(logs) - half), exp(fmean(logs) + half))


def best(of: Mapping[str, Sequence[float]]) -> str:
    """Return the name with the least mean."""
    return min(of, key=lambda name: fmean(of[name]))
