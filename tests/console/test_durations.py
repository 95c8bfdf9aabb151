"""Spans of time as people type them."""

import pytest

from trimtab.console.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("1d", 86_400),
        ("0", 0),
        ("1h30", 3630),  # what has no unit is seconds
    ],
)
def test_a_span_of_time_is_read_with_its_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "soon", "10 m", "-5m", "5x", "m", "1e3", "٣m", "1m!", "9" * 30]
)
def test_what_is_none_says_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="such as 90s, 10m or 1h30m"):
        parse_duration(text)
