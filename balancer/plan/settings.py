"""The bounds of a plan. Each is a setting, none is a matter of chance."""

from typing import NamedTuple


class Settings(NamedTuple):
    """How far a plan may go."""

    interval_s: float = 60.0  # from one plan to the next
    horizon_s: float = 300.0  # that a move must pay for itself in
    filling: float = 0.7  # of a replica's slots that are planned for
    moving_share: float = 0.1  # of the nodes that may load at once; one always may
    margin: float = 1.5  # saved wait over cost, at least
    lookahead: int = 6  # intervals ahead that moves may be begun early for
