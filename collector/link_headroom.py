"""The room on one path: between a node and one of the peers it pings.

The same curves as for the network dimension of a node (health.py), of one
link alone: how long its round trips take, how much they vary, how many are
lost. The worst of them counts. Latency budgets of tasks are another matter:
those compare the round trip itself with what the task allows.
"""

import math

import numpy as np

from trimtab.wire import Link

from .health import LINK_CURVES, typical_us


def link_headroom(link: Link, usual_rtt_us: float | None = None) -> float | None:
    """Return headroom, 0..1: 1 undisturbed, 0 of no use to interactive work.

    `usual_rtt_us` is the link's learnt round trip (baselines.py); without it
    the round trip counts by the fleet-wide curve. A link on which nothing was
    sent yet is no reading, None; one where all was lost has no room.
    """
    rtt, least, p95, jitter, loss = (
        math.nan if value is None else value
        for value in (
            link.rtt_us,
            link.rtt_min_us,
            link.rtt_p95_us,
            link.jitter_us,
            link.loss,
        )
    )
    typical = float(typical_us(*map(np.asarray, (rtt, least, p95, jitter))))
    values = {
        "link.typical_us": typical if usual_rtt_us is None else math.nan,
        "link.typical_over_us": typical
        - (math.nan if usual_rtt_us is None else usual_rtt_us),
        "path.variation_us": p95 - least,
        "path.loss": loss,
    }
    rooms = [float(curve.headroom(values[curve.signal])) for curve in LINK_CURVES]
    return min((room for room in rooms if not math.isnan(room)), default=None)
