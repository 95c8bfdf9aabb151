from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.agent.errors import Malformed, Unsupported
from trimtab.agent.host import Host
from trimtab.agent.probes import psi
from trimtab.agent.probes.cpu_stall import CpuStall
from trimtab.agent.probes.memory_stall import MemoryStall
from trimtab.agent.probes.psi import Pressure
from trimtab.agent.probes.reading import Reading


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        # A11: either line may be missing
        ("pressure-some-only", Pressure(111222333444, None)),
        ("pressure-full-only", Pressure(None, 8494)),
        # A16: an average of 300 % can't be, and is not read
        ("pressure-above-100", Pressure(114514, 0)),
    ],
)
def test_a_pressure_file_is_read_line_by_line(
    fixtures: Path, file: str, expected: Pressure
) -> None:
    assert psi.parse((fixtures / "oddities" / file).read_bytes()) == expected


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"some total=5\n",
        b"some avg10=0.00 avg60=0.00 avg300=0.00 total=-5\n",
        # one line damaged, the other whole
        b"some\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
        b"most avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
        b"\xff\xfe",
    ],
)
def test_a_damaged_pressure_file_is_malformed(text: bytes) -> None:
    with pytest.raises(Malformed):
        psi.parse(text)


@pytest.mark.parametrize(
    ("before_us", "after_us", "elapsed_us", "expected"),
    [
        (0, 250_000, 1_000_000, 0.25),
        (0, 1_100_000, 1_000_000, 1.0),  # kernel accounting can overshoot
        (900, 100, 1_000_000, None),  # counter reset
        (0, 0, 0, None),  # first sample
        (5, 5, 1_000_000, 0.0),
    ],
)
def test_pressure_is_a_share_or_no_reading(
    before_us: int, after_us: int, elapsed_us: int, expected: float | None
) -> None:
    assert psi.pressure(before_us, after_us, elapsed_us) == expected


@given(st.integers(0, 2**63), st.integers(0, 2**63), st.integers(-5, 2**40))
def test_pressure_is_never_outside_zero_to_one(
    before_us: int, after_us: int, elapsed_us: int
) -> None:
    value = psi.pressure(before_us, after_us, elapsed_us)
    assert value is None or 0.0 <= value <= 1.0


def test_a_kernel_without_psi_is_unsupported_and_the_boot_flag_is_named(
    fixtures: Path,
) -> None:
    """A10, A12."""
    with pytest.raises(Unsupported, match="pressure/cpu") as caught:
        psi.read(Host(fixtures / "no-psi/proc"), "cpu")
    assert "psi=1" in caught.value.mend


def test_stall_goes_by_the_total_whatever_the_averages_say(tmp_path: Path) -> None:
    """A13."""
    (tmp_path / "pressure").mkdir()
    file = tmp_path / "pressure/cpu"
    file.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n")
    host, probe = Host(tmp_path, tmp_path), CpuStall()
    assert probe.sample(host, 0) == {"cpu.stall": Reading(None)}
    file.write_text("some avg10=0.05 avg60=0.00 avg300=0.00 total=1800000\n")
    assert probe.sample(host, 2_000_000) == {"cpu.stall": Reading(0.4)}
    host.close()


def test_a_failed_read_stretches_the_interval_to_the_next(tmp_path: Path) -> None:
    (tmp_path / "pressure").mkdir()
    file = tmp_path / "pressure/cpu"
    host, probe = Host(tmp_path, tmp_path), CpuStall()
    file.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    probe.sample(host, 0)
    file.write_text("")
    with pytest.raises(Malformed):
        probe.sample(host, 1_000_000)
    file.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n")
    assert probe.sample(host, 2_000_000) == {"cpu.stall": Reading(0.25)}
    host.close()


def test_memory_without_a_full_line_still_gives_some(tmp_path: Path) -> None:
    """A11."""
    (tmp_path / "pressure").mkdir()
    file = tmp_path / "pressure/memory"
    host, probe = Host(tmp_path, tmp_path), MemoryStall()
    file.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    probe.sample(host, 0)
    file.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=10000\n")
    answers = probe.sample(host, 1_000_000)
    assert answers["memory.stall_some"] == Reading(0.01)
    assert isinstance(answers["memory.stall_full"], Unsupported)
    host.close()


def test_cpu_pressure_without_a_some_line_is_unsupported(
    tmp_path: Path, fixtures: Path
) -> None:
    (tmp_path / "pressure").mkdir()
    only_full = (fixtures / "oddities/pressure-full-only").read_bytes()
    (tmp_path / "pressure/cpu").write_bytes(only_full)
    host = Host(tmp_path, tmp_path)
    answer = CpuStall().sample(host, 0)["cpu.stall"]
    assert isinstance(answer, Unsupported)
    assert "'some'" in str(answer)
    host.close()
