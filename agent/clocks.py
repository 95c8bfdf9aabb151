"""The clocks a sample is stamped with, which nobody can set, and the host's sleep."""

import signal
import time


def boot_ms() -> int:
    """Milliseconds since boot, sleep included; monotonic off Linux."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


def monotonic_ms() -> int:
    """Milliseconds that the host was awake."""
    return time.monotonic_ns() // 1_000_000


# By so much the two drift apart only while the host sleeps.
SLEPT_MS = 2000


class Sleep:
    """Notices a suspend: the boot clock goes on in it, the monotonic one stops."""

    def __init__(self) -> None:
        self._asleep_ms = boot_ms() - monotonic_ms()

    def slept_ms(self) -> int | None:
        """Return how long the host slept since the last call; None: it did not."""
        before, self._asleep_ms = self._asleep_ms, boot_ms() - monotonic_ms()
        slept_ms = self._asleep_ms - before
        return slept_ms if slept_ms > SLEPT_MS else None


# "This host is about to sleep": sent by the unit that runs before sleep.target.
SLEEP_SIGNAL = getattr(signal, "SIGUSR1", None)
