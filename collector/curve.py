"""A curve from one signal to headroom: 1 where it begins to cost, 0 at its end.

Between them it passes through one half at a third point. With x from the
begin, m the half and e the end, both from the begin too,

    h(x) = (e − x) / (e + x (e / m − 2))

is the one curve of the form (p + qx) / (1 + rx) through the three: straight
for m = e / 2, and for an early half steep at first and ever flatter. So it
still tells bad from worse where a straight line would have ended. With stalls
it is the speed that is left: work that waits for a share x of its time runs at
1 − x (m = ½, e = 1), and beside q competitors at 1 / (1 + q) (m = 1, e → ∞).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Curve(NamedTuple):
    """Where a signal begins to cost, halves the room, and leaves none.

    The three rise, or fall where less of the signal is worse.
    """

    signal: str
    begins: float
    half: float
    ends: float

    def headroom(self, values: Floats | float) -> Floats:
        """Return headroom, 0..1, of each value; NaN of NaN."""
        return headroom(np.asarray(values), *np.array(self[1:], np.float64))


def headroom(values: Floats, begins: Floats, half: Floats, ends: Floats) -> Floats:
    """Return headroom, 0..1, of each value by each curve, as far as they broadcast."""
    # By the share of the way, so that falling curves need no case of their own.
    way = np.clip((values - begins) / (ends - begins), 0.0, 1.0)
    return (1.0 - way) / (1.0 + way * ((ends - begins) / (half - begins) - 2.0))
