"""The collector's trust in its own ears (A37: a starved checker marks no one)."""

import pytest

from trimtab.collector.trust import LEAST, MANY, PATIENCE, Trust, patience


@pytest.fixture
def procfs(tmp_path):
    (tmp_path / "self").mkdir()
    (tmp_path / "pressure").mkdir()

    def write(waited_s, stalled_s=0.0):
        (tmp_path / "self/schedstat").write_text(f"1 {int(waited_s * 1e9)} 1\n")
        (tmp_path / "pressure/memory").write_text(
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"
            f"full avg10=0.00 avg60=0.00 avg300=0.00 total={int(stalled_s * 1e6)}\n"
        )

    write(0.0)
    return tmp_path, write


def test_ticks_on_time_and_no_waiting_are_full_trust(procfs):
    trust = Trust(procfs[0])
    for i in range(20):
        trust.see(i * 0.2, 0.2)
    assert trust.level == pytest.approx(1.0)
    assert trust.hearing.deaf_s == pytest.approx(0)


def test_a_late_tick_may_have_left_frames_unread_and_fades(procfs):
    trust = Trust(procfs[0])
    trust.see(0.0, 0.2)
    trust.see(2.2, 0.2)
    assert trust.hearing.deaf_s == pytest.approx(2.0)
    assert trust.level < 0.5
    assert "lags by 2.0 s" in trust.why
    for i in range(1, 200):
        trust.see(2.2 + i * 0.2, 0.2)
    assert trust.level > 0.95


@pytest.mark.parametrize("which", ["cpu", "memory"])
def test_waiting_for_cpu_or_memory_makes_silence_count_for_less(procfs, which):
    root, write = procfs
    trust = Trust(root)
    for i in range(100):
        waited_s = 0.9 * i * 0.2
        write(*((waited_s, 0.0) if which == "cpu" else (0.0, waited_s)))
        trust.see(i * 0.2, 0.2)
    assert LEAST <= trust.hearing.attention < 0.4
    assert "88 % of the time" in trust.why


@pytest.mark.parametrize("content", [None, "", "x y z", "1"])
def test_a_kernel_that_says_nothing_is_trusted(tmp_path, content):
    if content is not None:
        (tmp_path / "self").mkdir()
        (tmp_path / "self/schedstat").write_text(content)
    trust = Trust(tmp_path)
    for i in range(5):
        trust.see(i * 0.2, 0.2)
    assert trust.level == pytest.approx(1.0)


def test_when_most_of_a_fleet_is_silent_nobody_is_called_lost_for_longer():
    assert patience(MANY, MANY - 1) == PATIENCE
    assert patience(MANY, MANY) == 1.0
    assert patience(MANY - 1, 0) == 1.0  # too few to tell
