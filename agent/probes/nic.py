"""NICs: errors and drops a second, and the share of the link speed in use.

Source: procfs net/dev (of Linux's netdevice counters, kernel docs,
networking/statistics.rst) of the interfaces that network.py chooses. Errors
and drops are summed over both directions and all of them. Utilisation is that
of the busier direction, as links are full duplex, and of the worst interface
whose speed is known. Cost: one read, of a line an interface.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trimtab.agent.errors import Malformed, Unsupported
from trimtab.agent.host import Source

from .network import Nic, choose, proc_net
from .paging import rate
from .reading import Answer, Last, Reading, greatest

CHOOSE_EVERY_US = 30_000_000
MEND = "if it is virtio and you know better: ethtool -s NAME speed MBIT"


class Counters(NamedTuple):
    """Since the interface came up."""

    received_bytes: int
    sent_bytes: int
    errors: int
    drops: int


def parse(text: bytes, name: str) -> Counters | None:
    """Return the counters of one interface of net/dev; None if it is not there."""
    label = b"\n%6b:" % name.encode()  # padded by the kernel to six
    start = text.find(label)
    if start < 0:
        return None
    words = text[start + len(label) :].split(None, 12)[:12]
    if len(words) < 12 or not all(word.isdigit() for word in words):
        raise Malformed(f"expected the counters of {name} in net/dev, got {words!r}")
    bytes_in, _, errors_in, drops_in, *_, bytes_out, _, errors_out, drops_out = map(
        int, words
    )
    return Counters(bytes_in, bytes_out, errors_in + errors_out, drops_in + drops_out)


def utilisation(
    before: Counters, after: Counters, elapsed_us: int, speed_mbit: int
) -> float | None:
    """Return the busier direction's share of the speed, 0.0-1.0.

    None is "no reading": an empty interval, or a counter that went back.
    """
    ways = (
        rate(before.received_bytes, after.received_bytes, elapsed_us),
        rate(before.sent_bytes, after.sent_bytes, elapsed_us),
    )
    busier = max((way for way in ways if way is not None), default=None)
    return None if busier is None else min(1.0, busier * 8 / (speed_mbit * 1e6))


class NicTraffic:
    """The probe."""

    signals = ("nic.utilisation", "nic.errors", "nic.drops")

    def __init__(self) -> None:
        self._nics: tuple[Nic, ...] = ()
        self._due_us: int | None = None
        self._last = Last[Mapping[str, Counters]]()

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        """Return a share and two rates since the sample before; first time None."""
        if self._due_us is None or now_us >= self._due_us:
            self._nics = choose(source)
            self._due_us = now_us + CHOOSE_EVERY_US
        text = proc_net(source, "dev")
        found = {nic.name: parse(text, nic.name) for nic in self._nics}
        now = {name: counters for name, counters in found.items() if counters}
        if not now:
            none = Unsupported("no physical network interface, and no default route")
            return dict.fromkeys(self.signals, none)
        before, elapsed_us = self._last.swap(now, now_us) or ({}, 0)
        pairs = {name: (before[name], now[name]) for name in now if name in before}
        return {
            "nic.utilisation": _worst(self._nics, pairs, elapsed_us),
            "nic.errors": _sum(
                rate(was.errors, after.errors, elapsed_us)
                for was, after in pairs.values()
            ),
            "nic.drops": _sum(
                rate(was.drops, after.drops, elapsed_us)
                for was, after in pairs.values()
            ),
        }


def _worst(
    nics: Iterable[Nic],
    pairs: Mapping[str, tuple[Counters, Counters]],
    elapsed_us: int,
) -> Answer:
    speeds = {nic.name: nic.speed_mbit for nic in nics if nic.speed_mbit is not None}
    if not speeds:
        names = ", ".join(nic.name for nic in nics)
        return Unsupported(f"the link speed is unknown of {names}", MEND)
    return greatest(
        Reading(utilisation(*pairs[name], elapsed_us, speed), f"{name}, {speed} Mbit/s")
        for name, speed in speeds.items()
        if name in pairs
    )


def _sum(rates: Iterable[float | None]) -> Reading:
    known = [rate for rate in rates if rate is not None]
    return Reading(sum(known) if known else None)
