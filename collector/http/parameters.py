"""Query parameters: each read once, by name; a wrong one is a Problem 400."""

import math
from collections.abc import Iterable

from aiohttp import web

from .problems import Problem


def only(request: web.Request, *allowed: str) -> None:
    """Refuse parameters that the route does not take: they may be misspelt."""
    unknown = sorted(set(request.query) - set(allowed))
    if unknown:
        takes = ", ".join(sorted(allowed)) or "none"
        raise Problem(
            400, f"unknown parameter {unknown[0][:40]!r}; this route takes: {takes}"
        )


def one(request: web.Request, name: str) -> str | None:
    """Return a parameter that may be given once; None if it is not."""
    given = request.query.getall(name, [])
    if len(given) > 1:
        raise Problem(400, f"{name}: expected once, got {len(given)} times")
    return given[0] if given else None


def several(request: web.Request, name: str) -> frozenset[str]:
    """Return the values of a parameter that may be repeated."""
    return frozenset(request.query.getall(name, []))


def words(request: web.Request, name: str, known: Iterable[str]) -> frozenset[str]:
    """Return words of a known few, by commas or by repeating the parameter."""
    given = [
        word for text in request.query.getall(name, []) for word in text.split(",")
    ]
    takes = list(known)
    for word in given:
        if word not in takes:
            raise Problem(
                400, f"{name}: expected some of {', '.join(takes)}, got {word[:40]!r}"
            )
    return frozenset(given)


def whole(request: web.Request, name: str, default: int, least: int, most: int) -> int:
    """Return a whole number within its limits."""
    text = one(request, name)
    if text is None:
        return default
    plain = text.isascii() and text.isdigit() and len(text) < 20
    if not plain or not least <= int(text) <= most:
        raise Problem(
            400,
            f"{name}: expected a whole number, {least} to {most}, got {text[:40]!r}",
        )
    return int(text)


def seconds(request: web.Request, name: str, default: float) -> float:
    """Return a time in seconds."""
    text = one(request, name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1e11:
        raise Problem(400, f"{name}: expected seconds, got {text[:40]!r}")
    return value
