"""Whether a collector is ready to be asked: `GET /readyz`."""

from typing import NamedTuple

from .fields import Fields


class Ready(NamedTuple):
    """A collector that is; one that isn't answers 503, an ApiError."""

    nodes: int
    store: str  # "ok", or why history can't be written


def parse_ready(fields: Fields) -> Ready:
    """Return it; Unexpected if a field is not as the API says."""
    return Ready(fields.integer("nodes"), fields.text("store"))
