import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.agent.gpu import effective
from trimtab.agent.gpu.effective import SAMPLES, idle_power, of_instances, streak
from trimtab.agent.gpu.readings import Gpm
from trimtab.wire import GpuMethod

GPM = Gpm(sm=31.0, dram=12.0)


@pytest.mark.parametrize(
    ("busy", "gpm", "power", "idle", "limit", "share", "method"),
    [
        (0.70, GPM, 210_000, 70_000, 700_000, 0.31, GpuMethod.GPM),
        (0.70, Gpm(sm=5.0, dram=88.0), None, None, None, 0.88, GpuMethod.GPM),
        (0.70, Gpm(), 210_000, 70_000, 700_000, None, GpuMethod.GPM),  # first sample
        (0.70, Gpm(sm=104.0), None, None, None, 1.0, GpuMethod.GPM),  # clock swing
        (0.70, None, 210_000, 70_000, 700_000, 0.2222, GpuMethod.POWER),
        (0.10, None, 210_000, 70_000, 700_000, 0.10, GpuMethod.POWER),  # not over busy
        (0.70, None, 60_000, 70_000, 700_000, 0.0, GpuMethod.POWER),
        (0.70, None, 210_000, None, 700_000, None, GpuMethod.BUSY_ONLY),  # never idle
        (0.70, None, 210_000, 70_000, None, None, GpuMethod.BUSY_ONLY),
        (0.70, None, None, 70_000, 700_000, None, GpuMethod.BUSY_ONLY),
        (0.70, None, 210_000, 70_000, 70_000, None, GpuMethod.BUSY_ONLY),
        (None, None, 210_000, 70_000, 700_000, None, None),  # MIG of an A100
    ],
)
def test_effective_utilisation_takes_the_best_source(
    busy, gpm, power, idle, limit, share, method
):
    found = effective.effective(busy, gpm, power, idle, limit)
    assert found.method is method
    assert found.share == (share if share is None else pytest.approx(share, abs=1e-4))


watts = st.none() | st.integers(0, 10**6)


@given(st.floats(0, 1), watts, watts, watts)
def test_by_power_it_is_a_share_and_never_above_busy(busy, power, idle, limit):
    share = effective.effective(busy, None, power, idle, limit).share
    assert share is None or 0 <= share <= busy


def pseudo_high(samples):
    count = 0
    for busy, share in samples:
        count = streak(count, busy, share) or 0
    return count >= SAMPLES


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([(0.70, 0.31)] * 3, True),
        ([(0.70, 0.31)] * 2, False),
        ([(0.69, 0.31)] * 9, False),
        ([(0.70, 0.40)] * 9, False),
        ([(0.9, 0.1), (0.9, 0.1), (0.9, 0.5), (0.9, 0.1)], False),
        ([(0.9, 0.1), (0.9, 0.1), (None, 0.1), (0.9, 0.1)], False),
    ],
)
def test_a_gpu_is_pseudo_high_when_busy_to_little_effect_three_times(samples, expected):
    assert pseudo_high(samples) is expected


def test_without_both_values_there_is_no_verdict():
    assert streak(2, 0.9, None) is None
    assert streak(2, None, 0.1) is None


def test_idle_power_is_the_least_seen_while_nothing_ran():
    lowest = None
    for busy, power in [(0.5, 20), (0, 90), (0, None), (None, 10), (0, 70), (0, 80)]:
        lowest = idle_power(lowest, busy, power)
    assert lowest == 70


def test_instances_count_by_their_slices_and_only_together():
    one = (1, Gpm(sm=100.0))
    assert of_instances([one, (3, Gpm(sm=20.0))]) == pytest.approx(0.4)
    assert of_instances([one, (3, Gpm())]) is None
    assert of_instances([]) is None
