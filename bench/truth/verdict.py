"""The verdict on a scenario: who ranks its windows as the work's slowness does.

Spearman's correlation with the mean time that the work took in a window, the
mean over the two victims. The ceiling is that of one victim with the other:
what two identical pieces of work side by side say of each other.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bench.rank import spearman

OURS = "score"
WANTED_SHARE = 0.95  # of the ceiling
BEATEN_BY = 0.01  # no rival may be better by more


class Verdict(NamedTuple):
    """Correlations with slowness, 1 the best; None where nothing was to rank."""

    windows: int
    ceiling: float | None
    found: dict[str, float | None]  # ours and the rivals'

    @property
    def share(self) -> float | None:
        """Ours as a share of the ceiling."""
        ours = self.found[OURS]
        return None if ours is None or not self.ceiling else ours / self.ceiling

    @property
    def best_rival(self) -> tuple[str, float]:
        """The best of the others, by how strongly it ranks in its own direction."""
        others = {n: r for n, r in self.found.items() if n != OURS and r is not None}
        name = max(others, key=others.__getitem__, default="none")
        return name, others.get(name, 0.0)

    @property
    def met(self) -> bool:
        """Whether ours is what is wanted here."""
        ours, share = self.found[OURS], self.share
        return (
            ours is not None
            and share is not None
            and share >= WANTED_SHARE
            and self.best_rival[1] <= ours + BEATEN_BY
        )


def verdict(
    windows: Sequence[Mapping[str, Any]], calm_s: Mapping[str, float]
) -> Verdict:
    """Return the verdict on windows, of one scenario or of several.

    `calm_s` is the time of the unloaded work, by scenario.
    """
    whole = [
        w for w in windows if None not in w["took_s"] and w["looks"][-1] is not None
    ]
    slowness = [
        [w["took_s"][victim] / calm_s[w["scenario"]] for w in whole]
        for victim in range(2)
    ]
    columns: dict[str, list[float | None]] = {
        # A high score is room, so it falls as work slows.
        OURS: [_negated(score(w)) for w in whole]
    }
    for name in sorted({name for w in whole for name in w["rivals"]}):
        columns[name] = [w["rivals"].get(name) for w in whole]
    return Verdict(
        len(whole),
        spearman(slowness[0], slowness[1]),
        {name: _mean(column, slowness) for name, column in columns.items()},
    )


def score(window: Mapping[str, Any]) -> float | None:
    """Return the score at the window's end, or the last one before."""
    known = [k["score"] for k in window["looks"] if k and k["score"] is not None]
    return known[-1] if known else None


def calm_s(windows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return by scenario what its work takes where nothing was started beside it."""
    found: dict[str, list[float]] = {}
    for window in windows:
        taken = [took_s for took_s in window["took_s"] if took_s is not None]
        level = window["level"]
        loaded = level["stress"] or level["delay_ms"] or level["jitter_ms"]
        if not (loaded or level["loss"]):
            found.setdefault(window["scenario"], []).extend(taken)
    return {name: statistics.median(taken) for name, taken in found.items() if taken}


def _negated(value: float | None) -> float | None:
    return None if value is None else -value


def _mean(
    column: Sequence[float | None], slowness: Sequence[Sequence[float]]
) -> float | None:
    found = [spearman(column, one) for one in slowness]
    known = [rho for rho in found if rho is not None]
    return statistics.fmean(known) if known else None
