"""A span of time as people type it: 90, 90s, 10m, 2h, 1d, 1h30m."""

import re

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd])")


def parse_duration(text: str) -> float:
    """Return seconds; ValueError if the text is no span of time."""
    plain = text + "s" if text[-1:].isdigit() else text
    parts = _PART.findall(plain)
    if not parts or "".join(number + unit for number, unit in parts) != plain:
        raise ValueError(f"expected a time such as 90s, 10m or 1h30m, got {text!r}")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
