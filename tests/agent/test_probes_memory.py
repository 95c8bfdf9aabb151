from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.agent.errors import Malformed
from trimtab.agent.host import Host
from trimtab.agent.probes import lines, memory_available
from trimtab.agent.probes.memory_available import LIMIT_KIB, Meminfo, MemoryAvailable
from trimtab.agent.probes.reading import Reading


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("meminfo-openvz", Meminfo(1_000_000, 800_000, estimated=True)),
        ("meminfo-estimated", Meminfo(8_000_000, 3_500_000, estimated=True)),
        ("meminfo-table-header", Meminfo(200_000, 150_000, estimated=False)),
        ("meminfo-no-blank", Meminfo(16_000_000, 14_000_000, estimated=False)),
        ("meminfo-wrapped-swap", Meminfo(4_000_000, 2_000_000, estimated=False)),
    ],
)
def test_odd_forms_of_meminfo_are_read(
    fixtures: Path, file: str, expected: Meminfo
) -> None:
    text = (fixtures / "oddities" / file).read_bytes()
    assert memory_available.parse(text) == expected


def meminfo(**kib: int) -> bytes:
    return "".join(f"{name}: {value} kB\n" for name, value in kib.items()).encode()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"MemTotal:\n",
        b"MemTotal: many kB\n",
        meminfo(MemFree=5),
        meminfo(MemTotal=5),
        meminfo(MemTotal=0, MemFree=0),
        meminfo(MemTotal=100, MemFree=10, MemAvailable=101),
        meminfo(MemTotal=100, MemFree=101, MemAvailable=50),
        meminfo(MemTotal=100, MemFree=2**64 - 128),
        meminfo(MemTotal=LIMIT_KIB + 1, MemFree=1, MemAvailable=1),
    ],
)
def test_what_cannot_be_is_malformed(text: bytes) -> None:
    """A16."""
    with pytest.raises(Malformed):
        memory_available.parse(text)


def test_16_eb_of_memory_cannot_be(fixtures: Path) -> None:
    """A16."""
    with pytest.raises(Malformed, match="18014398509481984"):
        memory_available.parse((fixtures / "oddities/meminfo-16-eb").read_bytes())


@given(
    st.integers(1, LIMIT_KIB),
    st.integers(0, LIMIT_KIB),
    st.integers(0, 2**64),
    st.integers(0, 2**64),
)
def test_an_estimate_is_between_what_is_free_and_what_is_there(
    total: int, free: int, cached: int, shmem: int
) -> None:
    free = min(free, total)
    text = meminfo(MemTotal=total, MemFree=free, Cached=cached, Shmem=shmem)
    found = memory_available.parse(text)
    assert found.estimated
    assert free <= found.available_kib <= total
    assert 0.0 <= memory_available.available(found) <= 1.0


def test_the_share_is_read_from_the_first_sample_on(fixtures: Path) -> None:
    host = Host(fixtures / "no-psi/proc")
    assert MemoryAvailable().sample(host, 0) == {"memory.available": Reading(0.5)}
    host.close()


def test_an_estimate_says_so(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_bytes(meminfo(MemTotal=100, MemFree=25))
    host = Host(tmp_path, tmp_path)
    answer = MemoryAvailable().sample(host, 0)["memory.available"]
    assert isinstance(answer, Reading)
    assert answer.value == 0.25
    assert answer.note.startswith("estimated")
    host.close()


@pytest.mark.parametrize(
    ("text", "label", "expected"),
    [
        (b"Cached: 5 kB\n", b"Cached:", 5),
        (b"SwapCached: 9 kB\nCached:     5 kB\n", b"Cached:", 5),
        (b"SwapCached: 9 kB\n", b"Cached:", None),
        (b"A: 1\nShadow:12345678 kB", b"Shadow:", 12345678),
        (b"pswpin 7\n", b"pswpin ", 7),
        (b"pswpin_more 7\n", b"pswpin ", None),
    ],
)
def test_a_label_is_a_line_s_whole_beginning(
    text: bytes, label: bytes, expected: int | None
) -> None:
    assert lines.number(text, label) == expected


@pytest.mark.parametrize("text", [b"A:\nB: 5\n", b"A: -5 kB\n", b"A: 1e5\n", b"A:"])
def test_a_label_without_a_number_is_malformed(text: bytes) -> None:
    with pytest.raises(Malformed):
        lines.number(text, b"A:")
