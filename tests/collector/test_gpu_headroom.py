"""Room on a node's GPUs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.collector.gpu_headroom import MOST_AGE_MS, gpu_headroom
from trimtab.wire import Gpu, GpuHealth, Gpus, GpuState, Mig

GIB = 1024
OK, LOWERED, ZERO = GpuHealth.OK, GpuHealth.LOWERED, GpuHealth.ZERO


def gpu(*, free=80, used=0, **rest):
    given = {"health": OK, "busy": 0.0, "effective": 0.0} | rest
    return Gpu(0, free_mib=free * GIB, used_mib=used * GIB, **given)


def node(*devices, state=GpuState.OK, **rest):
    return Gpus(state, devices=devices, **rest)


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        (node(gpu()), 1.0),
        (node(gpu(effective=1.0)), 0.0),
        (node(gpu(effective=0.25)), 0.75),
        # Busy all the time to little effect: there is room on it.
        (node(gpu(busy=1.0, effective=0.05)), 0.95),
        # Without effective utilisation, busy is the most it can be.
        (node(gpu(busy=0.6, effective=None)), 0.4),
        # Idle, but its memory is held.
        (node(gpu(free=8, used=72)), 0.1),
        (node(gpu(), gpu(free=0, used=80, effective=1.0)), 0.5),
        # A lost GPU takes its share away, and brings no memory either.
        (node(gpu(), gpu(health=ZERO)), 0.5),
        (node(gpu(health=ZERO)), 0.0),
        (node(gpu(health=LOWERED)), 0.5),
        (node(gpu(clock=0.7)), 0.7),
        # Free memory of 20 GiB that one task can't use together.
        (node(gpu(free=40, used=40), gpu(free=40, used=40), stranding=0.5), 0.25),
        (node(gpu(), mig_stranding=0.5), 0.5),
        # A GPU that is split tells its memory by instance.
        (
            node(Gpu(0, OK, effective=0.0, mig=(Mig(1, 1, 30, 10), Mig(2, 1, 0, 40)))),
            0.375,
        ),
        # Unified memory is the host's: only idleness counts.
        (node(Gpu(0, OK, busy=0.5)), 0.5),
        # Only the verdict is known.
        (node(Gpu(0, OK), Gpu(1, ZERO)), 0.5),
    ],
)
def test_the_room_is_what_is_idle_and_free_of_gpus_that_may_be_used(gpus, expected):
    assert gpu_headroom(gpus) == pytest.approx(expected)


@pytest.mark.parametrize(
    "gpus",
    [
        None,
        node(),
        node(Gpu(0)),  # listed, but it answers nothing
        node(gpu(), state=GpuState.ABSENT),
        node(gpu(), state=GpuState.CRASHED),
        node(gpu(), state=GpuState.STALLED, age_ms=MOST_AGE_MS + 1),
    ],
)
def test_what_says_nothing_of_now_is_no_reading(gpus):
    assert gpu_headroom(gpus) is None


def test_values_outlive_a_short_stall_of_the_driver():
    stalled = node(gpu(effective=0.5), state=GpuState.STALLED, age_ms=5000)
    assert gpu_headroom(stalled) == 0.5


shares = st.floats(0, 1)
devices = st.builds(
    gpu,
    free=st.integers(0, 80),
    used=st.integers(0, 80),
    effective=st.one_of(st.none(), shares),
    busy=st.one_of(st.none(), shares),
    clock=st.one_of(st.none(), shares),
    health=st.sampled_from([None, OK, LOWERED, ZERO]),
)


@given(st.lists(devices, min_size=1, max_size=8), shares, shares)
def test_more_use_or_more_stranding_never_adds_room(held, stranding, more):
    before = gpu_headroom(node(*held, stranding=stranding))
    worn = held[0]._replace(effective=max(held[0].effective or 0.0, more), busy=1.0)
    if worn.effective is not None and held[0].effective is None:
        worn = worn._replace(effective=max(worn.effective, held[0].busy or 0.0))
    after = gpu_headroom(node(worn, *held[1:], stranding=max(stranding, more)))
    assert before is not None
    assert after is not None
    assert 0 <= after <= before + 1e-12 <= 1 + 1e-12
