"""Numbers, bars and hostile text, as people see them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.client import History, Series
from trimtab.console import units
from trimtab.console.bars import bar, slots, sparkline
from trimtab.console.harmless import harmless


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("web-3 ü 東京", "web-3 ü 東京"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\r\tc\x7f", "a\\nb\\r\\tc\\x7f"),
        ("\x9b31m", "\\x9b31m"),  # the one-byte CSI
        ("abc\u202egnp.exe", "abc\\u202egnp.exe"),  # turns the direction
        ("in\u200bvisible\u2028", "in\\u200bvisible\\u2028"),
        ("[red]x[/]", "[red]x[/]"),  # markup is a matter of the views
    ],
)
def test_what_a_terminal_would_obey_is_spelled_out(text: str, shown: str) -> None:
    assert harmless(text) == shown


@given(st.text())
def test_whatever_comes_only_printable_text_is_shown(text: str) -> None:
    assert harmless(text).isprintable()


@pytest.mark.parametrize(
    ("signal", "value", "shown"),
    [
        ("cpu.stall", 0.1234, "12.3 %"),
        ("cpu.run_queue", 1.5, "1.5 tasks per CPU"),
        ("memory.swap_in_bytes_s", 4096.0, "4,096 bytes/s"),
        ("memory.major_faults_s", 2.25, "2.2 per s"),
        ("link.rtt_us", 512.0, "512 µs"),
        ("link.rtt_us", 23_456.0, "23.5 ms"),
        ("link.retransmits", 3.0, "3 segments"),
        ("path.loss", None, "–"),
        ("cpu.stall", 0.0, "0.0 %"),  # zero is a reading
        ("gpu.watts", 250.0, "250"),  # a newer collector's, of unknown unit
    ],
)
def test_a_signal_is_shown_with_its_unit(
    signal: str, value: float | None, shown: str
) -> None:
    assert units.reading(signal, value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "–"),
        (0.44, "0.4 s"),
        (59, "59 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7200, "2 h"),
        (200_000, "2 d"),
    ],
)
def test_a_span_is_shown_in_the_unit_that_fits(
    seconds: float | None, shown: str
) -> None:
    assert units.duration(seconds) == shown


@pytest.mark.parametrize(
    ("unix_s", "shown"),
    [
        (0.0, "1970-01-01 00:00:00 UTC"),
        (1_760_000_000.9, "2025-10-09 08:53:20 UTC"),
        (1e300, "–"),  # no calendar goes that far
        (-1e18, "–"),
    ],
)
def test_a_moment_is_shown_in_utc(unix_s: float, shown: str) -> None:
    assert units.moment(unix_s) == shown


@pytest.mark.parametrize(
    ("value", "drawn"),
    [
        (1.0, "████"),
        (0.5, "██··"),
        (0.53125, "██▏·"),
        (0.0, "····"),
        (7.0, "████"),
        (None, ""),  # no reading is no empty bar
    ],
)
def test_a_bar_is_as_long_as_its_share(value: float | None, drawn: str) -> None:
    assert bar(value, 4) == drawn


def test_a_sparkline_tells_a_gap_from_zero() -> None:
    assert sparkline([0.0, None, 0.5, 1.0]) == "▁·▅█"


def test_steps_that_history_leaves_out_are_gaps_in_their_place() -> None:
    scores = Series((0.1, 0.2, 0.9), (0, 0, 0), (1, 1, 1))
    history = History(
        node="n",
        step_s=60,
        time=(540, 600, 720),  # the first lies before the window
        samples=(1, 1, 1),
        series={"score": scores},
        raw={},
    )
    assert slots(history, "score", 600.0, 4) == [0.2, None, 0.9, None]
    assert slots(history, "gone", 600.0, 2) == [None, None]
