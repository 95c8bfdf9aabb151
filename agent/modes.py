"""The two modes: one agent, with other numbers.

Edge mode is for little memory and for links that cost money: fewer frames,
fewer wake-ups, more patience.
"""

from typing import NamedTuple

from .sampler import FIXTURES, SLOW


class Mode(NamedTuple):
    """What differs between the modes. Durations are seconds."""

    on_change: bool  # a frame when something moved; else with each sample
    echoes: bool  # an echo of its own with each frame; else TCP_INFO alone
    obeys: bool  # takes cadence and peers from the collector
    gpus: bool  # asks NVML
    slow: frozenset[str]  # signals that are read each `slow_s` only
    slow_s: float
    ping_s: float  # between two pings of a target, at least
    inventory_s: float  # between two looks at CPUs, memory and GPUs
    dial_s: float  # for each address, TLS included
    welcome_s: float
    bye_first: bool  # at the end: acknowledgements come seldom, but one for a bye
    silence_s: float  # without a word for so long, the collector is gone
    most_wait_s: float | None  # before dialling again; None: backoff.CAP_S


STANDARD = Mode(
    on_change=False,
    echoes=True,
    obeys=True,
    gpus=True,
    slow=FIXTURES,
    slow_s=5.0,
    ping_s=1.0,
    inventory_s=60.0,
    dial_s=5.0,
    welcome_s=10.0,
    bye_first=False,
    silence_s=15.0,
    most_wait_s=None,
)
EDGE = Mode(
    on_change=True,
    echoes=False,
    obeys=False,
    gpus=False,
    slow=SLOW,
    slow_s=10.0,
    ping_s=10.0,
    inventory_s=300.0,
    dial_s=10.0,
    welcome_s=15.0,
    bye_first=True,
    # The collector says something each 10 s: this is three of those.
    silence_s=35.0,
    # Each try may wake a radio.
    most_wait_s=60.0,
)


def of(name: str) -> Mode:
    """Return the mode of this setting."""
    return EDGE if name == "edge" else STANDARD
