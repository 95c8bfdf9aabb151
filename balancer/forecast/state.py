"""State as plain data: it goes through JSON and comes back the same.

Arrays of numbers travel as base64 of their little-endian bytes.
"""

import sys
from array import array
from base64 import b64decode, b64encode
from typing import Any

VERSION = 1

# What `json.loads` gives back.
Plain = Any


class BadState(ValueError):
    """Stored state that can't be taken back; says what to do."""


def packed(numbers: "array[Any]") -> str:
    """Return the numbers as text."""
    return b64encode(_little(numbers).tobytes()).decode("ascii")


def unpacked(code: str, text: str) -> "array[Any]":
    """Return the numbers of a text; a ValueError if it holds none of that size."""
    numbers: array[Any] = array(code)
    numbers.frombytes(b64decode(text, validate=True))
    return _little(numbers)


def _little(numbers: "array[Any]") -> "array[Any]":
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
