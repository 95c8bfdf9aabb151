"""Room on one path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.collector.link_headroom import link_headroom
from trimtab.wire import Link, Method


def link(rtt=10_000, least=10_000, p95=10_000, jitter=0, loss=0.0):
    return Link(1, Method.ICMP_DATAGRAM, rtt, least, p95, jitter, loss)


def test_a_path_at_its_usual_length_has_all_its_room():
    assert link_headroom(link(), usual_rtt_us=10_000) == 1.0


def test_a_far_peer_counts_by_its_own_normal_once_that_is_known():
    far = link(200_000, 200_000, 205_000)
    unknown, known = link_headroom(far), link_headroom(far, usual_rtt_us=200_000)
    assert unknown is not None
    assert known is not None
    assert unknown < 0.7
    assert known > 0.95


def test_loss_takes_room_where_what_arrives_is_quick():
    assert link_headroom(link(loss=0.05), 10_000) == pytest.approx(0.5)


def test_a_path_that_loses_everything_has_none():
    lost = Link(1, Method.ICMP_DATAGRAM, loss=1.0)
    assert link_headroom(lost, 10_000) == 0


def test_a_path_not_measured_yet_is_unknown():
    assert link_headroom(Link(1, Method.ICMP_DATAGRAM)) is None


def test_the_kernels_own_word_is_enough():
    """Edge agents ask no echo: a smoothed round trip and its deviation only."""
    room = link_headroom(Link(0, Method.TCP_INFO, rtt_us=60_000, jitter_us=20_000))
    assert room is not None
    assert 0 < room < 1


times = st.integers(0, 3_000_000)


@given(times, times, times, times, st.floats(0, 1), times, st.floats(0, 0.5))
def test_a_worse_path_never_has_more_room(least, spread, jitter, usual, loss, us, more):
    before = link_headroom(link(least, least, least + spread, jitter, loss), usual)
    for worse in (
        link(least + us, least + us, least + us + spread, jitter, loss),
        link(least, least, least + spread + us, jitter, loss),
        link(least, least, least + spread, jitter + us, loss),
        link(least, least, least + spread, jitter, min(1.0, loss + more)),
    ):
        after = link_headroom(worse, usual)
        assert before is not None
        assert after is not None
        assert 0 <= after <= before + 1e-12
