"""Shares as pictures: a bar for now, a sparkline for an hour."""

from collections.abc import Sequence

from trimtab.client import History

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"
GAP = "·"


def bar(value: float | None, cells: int) -> str:
    """Return a bar as long as the share; dots are what is missing to 1."""
    if value is None:
        return ""
    eighths = round(min(1.0, max(0.0, value)) * cells * 8)
    full, part = divmod(eighths, 8)
    drawn = "█" * full + (_EIGHTHS[part] if part else "")
    return drawn.ljust(cells, GAP)


def sparkline(values: Sequence[float | None]) -> str:
    """Return a character a value, the lowest for 0, the highest for 1."""
    last = len(_LEVELS) - 1
    return "".join(
        GAP if value is None else _LEVELS[round(min(1.0, max(0.0, value)) * last)]
        for value in values
    )


def slots(
    history: History, series: str, since_s: float, steps: int
) -> list[float | None]:
    """Return the means of consecutive steps; None where there is no sample."""
    means: list[float | None] = [None] * steps
    known = history.series.get(series)
    if known is not None:
        first = int(since_s // history.step_s)
        for time, mean in zip(history.time, known.mean, strict=True):
            index = time // history.step_s - first
            if 0 <= index < steps:
                means[index] = mean
    return means
