import pytest

from trimtab.agent.gpu.clock import ratio, throttled

GPU_IDLE, POWER_CAP = 0x1, 0x4


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (0x8, 0.5),  # hardware slowdown
        (0x20, 0.5),  # software, for heat
        (0x40, 0.5),  # hardware, for heat
        (0x80, 0.5),  # power brake
        (0x8 | POWER_CAP, 0.5),
        (GPU_IDLE, None),
        (POWER_CAP, None),
        (0, None),
        (None, None),
    ],
)
def test_a_low_clock_counts_only_while_hardware_or_heat_holds_it(reasons, expected):
    assert ratio(990, 1980, reasons) == expected


def test_an_unknown_clock_or_highest_is_no_reading():
    assert ratio(None, 1980, 0x8) is None
    assert ratio(990, None, 0x8) is None
    assert ratio(990, 0, 0x8) is None
    assert ratio(2000, 1980, 0x8) == 1.0  # a boost past the highest


def test_throttling_is_unknown_without_reasons():
    assert throttled(None) is None
    assert throttled(GPU_IDLE) is False
    assert throttled(0x40) is True
