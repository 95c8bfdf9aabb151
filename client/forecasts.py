"""What is expected of a node, as `GET /v1/nodes/{node}/forecast` tells it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .fields import Fields


class Band(NamedTuple):
    """One series, step by step, and what it stays between."""

    expected: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The next steps of one node; all sequences run alike."""

    node: str
    step_s: int
    time: tuple[int, ...]  # Unix seconds, where each step begins
    series: Mapping[str, Band]
    method: str | None  # None: nothing forecasts, and every value is None
    raw: Mapping[str, Any] = field(repr=False, compare=False)


def parse_forecast(fields: Fields) -> Forecast:
    """Return the forecast; Unexpected if a field is not as the API says."""
    return Forecast(
        node=fields.text("node"),
        step_s=fields.integer("step_s"),
        time=fields.integers("time"),
        series={
            name: Band(
                each.maybe_numbers("expected"),
                each.maybe_numbers("low"),
                each.maybe_numbers("high"),
            )
            for name, each in fields.members("series").items()
        },
        method=fields.maybe_text("method"),
        raw=fields.raw,
    )
