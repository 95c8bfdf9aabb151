"""Guessing credentials gets slow; nobody else pays for it."""

import pytest

from trimtab.collector.brakes import FAILURES, MOST_NETWORKS, Brakes, network_of


def test_after_some_failures_their_network_has_to_stay_away_for_a_while():
    brakes = Brakes()
    used_up = [brakes.failed("192.0.2.1", 0.0) for _ in range(int(FAILURES) + 3)]
    assert used_up.count(True) == 1
    assert brakes.retry_s("192.0.2.1", 0.0) == pytest.approx(5.0)
    assert brakes.retry_s("192.0.2.1", 5.1) is None
    assert brakes.retry_s("192.0.2.2", 0.0) is None


def test_a_few_failures_are_free_and_forgotten():
    brakes = Brakes()
    for i in range(100):
        brakes.failed("192.0.2.1", i * 10.0)
    assert brakes.retry_s("192.0.2.1", 1000.0) is None


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("?", "?"),
    ],
)
def test_a_neighbour_is_an_ipv4_address_or_an_ipv6_network(address, network):
    assert network_of(address) == network


def test_the_table_is_bounded():
    brakes = Brakes()
    for i in range(MOST_NETWORKS + 10):
        brakes.failed(f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}", 0.0)
    assert len(brakes._credit) == MOST_NETWORKS
