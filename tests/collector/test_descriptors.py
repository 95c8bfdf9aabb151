"""Descriptors are shared out so that no port can starve the other."""

import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.collector.descriptors import RESERVE, Shares, share_out


def test_where_there_is_room_each_port_has_what_it_wants():
    assert share_out(65_536, 20_000, 1_000) == Shares(20_000, 1_000)
    assert share_out(resource.RLIM_INFINITY, 10**6, 1_000) == Shares(10**6, 1_000)


def test_under_a_low_limit_both_give_way():
    assert share_out(1024, 20_000, 1_000) == Shares(720, 240)
    assert share_out(1024, 20_000, 10) == Shares(950, 10)


@given(st.integers(1, 2**20), st.integers(1, 10**6), st.integers(1, 10**5))
def test_no_share_is_empty_and_together_they_leave_the_reserve(limit, frames, http):
    shares = share_out(limit, frames, http)
    assert 1 <= shares.frames <= frames
    assert 1 <= shares.http <= http
    if limit >= RESERVE + 8:
        assert sum(shares) <= limit - RESERVE


@pytest.mark.parametrize("limit", [1, 64, 65])
def test_a_hopeless_limit_still_leaves_one_each(limit):
    assert share_out(limit, 5, 5) == Shares(1, 1)
