"""What changed in the signals' states, told once in the log and not at each sample."""

from collections.abc import Iterable

from .emit import Log
from .sampler import Signal


class Changes:
    """The states as last told."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def tell(self, signals: Iterable[Signal], log: Log) -> None:
        """Log each signal whose state is another one than before; ok at first."""
        for signal in signals:
            state = signal.state.name.lower()
            if self._told.get(signal.name, "ok") != state:
                log.info(
                    "signal_state",
                    signal=signal.name,
                    state=state,
                    reason=signal.reason or None,
                    mend=signal.mend or None,
                )
            self._told[signal.name] = state
