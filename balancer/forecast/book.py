"""Many series by name: a node, a class, a data item; bounded.

Names are the caller's, such as `("node", "gpu-7")` or `("item", "llama")`. A
series that was not updated for longest goes when a new one has no room.
"""

from collections.abc import Mapping
from typing import Self

from .series import Expected, Kind, Series
from .state import VERSION, BadState, Plain

Name = tuple[str, ...]


class Book:
    """Series by name, at most `limit` of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._series: dict[Name, Series] = {}  # the one updated longest ago first

    def __len__(self) -> int:
        return len(self._series)

    def get(self, name: Name) -> Series | None:
        """Return the series of a name; None: nothing was ever read of it."""
        return self._series.get(name)

    def update(
        self,
        name: Name,
        kind: Kind,
        at_s: float,
        value: float | None,
        *,
        outage: bool = False,
    ) -> None:
        """Count a reading. A series whose kind has changed is learnt anew."""
        series = self._series.pop(name, None)
        if series is None or series.kind != kind:
            series = Series(kind)
        series.update(at_s, value, outage=outage)
        self._series[name] = series
        while len(self._series) > self._limit:
            del self._series[next(iter(self._series))]

    def forecast(self, name: Name, steps: int) -> list[Expected]:
        """Return what the next steps will bring; empty for what is not known."""
        series = self._series.get(name)
        return [] if series is None else series.forecast(steps)

    def forget(self, name: Name) -> None:
        """Drop a series, as of a node that was tombstoned."""
        self._series.pop(name, None)

    def state(self) -> Plain:
        """Return everything as plain data, which goes through JSON."""
        return {
            "version": VERSION,
            "series": [[name, one.state()] for name, one in self._series.items()],
        }

    @classmethod
    def restore(cls, state: Mapping[str, Plain], limit: int) -> Self:
        """Return the book that `state` gave; BadState if it can't be taken back.

        Of more than `limit` series those updated last are kept.
        """
        if (version := state.get("version")) != VERSION:
            raise BadState(
                f"forecast state of version {version!r}, and this is version"
                f" {VERSION}: drop it, all series are learnt anew"
            )
        found = cls(limit)
        try:
            series = [(tuple(name), one) for name, one in state["series"]]
        except (KeyError, TypeError, ValueError) as exc:
            raise BadState(
                f"forecast state that is not whole ({exc}): drop it, all series are"
                " learnt anew"
            ) from exc
        found._series = {name: Series.restore(one) for name, one in series[-limit:]}
        return found
