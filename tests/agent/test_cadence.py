"""When an agent samples and sends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.agent.cadence import (
    CALM_AFTER_S,
    DEADBANDS,
    SHARE_DEADBAND,
    Cadence,
    OnChange,
)
from trimtab.agent.sampler import UNITS


def share(value):
    return {"cpu.busy": value}


def sent(cadence, series, step_s=1.0):
    return [cadence.wanted(values, i * step_s) for i, values in enumerate(series)]


def test_in_standard_mode_each_sample_is_a_frame_at_a_steady_pace():
    cadence = Cadence(1.0)
    assert sent(cadence, [share(0.5)] * 3) == [True] * 3
    assert cadence.pause_s(CALM_AFTER_S) == 1.0
    assert cadence.silence_s is None


@pytest.mark.parametrize(
    ("name", "before", "after", "moved"),
    [
        ("cpu.busy", 0.50, 0.54, False),
        ("cpu.busy", 0.50, 0.56, True),
        ("cpu.busy", 0.50, None, True),  # a reading that goes is news
        ("cpu.busy", None, 0.0, True),
        ("cpu.busy", None, None, False),
        ("cpu.run_queue", 0.0, 0.2, False),
        ("cpu.run_queue", 0.0, 0.3, True),
        ("memory.major_faults", 1.0, 15.0, False),  # small, whatever x
        ("memory.major_faults", 100.0, 140.0, False),
        ("memory.major_faults", 100.0, 160.0, True),
        ("memory.oom_kills", 0.0, 1.0, True),  # one is news
        ("link.rtt", 1000.0, 5500.0, False),
        ("link.rtt", 20_000.0, 35_000.0, True),
    ],
)
def test_a_frame_goes_out_when_a_value_leaves_its_deadband(name, before, after, moved):
    cadence = OnChange(1.0, 5.0, 30.0)
    assert cadence.wanted({name: before}, 0.0)  # the first always
    assert cadence.wanted({name: after}, 1.0) is moved


def test_what_is_no_share_has_a_deadband_of_its_own():
    of_shares = {name for name, unit in UNITS.items() if unit == "share"}
    assert set(DEADBANDS) == set(UNITS) - of_shares | {"link.rtt"}
    assert SHARE_DEADBAND not in DEADBANDS.values()


def test_a_slow_drift_is_measured_from_what_was_sent():
    cadence = OnChange(1.0, 5.0, 1000.0)
    flags = sent(cadence, [share(0.02 * i) for i in range(10)])
    assert flags == [i % 3 == 0 for i in range(10)]


def test_silence_never_passes_the_heartbeat():
    cadence = OnChange(1.0, 5.0, 30.0)
    flags = sent(cadence, [share(0.5)] * 100)
    assert [i for i, flag in enumerate(flags) if flag] == [0, 30, 60, 90]


def test_samples_come_further_apart_while_nothing_moves():
    cadence = OnChange(1.0, 5.0, 30.0)
    cadence.wanted(share(0.5), 0.0)
    assert cadence.pause_s(1.0) == 1.0
    cadence.wanted(share(0.5), CALM_AFTER_S)
    assert cadence.pause_s(CALM_AFTER_S) == 5.0
    assert cadence.wanted(share(0.9), CALM_AFTER_S + 5)
    assert cadence.pause_s(CALM_AFTER_S + 5) == 1.0  # lively again


@given(
    st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=60),
    st.floats(0.1, 3),
    st.floats(0.1, 20),
    st.floats(1, 60),
)
def test_whatever_happens_the_collector_hears_in_time(
    values, interval_s, calm_s, heartbeat_s
):
    cadence = OnChange(interval_s, calm_s, heartbeat_s)
    now, last_sent = 0.0, 0.0
    known = None
    for value in values:
        if cadence.wanted(share(value), now):
            last_sent, known = now, value
        elif known is not None and value is not None:
            assert abs(value - known) <= 0.05 + 1e-9
        pause_s = cadence.pause_s(now)
        assert interval_s <= pause_s <= max(calm_s, interval_s)
        now += pause_s
        # Stale is judged at 1.5 times the announced silence.
        assert now - last_sent <= cadence.heartbeat_s + interval_s + 1e-6
