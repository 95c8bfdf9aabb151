"""A node's boot clock on ours, through drift, pauses and time on the way."""

import random

import numpy as np
import pytest

from trimtab.collector.boot_offset import WINDOW_S, BootOffsets


class BootOffset:
    """One node's, among others that are never seen."""

    def __init__(self, row=3):
        self.row = np.array([row])
        self.offsets = BootOffsets()
        self.offsets.begin(row)

    def see(self, arrived_at, boot_s, interval_s):
        self.offsets.see(
            self.row,
            np.array([arrived_at]),
            np.array([arrived_at - boot_s]),
            np.array([interval_s]),
        )

    @property
    def seconds(self):
        return float(self.offsets.seconds(self.row)[0])


def test_the_least_difference_is_taken_as_the_truth():
    offset = BootOffset()
    offset.see(1004.0, 5000.0, 1.0)  # four seconds on the way
    assert offset.seconds == -3996.0
    offset.see(1004.5, 5004.5, 1.0)
    assert offset.seconds == -4000.0
    offset.see(1006.0, 5005.5, 1.0)
    assert offset.seconds == -4000.0


@pytest.mark.parametrize("drift_ppm", [-500, -100, 0, 100, 500])
def test_drift_is_followed_for_days(drift_ppm):
    rng = random.Random(1)
    offset = BootOffset()
    for second in range(0, 3 * 86_400, 7):
        boot_s = second * (1 + drift_ppm / 1e6)
        offset.see(second + rng.uniform(0, 0.05), boot_s, 7.0)
        age_s = second - (boot_s + offset.seconds)
        assert abs(age_s) < 0.2


@pytest.mark.parametrize("pause_s", [5.0, 3600.0])
def test_a_pause_of_the_nodes_clock_is_forgotten_soon(pause_s):
    offset = BootOffset()
    for second in range(60):
        offset.see(1000.0 + second, float(second), 1.0)
    for second in range(60, 60 + int(2 * WINDOW_S) + 2):
        offset.see(1000.0 + pause_s + second, float(second), 1.0)
    assert offset.seconds == 1000.0 + pause_s


def test_a_wild_stamp_is_forgotten_soon():
    offset = BootOffset()
    offset.see(1000.0, 9e15, 1.0)
    for second in range(1, int(2 * WINDOW_S) + 3):
        offset.see(1000.0 + second, 500.0 + second, 1.0)
    assert offset.seconds == 500.0


def test_a_node_that_speaks_seldom_keeps_several_frames_in_view():
    offset = BootOffset()
    offset.see(0.0, 0.0, 60.0)
    for minute in range(1, 5):
        offset.see(60.0 * minute + 3.0, 60.0 * minute, 60.0)
    assert offset.seconds == 0.0


def test_nodes_are_kept_apart_and_a_new_conversation_begins_anew():
    offsets = BootOffsets()
    for row in range(100):
        offsets.begin(row)
    rows = np.arange(0, 100, 2)
    at = np.full(50, 100.0)
    offsets.see(rows, at, rows.astype(np.float64), np.ones(50))
    assert offsets.seconds(rows).tolist() == rows.tolist()
    assert np.isinf(offsets.seconds(rows + 1)).all()
    offsets.begin(4)
    assert np.isinf(offsets.seconds(np.array([4]))).all()
    assert offsets.seconds(np.array([6])) == 6
