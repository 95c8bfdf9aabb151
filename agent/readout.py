"""`trimtab-agent sample`: this host's readings, printed, no collector needed."""

import json
import time
from collections.abc import Iterator, Sequence
from typing import TextIO

from trimtab.wire import Scope, State

from .backend import sampler
from .host import Host
from .sampler import Signal
from .settings import Settings

Signals = Sequence[Signal]


def watch(
    settings: Settings, host: Host, count: int, interval_s: float
) -> Iterator[Signals]:
    """Yield so many samples, an interval apart.

    One more is taken first and not shown: most signals are differences.
    """
    sampling = sampler(settings, host)
    sampling.sample(time.monotonic_ns())
    due = time.monotonic()
    for _ in range(count):
        due += interval_s
        time.sleep(max(0.0, due - time.monotonic()))
        sampling.sample(time.monotonic_ns())
        yield sampling.signals()


def as_json(signals: Signals, unix_s: float) -> str:
    """Return a sample as one line of JSON; null is no reading."""
    return json.dumps(
        {
            "time": round(unix_s, 3),
            "signals": {
                signal.name: {
                    "value": signal.value,
                    "unit": signal.unit,
                    "state": signal.state.name.lower(),
                    "age_ms": signal.age_ms,
                    "scope": signal.scope.name.lower(),
                    **({"reason": signal.reason} if signal.reason else {}),
                }
                for signal in signals
            },
        }
    )


def as_table(signals: Signals, out: TextIO) -> None:
    """Print a sample for people."""
    for signal in signals:
        notes = [signal.reason] if signal.reason else []
        if signal.scope is Scope.CONTAINER:
            notes.insert(0, "of the control group")
        note = f"  {'; '.join(notes)}" if notes else ""
        print(f"{signal.name:22} {shown(signal):>14}  {signal.unit:10}{note}", file=out)


def shown(signal: Signal) -> str:
    """Return the value as people read it, or why there is none."""
    if signal.value is None:
        return "no reading" if signal.state is State.OK else signal.state.name.lower()
    text = f"{signal.value:.1%}" if signal.unit == "share" else f"{signal.value:,.2f}"
    return f"({text})" if signal.state is State.STALE else text
