"""The host's clocks, the only place where the collector reads them."""

import time


class SystemClock:
    """Monotonic for ages and silences, Unix for history and people."""

    def monotonic(self) -> float:
        """Seconds, never going back."""
        return time.monotonic()

    def unix(self) -> float:
        """Seconds since 1970."""
        return time.time()
