"""What changed in the signals' states, told once in the log and not at each sample."""

from collections.abc import Callable, Iterable

from trimtab.wire import Hole, State

from .emit import Log
from .sampler import Signal


class Changes:
    """The states as last told."""

    def __init__(self) -> None:
        self._holes: list[tuple[str, State]] = []
        self._told: dict[str, str] = {}

    def tell(
        self,
        holes: Iterable[Hole],
        signals: Callable[[], Iterable[Signal]],
        log: Log,
    ) -> None:
        """Log each signal whose state is another one than before; ok at first.

        The signals are only asked for where the holes are not those of before.
        """
        states = [(hole.signal, hole.state) for hole in holes]
        if states == self._holes:
            return
        self._holes = states
        for signal in signals():
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
