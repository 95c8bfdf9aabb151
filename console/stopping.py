"""Signals that end a program, noted at once and acted on between steps.

A handler that raised could strike between starting a process and remembering
it. This one only notes, and wakes whoever waits.
"""

import os
import select
import signal
from types import FrameType, TracebackType
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopping:
    """Within the context: which signal arrived first, None so far if none."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer)
        self._before = {
            number: signal.signal(number, self._note) for number in _SIGNALS
        }
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, seconds: float) -> bool:
        """Wait so long at most; return whether a signal has arrived."""
        if self.signal is None:
            select.select([self._reader], [], [], seconds)
        return self.signal is not None

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.signal is None:
            self.signal = number
