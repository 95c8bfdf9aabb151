"""A node's past, as `GET /v1/nodes/{node}/history` tells it: equal steps.

A step without samples is left out; a series that was not read in a step is
None there. All sequences run alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .fields import Fields, Unexpected


class Series(NamedTuple):
    """One series, step by step."""

    mean: tuple[float | None, ...]
    min: tuple[float | None, ...]
    max: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class History:
    """The steps of one node."""

    node: str
    step_s: int
    time: tuple[int, ...]  # Unix seconds, where each step begins
    samples: tuple[int, ...]
    series: Mapping[str, Series]
    raw: Mapping[str, Any] = field(repr=False, compare=False)


def parse_history(fields: Fields) -> History:
    """Return the history; Unexpected if a field is not as the API says."""
    history = History(
        node=fields.text("node"),
        step_s=fields.integer("step_s"),
        time=fields.integers("time"),
        samples=fields.integers("samples"),
        series={
            name: Series(
                each.maybe_numbers("mean"),
                each.maybe_numbers("min"),
                each.maybe_numbers("max"),
            )
            for name, each in fields.members("series").items()
        },
        raw=fields.raw,
    )
    lengths = {len(history.time), len(history.samples)}
    lengths.update(len(c) for series in history.series.values() for c in series)
    if len(lengths) > 1:
        raise Unexpected("answer.series: columns of unlike length")
    return history
