import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.agent.errors import Malformed, Unsupported
from trimtab.agent.host import Host
from trimtab.agent.inventory import (
    boot_id,
    machine_hash,
    memory_mib,
    node_name,
    parse_cpuinfo,
    parse_cpulist,
    usable_cpus,
)
from trimtab.wire import NODE_NAME


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"0-3,5\n", {0, 1, 2, 3, 5}),
        (b"7", {7}),
        (b"1,3-5,9\n", {1, 3, 4, 5, 9}),
        (b"1,2-7,9\n", {1, 2, 3, 4, 5, 6, 7, 9}),
        (b"\n", set()),
        (b"", set()),
    ],
)
def test_a_cpu_list_is_ranges_and_numbers(text: bytes, expected: set[int]) -> None:
    assert parse_cpulist(text) == expected


@pytest.mark.parametrize("text", [b"x", b"3-1", b"-1", b"0-", b"0-99999999999", b"0 1"])
def test_a_list_that_is_none_is_malformed(text: bytes) -> None:
    with pytest.raises(Malformed):
        parse_cpulist(text)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_list_or_malformed(text: bytes) -> None:
    try:
        assert all(0 <= cpu < 65_536 for cpu in parse_cpulist(text))
    except Malformed:
        assert text.strip(b" \t\n\r\v\f,0123456789")


@pytest.mark.parametrize(("file", "cpus"), [("cpuinfo-arm", 2), ("cpuinfo-s390", 2)])
def test_cpuinfo_counts_processors_not_their_models(
    fixtures: Path, file: str, cpus: int
) -> None:
    assert parse_cpuinfo((fixtures / "oddities" / file).read_bytes()) == cpus


def host_of(folder: Path, files: dict[str, str]) -> Host:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Host(folder / "proc", folder / "sys")


ONLINE = "sys/devices/system/cpu/online"
ISOLATED = "sys/devices/system/cpu/isolated"
STAT = {"proc/stat": "cpu 1 1 1 1\ncpu0 1 1 1 1\ncpu4 1 1 1 1\nintr 5\n"}
CPUINFO = {"proc/cpuinfo": "processor : 0\nprocessor : 1\nprocessor : 2\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({ONLINE: "0-7\n", ISOLATED: "\n"} | STAT, 8),
        ({ONLINE: "0-7\n"} | STAT, 8),
        ({ONLINE: "0-3\n", ISOLATED: "1,3-5,9\n"} | STAT, 2),
        ({ONLINE: "0-3\n", ISOLATED: "0-3\n"} | STAT, 4),  # some must serve
        ({ONLINE: "0-3\n", ISOLATED: "junk\n"} | STAT, 4),
        ({ONLINE: "junk\n"} | STAT, 2),
        ({ISOLATED: "0\n"} | STAT, 2),
        (STAT | CPUINFO, 2),
        ({"proc/stat": "cpu 1 1 1 1\n"} | CPUINFO, 3),
        (CPUINFO, 3),
    ],
)
def test_usable_cpus_come_from_the_best_source_there_is(
    tmp_path: Path, files: dict[str, str], expected: int
) -> None:
    assert usable_cpus(host_of(tmp_path, files)) == expected


def test_a_host_that_lists_no_cpu_is_unsupported_not_zero(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="CPU"):
        usable_cpus(host_of(tmp_path, {"proc/cpuinfo": "Hardware : A board\n"}))


def test_memory_is_in_mib_or_unknown(fixtures: Path, tmp_path: Path) -> None:
    assert memory_mib(Host(fixtures / "no-psi/proc")) == 2048
    assert memory_mib(Host(tmp_path)) is None


def test_the_boot_id_is_the_kernel_s_or_random(fixtures: Path, tmp_path: Path) -> None:
    expected = bytes.fromhex("2b0c5d1e8a774a0e9c573f6f0d1f9a10")
    assert boot_id(Host(fixtures / "no-psi/proc")) == expected
    absent = Host(tmp_path)
    assert len(boot_id(absent)) == 16
    assert boot_id(absent) != boot_id(absent)


def test_the_machine_hash_is_that_of_systemd(tmp_path: Path) -> None:
    file = tmp_path / "machine-id"
    file.write_text("3d1219c7c4c5404aaa1f6d2a48adfda4\n")
    # From `systemd-id128 machine-id --app-specific=` of such a machine.
    assert machine_hash(file) == bytes.fromhex("dac164b34bad4be8be8f43f86d1cdbae")


@pytest.mark.parametrize(
    "text", ["", "uninitialized\n", "abcd\n", "0" * 32, "g" * 32, "é"]
)
def test_a_machine_without_an_id_has_no_hash(tmp_path: Path, text: str) -> None:
    file = tmp_path / "machine-id"
    file.write_text(text)
    assert machine_hash(file) is None
    assert machine_hash(tmp_path / "absent") is None


@pytest.mark.parametrize(
    ("hostname", "expected"),
    [
        ("web-1.example.org", "web-1.example.org"),
        ("Büro PC", "B-ro-PC"),
        ("-edge_", "edge"),
        ("localhost.", "localhost"),
        ("", "node"),
        ("東京", "node"),
        ("a" * 62 + "-b", "a" * 62),
    ],
)
def test_a_host_name_becomes_a_node_s(hostname: str, expected: str) -> None:
    assert node_name(hostname) == expected


@given(st.text(max_size=100))
def test_any_host_name_becomes_one_the_wire_takes(hostname: str) -> None:
    assert re.fullmatch(NODE_NAME, node_name(hostname))
