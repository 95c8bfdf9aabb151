"""Softnet drops: packets a second thrown away as no CPU came to take them.

Source: the second column of procfs net/softnet_stat, in hex, a line a CPU,
summed. The queues are the host's, whatever the network namespace.
Cost: one read, of a line a CPU.
"""

from collections.abc import Mapping

from trimtab.agent.errors import Malformed
from trimtab.agent.host import Source

from .network import proc_net
from .paging import rate
from .reading import Answer, Last, Reading


def parse(text: bytes) -> int:
    """Return the packets dropped, over all CPUs; Malformed if that is not there."""
    try:
        drops = [int(line.split(None, 2)[1], 16) for line in text.splitlines()]
        return sum(drops[1:], drops[0])  # no line at all is no reading
    except (IndexError, ValueError) as exc:
        raise Malformed(f"no hex columns in softnet_stat: {text[:80]!r}") from exc


class Softnet:
    """The probe."""

    signals = ("nic.softnet_drops",)

    def __init__(self) -> None:
        self._last = Last[int]()

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        """Return drops/s since the sample before; first time None."""
        after = parse(proc_net(source, "softnet_stat"))
        before = self._last.swap(after, now_us)
        value = before and rate(before[0], after, before[1])
        return {"nic.softnet_drops": Reading(value)}
