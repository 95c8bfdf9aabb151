"""Spearman's rank correlation: how far one series rises when another does.

Pearson's correlation of the ranks, ties given their mean rank (Spearman 1904).
No test of significance: the windows of a benchmark are few.
"""

import math
from collections.abc import Sequence


def ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value from 1; equal ones share their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for index in order[start:end]:
            found[index] = (start + 1 + end) / 2
        start = end
    return found


def spearman(xs: Sequence[float | None], ys: Sequence[float | None]) -> float | None:
    """Return the correlation, -1 to 1, of the pairs of which both are read.

    None with fewer than three such pairs, or where one side never changes.
    """
    pairs = [
        (x, y) for x, y in zip(xs, ys, strict=True) if x is not None and y is not None
    ]
    if len(pairs) < 3:
        return None
    first, second = ranks([x for x, _ in pairs]), ranks([y for _, y in pairs])
    mean = (len(pairs) + 1) / 2
    covariance = sum(
        (a - mean) * (b - mean) for a, b in zip(first, second, strict=True)
    )
    spread = math.sqrt(
        sum((a - mean) ** 2 for a in first) * sum((b - mean) ** 2 for b in second)
    )
    return covariance / spread if spread else None
