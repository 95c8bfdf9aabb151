"""Who fails to prove who they are, and how often: guessing gets slow and dear.

A wrong token or key costs its sender's network a little of its credit; with
none left, its failures are answered at once, with a time to stay away, and
are not looked into or logged any more. Valid credentials always pass, so
that nobody can shut out others who share an address.
"""

from collections import OrderedDict
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

FAILURES = 10.0  # in a row that are free
REFILL_PER_S = 0.2
MOST_NETWORKS = 10_000
_V6_HOST_BITS = 64  # an IPv6 network is one neighbour: hosts choose the rest


class _Credit(NamedTuple):
    left: float
    at: float
    told: bool  # that it was used up, since it was last half full


class Brakes:
    """Failures by network: a token bucket each, the longest unused forgotten."""

    def __init__(self) -> None:
        self._credit: OrderedDict[str, _Credit] = OrderedDict()
        self.failures = 0
        self.braked = 0

    def failed(self, address: str, now: float) -> bool:
        """Note a failure; True for the one that used up the credit.

        While it goes on that is told once.
        """
        network = network_of(address)
        before = self._left(network, now)
        self.failures += 1
        held = self._credit.get(network)
        told = held is not None and held.told and before < FAILURES / 2
        used_up = not told and before < 2.0
        self._credit[network] = _Credit(max(0.0, before - 1.0), now, told or used_up)
        self._credit.move_to_end(network)
        while len(self._credit) > MOST_NETWORKS:
            self._credit.popitem(last=False)
        return used_up

    def retry_s(self, address: str, now: float) -> float | None:
        """Return how long a failing one has to stay away; None: it need not."""
        left = self._left(network_of(address), now)
        if left >= 1.0:
            return None
        self.braked += 1
        return (1.0 - left) / REFILL_PER_S

    def _left(self, network: str, now: float) -> float:
        held = self._credit.get(network)
        if held is None:
            return FAILURES
        refilled = max(0.0, now - held.at) * REFILL_PER_S
        return min(FAILURES, held.left + refilled)


def network_of(address: str) -> str:
    """Return what counts as one neighbour: an IPv4 address, an IPv6 /64."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    if isinstance(parsed, IPv4Address):
        return str(parsed)
    return f"{IPv6Address(int(parsed) >> _V6_HOST_BITS << _V6_HOST_BITS)}/64"
