"""Numbers as people read them, each with its unit; "–" is no reading."""

from datetime import UTC, datetime

NO_READING = "–"

_UNITS = {
    "cpu.run_queue": "tasks per CPU",
    "link.retransmits": "segments",
    "memory.oom_kills": "kills",
    "clock.offset_ms": "ms",
}


def number(value: float | None, digits: int = 2) -> str:
    """Return a plain number."""
    return NO_READING if value is None else f"{value:,.{digits}f}"


def count(value: float | None) -> str:
    """Return a number with at most two decimals, and none that it lacks."""
    return NO_READING if value is None else f"{round(value, 2):,.10g}"


def milliseconds(value: float | None) -> str:
    """Return a time given in ms, with three significant digits below 100."""
    if value is None:
        return NO_READING
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def microseconds(value: float | None) -> str:
    """Return a time given in µs."""
    if value is None or value >= 1000:
        return milliseconds(None if value is None else value / 1000)
    return f"{value:.0f} µs"


def share(value: float | None) -> str:
    """Return a share, 0-1, in percent."""
    return NO_READING if value is None else f"{value:.1%}".replace("%", " %")


def duration(seconds: float | None) -> str:
    """Return a span of time in its largest fitting unit."""
    if seconds is None:
        return NO_READING
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def moment(unix_s: float) -> str:
    """Return a Unix time as date and time."""
    try:
        return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):  # beyond what a calendar holds
        return NO_READING


def mebibytes(value: float | None) -> str:
    """Return an amount of memory given in MiB."""
    if value is None:
        return NO_READING
    return f"{value / 1024:,.1f} GiB" if value >= 10_240 else f"{value:,.0f} MiB"


def reading(signal: str, value: float | None) -> str:
    """Return a signal's value with the unit that its name tells."""
    if value is None:
        return NO_READING
    if signal.endswith("_us"):
        return microseconds(value)
    if signal.endswith("_bytes_s"):
        return f"{value:,.0f} bytes/s"
    if signal.endswith("_s"):
        return f"{value:,.1f} per s"
    if signal in _UNITS:
        return f"{value:.3g} {_UNITS[signal]}"
    # Every other signal of ours is a share; a newer one may be anything.
    return share(value) if 0 <= value <= 1 else f"{value:,.6g}"
