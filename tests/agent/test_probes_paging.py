from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.agent.errors import Unsupported
from trimtab.agent.host import Host
from trimtab.agent.probes import paging
from trimtab.agent.probes.paging import PAGE_BYTES, Paging
from trimtab.agent.probes.reading import Reading


@pytest.mark.parametrize(
    ("before", "after", "elapsed_us", "expected"),
    [
        (10, 30, 2_000_000, 10.0),
        (10, 10, 1_000_000, 0.0),
        (30, 10, 1_000_000, None),  # counter reset
        (0, 5, 0, None),
    ],
)
def test_a_rate_is_per_second_or_no_reading(
    before: int, after: int, elapsed_us: int, expected: float | None
) -> None:
    assert paging.rate(before, after, elapsed_us) == expected


@given(st.integers(0, 2**64), st.integers(0, 2**64), st.integers(-5, 2**50))
def test_a_rate_is_never_negative(before: int, after: int, elapsed_us: int) -> None:
    value = paging.rate(before, after, elapsed_us)
    assert value is None or value >= 0.0


def test_swapping_is_in_bytes_and_faults_are_faults(tmp_path: Path) -> None:
    host, probe = Host(tmp_path, tmp_path), Paging()
    (tmp_path / "vmstat").write_text("pswpin 100\npswpout 0\npgmajfault 7\n")
    assert set(probe.sample(host, 0).values()) == {Reading(None)}
    (tmp_path / "vmstat").write_text("pswpin 110\npswpout 40\npgmajfault 9\n")
    assert probe.sample(host, 2_000_000) == {
        "memory.swap_in": Reading(5.0 * PAGE_BYTES),
        "memory.swap_out": Reading(20.0 * PAGE_BYTES),
        "memory.major_faults": Reading(1.0),
    }
    host.close()


def test_a_kernel_without_swap_swaps_nothing(tmp_path: Path) -> None:
    (tmp_path / "vmstat").write_text("pgmajfault 7\n")
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nSwapTotal: 0 kB\n")
    host, probe = Host(tmp_path, tmp_path), Paging()
    probe.sample(host, 0)
    assert probe.sample(host, 1_000_000)["memory.swap_in"] == Reading(0.0)
    host.close()


def test_missing_counters_where_there_is_swap_are_unsupported_not_zero(
    tmp_path: Path,
) -> None:
    (tmp_path / "vmstat").write_text("pgmajfault 7\n")
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nSwapTotal: 50 kB\n")
    host = Host(tmp_path, tmp_path)
    answers = Paging().sample(host, 0)
    assert isinstance(answers["memory.swap_in"], Unsupported)
    assert isinstance(answers["memory.swap_out"], Unsupported)
    assert answers["memory.major_faults"] == Reading(None)
    host.close()
