"""The clocks a sample is stamped with; neither can be set by anyone."""

import time


def boot_ms() -> int:
    """Milliseconds since boot, sleep included; monotonic off Linux."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000
