"""Forecast: what a load or a headroom will be in the next minutes.

`Series` for one, `Book` for many. Pure: readings and times come in, nothing is
read or kept outside. `docs/forecast.md` says how and how well.
"""

from .book import Book
from .series import Expected, Kind, Said, Series, Why
from .state import BadState

__all__ = ["BadState", "Book", "Expected", "Kind", "Said", "Series", "Why"]
