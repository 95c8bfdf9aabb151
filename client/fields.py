"""JSON objects to typed values: each field read once, by name and type.

Fields that are not asked for are left alone, so a newer collector may add
some. One that is null or absent where that is allowed is None; a list or
mapping that is absent is empty.
"""

import sys
from collections.abc import Mapping
from typing import Any


class Unexpected(ValueError):
    """A field that is not what the API says; names it and what arrived."""


class Fields:
    """One JSON object of an answer; `where` is its path in that answer."""

    def __init__(self, value: object, where: str = "answer") -> None:
        if not isinstance(value, dict):
            raise _unexpected(where, "an object", value)
        self.raw: Mapping[str, Any] = value
        self._where = where

    def text(self, name: str) -> str:
        """Return a text that must be there."""
        return self._text(self.raw.get(name), name)

    def maybe_text(self, name: str) -> str | None:
        """Return a text, or None."""
        value = self.raw.get(name)
        return None if value is None else self._text(value, name)

    def number(self, name: str) -> float:
        """Return a finite number that must be there."""
        return self._number(self.raw.get(name), name)

    def maybe_number(self, name: str) -> float | None:
        """Return a finite number, or None."""
        value = self.raw.get(name)
        return None if value is None else self._number(value, name)

    def integer(self, name: str) -> int:
        """Return an integer that must be there."""
        return self._integer(self.raw.get(name), name)

    def maybe_integer(self, name: str) -> int | None:
        """Return an integer, or None."""
        value = self.raw.get(name)
        return None if value is None else self._integer(value, name)

    def plain(self, name: str) -> str | float | None:
        """Return a text, a finite number, or None."""
        value = self.raw.get(name)
        return value if isinstance(value, str) else self.maybe_number(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts."""
        return tuple(self._text(v, f"{name}[{i}]") for i, v in self._items(name))

    def integers(self, name: str) -> tuple[int, ...]:
        """Return a list of integers."""
        return tuple(self._integer(v, f"{name}[{i}]") for i, v in self._items(name))

    def maybe_numbers(self, name: str) -> tuple[float | None, ...]:
        """Return a list of finite numbers and Nones."""
        return tuple(
            None if v is None else self._number(v, f"{name}[{i}]")
            for i, v in self._items(name)
        )

    def objects(self, name: str) -> "tuple[Fields, ...]":
        """Return a list of objects."""
        return tuple(
            Fields(v, f"{self._where}.{name}[{i}]") for i, v in self._items(name)
        )

    def inner(self, name: str) -> "Fields":
        """Return an object that must be there."""
        return Fields(self.raw.get(name), f"{self._where}.{name}")

    def readings(self, name: str) -> Mapping[str, float | None]:
        """Return a mapping of names to finite numbers or None."""
        values = self._mapping(name)
        return {key: values.maybe_number(key) for key in values.raw}

    def counts(self, name: str) -> Mapping[str, int]:
        """Return a mapping of names to integers."""
        values = self._mapping(name)
        return {key: values.integer(key) for key in values.raw}

    def words(self, name: str) -> Mapping[str, str]:
        """Return a mapping of names to texts."""
        values = self._mapping(name)
        return {key: values.text(key) for key in values.raw}

    def members(self, name: str) -> "Mapping[str, Fields]":
        """Return a mapping of names to objects."""
        values = self._mapping(name)
        return {key: values.inner(key) for key in values.raw}

    def _mapping(self, name: str) -> "Fields":
        value = self.raw.get(name)
        return Fields({} if value is None else value, f"{self._where}.{name}")

    def _items(self, name: str) -> "enumerate[Any]":
        value = self.raw.get(name)
        if value is None:
            value = []
        if not isinstance(value, list):
            raise _unexpected(f"{self._where}.{name}", "a list", value)
        return enumerate(value)

    def _text(self, value: object, name: str) -> str:
        if not isinstance(value, str):
            raise _unexpected(f"{self._where}.{name}", "a text", value)
        return value

    def _number(self, value: object, name: str) -> float:
        # A huge integer compares where it would not convert; NaN compares false.
        if (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and abs(value) <= sys.float_info.max
        ):
            return float(value)
        raise _unexpected(f"{self._where}.{name}", "a number", value)

    def _integer(self, value: object, name: str) -> int:
        if type(value) is not int:
            raise _unexpected(f"{self._where}.{name}", "an integer", value)
        return value


def _unexpected(where: str, expected: str, value: object) -> Unexpected:
    if isinstance(value, list | dict):
        arrived = f"a {type(value).__name__} of {len(value)}"
    elif value is None:
        arrived = "nothing"
    elif isinstance(value, int) and abs(value) > 10**20:
        arrived = "a number beyond 1e20"
    else:
        arrived = ascii(value)[:60]
    return Unexpected(f"{where}: expected {expected}, got {arrived}")
