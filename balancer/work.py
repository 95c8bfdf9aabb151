"""What a task's label is worth: the time it says against the time it takes.

A task says its class or how long it takes, on a nominal node. The time served
says how long it took. Labels of about one size (a power of two) share a scale,
which follows what is heard: so a class whose time is set wrongly, or unlike
tasks under one label, do not make the nodes that serve them look fast or slow.
"""

from math import frexp

# A label is believed like so many outcomes, and so many are remembered.
_BELIEVED = 10
_REMEMBERED = 200
_MOST = 1000.0


def size(labelled_ms: float) -> int:
    """Return the size that a label is of."""
    return frexp(labelled_ms)[1]


class Work:
    """The scale of each size of label."""

    def __init__(self) -> None:
        self._scales: dict[int, float] = {}
        self._heard: dict[int, int] = {}

    def expected_ms(self, size: int, labelled_ms: float) -> float:
        """Return the work to expect of a label, on a nominal node."""
        return labelled_ms * self._scales.get(size, 1.0)

    def learn(self, labelled_ms: float, served_ms: float) -> None:
        """Take an outcome; `served_ms` is what it would be on a nominal node."""
        key = size(labelled_ms)
        heard = self._heard.get(key, 0)
        gain = 1 / min(_REMEMBERED, heard + _BELIEVED)
        scale = self._scales.get(key, 1.0)
        self._scales[key] = scale + gain * (bounded(served_ms / labelled_ms) - scale)
        self._heard[key] = heard + 1


def bounded(ratio: float) -> float:
    """Return a ratio as far as it is believed: a thousand times off at most."""
    return min(_MOST, max(1 / _MOST, ratio))
