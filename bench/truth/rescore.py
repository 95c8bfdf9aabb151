"""Recorded windows, judged again by the curves as they are now.

A look holds every reading as the collector showed it, so a change of curves
needs no new run. The first look's readings teach nothing: no baselines here.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from trimtab.collector.health import DIMENSIONS, assess
from trimtab.collector.readings import COLUMN, WIDTH


def rescored(window: Mapping[str, Any]) -> dict[str, Any]:
    """Return the window with the score of each look computed anew."""
    return {**window, "looks": [look and _again(look) for look in window["looks"]]}


def _again(look: Mapping[str, Any]) -> dict[str, Any]:
    row = np.full((1, WIDTH), np.nan)
    for name, value in look["signals"].items():
        if name in COLUMN and value is not None:
            row[0, COLUMN[name]] = value
    health = assess(row)
    limiting = int(health.limiting[0])
    known = not np.isnan(health.score[0])
    return {
        **look,
        "score": float(health.score[0]) if known else None,
        "limiting": DIMENSIONS[limiting] if limiting >= 0 else None,
    }
