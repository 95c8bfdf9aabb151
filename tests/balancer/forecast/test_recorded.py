"""Recorded series, as bench/forecast.py judges them: a few, for what they show."""

from pathlib import Path

import pytest
from bench.forecast import SOURCES, measured, read


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("ec2_cpu_utilization_5f5533", 0.4),  # noise: the last value gets 0.53
        ("art_daily_small_noise", 0.8),  # a clear day: a mean gets 4
        ("rds_cpu_utilization_e47b3b", 0.85),  # a level that shifts: the day gets 9
    ],
)
def test_a_recorded_series_is_foreseen_about_as_well_as_by_its_best_method(
    recordings: Path, name: str, most: float
) -> None:
    source = next(one for one in SOURCES if one.name == name)
    values = read(recordings / source.path, source.column)
    found = measured(source, values, origins=15)
    assert found.ours < most
    assert found.ours < 1.1 * found.hindsight
    assert found.against_mean < 1.1
    assert found.covered is not None
    assert found.covered > 0.75
