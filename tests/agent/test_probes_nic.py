from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.trees import Tree

from trimtab.agent.errors import Malformed, Unsupported
from trimtab.agent.host import Host
from trimtab.agent.probes import network, nic, softnet
from trimtab.agent.probes.network import Nic, choose, parse_routes, parse_routes6
from trimtab.agent.probes.nic import CHOOSE_EVERY_US, Counters, NicTraffic
from trimtab.agent.probes.reading import Reading
from trimtab.agent.probes.softnet import Softnet

S = 1_000_000
HEAD = "Inter-|   Receive  |  Transmit\n face |bytes packets errs\n"


def dev(**nics: tuple[int, int, int, int]) -> str:
    """Return net/dev of interfaces with bytes in, bytes out, errors, drops."""
    rows = (
        f"{name:>6}: {into:7} 1 {errors} {drops} 0 0 0 0 {out} 1 0 0 0 0 0 0\n"
        for name, (into, out, errors, drops) in nics.items()
    )
    return HEAD + "".join(rows)


def physical(name: str, speed: str = "1000", state: str = "up") -> dict[str, str]:
    folder = f"sys/class/net/{name}"
    return {
        f"{folder}/device/uevent": "",
        f"{folder}/speed": f"{speed}\n",
        f"{folder}/operstate": f"{state}\n",
    }


def virtual(name: str) -> dict[str, str]:
    folder = f"sys/class/net/{name}"
    return {f"{folder}/operstate": "up\n", f"{folder}/speed": "10000\n"}


ROUTE = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("eth0 00000000 0102A8C0 0003 0 0 0 00000000 0 0 0\n", {"eth0"}),
        ("eth0 0002A8C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n", set()),
        ("eth0 00000000 00000000 0001 0 0 0 00000080 0 0 0\n", set()),  # 0/1 of a VPN
        ("eth0 00000000 00000000 0200 0 0 0 00000000 0 0 0\n", set()),  # reject
        ("eth0 00000000\nwg0 00000000 0 1 0 0 0 0 0 0 0\n", {"wg0"}),
        ("eth0 00000000 0 zz 0 0 0 00000000 0 0 0\n", set()),
    ],
)
def test_a_default_route_of_ipv4_names_its_interface(
    rows: str, expected: set[str]
) -> None:
    assert parse_routes((ROUTE + rows).encode()) == expected


ZERO = "0" * 32


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (f"{ZERO} 00 {ZERO} 00 fe80{'0' * 28} 400 2 0 00000003 eth0", {"eth0"}),
        (f"{ZERO} 00 {ZERO} 00 {ZERO} ffffffff 1 0 00200200 lo", set()),
        (f"fe80{'0' * 28} 40 {ZERO} 00 {ZERO} 100 2 0 00000001 eth0", set()),
    ],
)
def test_a_default_route_of_ipv6_names_its_interface(
    row: str, expected: set[str]
) -> None:
    """A46."""
    assert parse_routes6(f"{row}\n".encode()) == expected


def test_physical_interfaces_are_chosen_and_nothing_upon_them(tmp_path: Path) -> None:
    """A30."""
    tree = Tree(tmp_path, physical("enp1s0") | physical("enp2s0", "10000"))
    for name in (
        "br0",
        "bond0",
        "enp1s0.7",
        "veth12ab",
        "docker0",
        "lo",
        "wg0",
        "tun0",
    ):
        tree.write(virtual(name))
    tree.write({"proc/net/route": ROUTE + "br0 00000000 1 3 0 0 0 00000000 0 0 0\n"})
    assert choose(tree.host()) == (
        Nic("enp1s0", up=True, speed_mbit=1000),
        Nic("enp2s0", up=True, speed_mbit=10000),
    )


def test_a_virtual_function_behind_its_interface_is_not_counted_twice(
    tmp_path: Path,
) -> None:
    """A30: as accelerated networking of Hyper-V has it."""
    tree = Tree(tmp_path, physical("eth0") | physical("enP1s1"))
    tree.write({"sys/class/net/eth0/lower_enP1s1": ""})
    assert [nic.name for nic in choose(tree.host())] == ["eth0"]


def test_in_a_container_the_default_route_s_interface_is_chosen(tmp_path: Path) -> None:
    """A30."""
    tree = Tree(tmp_path, virtual("eth0") | virtual("eth1") | virtual("lo"))
    tree.write({"proc/1/net/route": ROUTE + "eth0 00000000 1 3 0 0 0 00000000 0 0 0\n"})
    assert [nic.name for nic in choose(tree.host())] == ["eth0"]


def test_the_network_namespace_of_pid_1_is_read_if_it_can_be(tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"proc/net/dev": "ours", "proc/1/net/dev": "the host's"})
    assert network.proc_net(tree.host(), "dev") == b"the host's"
    (tmp_path / "proc/1/net/dev").unlink()
    assert network.proc_net(tree.host(), "dev") == b"ours"


@pytest.mark.parametrize(
    ("speed", "state", "expected"),
    [
        ("1000", "up", Nic("eth0", True, 1000)),
        ("-1", "up", Nic("eth0", True, None)),  # virtio
        ("0", "up", Nic("eth0", True, None)),
        ("4294967295", "up", Nic("eth0", True, None)),  # -1 of old drivers
        ("fast", "up", Nic("eth0", True, None)),
        ("1000", "unknown", Nic("eth0", True, 1000)),
        ("1000", "down", Nic("eth0", False, None)),
    ],
)
def test_an_interface_s_speed_is_known_or_none(
    tmp_path: Path, speed: str, state: str, expected: Nic
) -> None:
    tree = Tree(tmp_path, physical("eth0", speed, state))
    assert network.read(tree.host(), "eth0") == expected


def test_a_name_is_found_whole_whatever_names_are_like_it() -> None:
    text = dev(eth0=(1, 2, 3, 4), veth0=(5, 6, 7, 8), th0=(9, 9, 9, 9)).encode()
    assert nic.parse(text, "eth0") == Counters(1, 2, 3, 4)
    assert nic.parse(text, "veth0") == Counters(5, 6, 7, 8)
    assert nic.parse(text, "eth1") is None
    squeezed = b"\n  eth0:123 1 0 0 0 0 0 0 456 1 0 0 0 0 0 0\n"  # old kernels
    assert nic.parse(squeezed, "eth0") == Counters(123, 456, 0, 0)


def test_a_line_of_net_dev_cut_short_is_malformed() -> None:
    with pytest.raises(Malformed, match="eth0"):
        nic.parse(b"\n  eth0: 1 2 3\n", "eth0")


@pytest.mark.parametrize(
    ("before", "after", "elapsed_us", "speed_mbit", "expected"),
    [
        ((0, 0), (62_500_000, 1000), S, 1000, 0.5),
        ((0, 0), (1000, 125_000_000), S, 1000, 1.0),
        ((0, 0), (62_500_000, 62_500_000), S, 1000, 0.5),  # full duplex
        ((0, 0), (250_000_000, 0), S, 1000, 1.0),  # counted before the wire
        ((9, 0), (0, 12_500_000), S, 1000, 0.1),  # one counter was reset
        ((9, 9), (0, 0), S, 1000, None),
        ((0, 0), (9, 9), 0, 1000, None),
    ],
)
def test_utilisation_is_that_of_the_busier_direction(
    before: tuple[int, int],
    after: tuple[int, int],
    elapsed_us: int,
    speed_mbit: int,
    expected: float | None,
) -> None:
    found = nic.utilisation(
        Counters(*before, 0, 0), Counters(*after, 0, 0), elapsed_us, speed_mbit
    )
    assert found == (None if expected is None else pytest.approx(expected))


def test_the_worst_interface_counts_and_faults_are_summed(tmp_path: Path) -> None:
    tree = Tree(tmp_path, physical("a") | physical("b", "100") | virtual("br0"))
    host, probe = tree.host(), NicTraffic()
    tree.write({"proc/net/dev": dev(a=(0, 0, 0, 0), b=(0, 0, 0, 0), br0=(0,) * 4)})
    assert set(probe.sample(host, 0).values()) == {Reading(None)}
    moved = {"a": (12_500_000, 0, 2, 0), "b": (0, 6_250_000, 3, 7), "br0": (9,) * 4}
    tree.write({"proc/net/dev": dev(**moved)})
    assert probe.sample(host, S) == {
        "nic.utilisation": Reading(0.5, "b, 100 Mbit/s"),
        "nic.errors": Reading(5.0),
        "nic.drops": Reading(7.0),
    }
    host.close()


def test_an_interface_that_came_or_was_reset_does_not_spoil_the_others(
    tmp_path: Path,
) -> None:
    tree = Tree(tmp_path, physical("a") | physical("b") | physical("c"))
    host, probe = tree.host(), NicTraffic()
    tree.write({"proc/net/dev": dev(a=(0, 0, 0, 0), b=(500, 500, 500, 500))})
    probe.sample(host, 0)
    later = dev(a=(0, 0, 4, 6), b=(0, 0, 0, 0), c=(90, 90, 90, 90))
    tree.write({"proc/net/dev": later})
    answers = probe.sample(host, 2 * S)
    assert (answers["nic.errors"], answers["nic.drops"]) == (Reading(2.0), Reading(3.0))
    host.close()


def test_without_a_known_speed_utilisation_alone_is_unsupported(tmp_path: Path) -> None:
    tree = Tree(tmp_path, physical("eth0", "-1") | {"proc/net/dev": dev(eth0=(0,) * 4)})
    host, probe = tree.host(), NicTraffic()
    probe.sample(host, 0)
    answers = probe.sample(host, S)
    assert isinstance(answers["nic.utilisation"], Unsupported)
    assert "eth0" in str(answers["nic.utilisation"])
    assert answers["nic.drops"] == Reading(0.0)
    host.close()


def test_interfaces_are_chosen_anew_now_and_then(tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"proc/net/dev": dev(eth0=(0,) * 4)})
    host, probe = tree.host(), NicTraffic()
    assert all(
        isinstance(answer, Unsupported) for answer in probe.sample(host, 0).values()
    )
    tree.write(physical("eth0"))
    probe.sample(host, CHOOSE_EVERY_US)
    answers = probe.sample(host, CHOOSE_EVERY_US + S)
    assert answers["nic.utilisation"] == Reading(0.0, "eth0, 1000 Mbit/s")
    host.close()


def test_softnet_drops_are_the_second_column_in_hex_over_all_cpus(
    tmp_path: Path,
) -> None:
    tree = Tree(tmp_path)
    host, probe = tree.host(), Softnet()
    row = "0000ffff {:08x} 00000000 00000000\n"
    tree.write({"proc/net/softnet_stat": row.format(10) + row.format(0)})
    assert probe.sample(host, 0) == {"nic.softnet_drops": Reading(None)}
    tree.write({"proc/net/softnet_stat": row.format(0x1A) + row.format(4)})
    assert probe.sample(host, 2 * S) == {"nic.softnet_drops": Reading(10.0)}
    tree.write({"proc/net/softnet_stat": row.format(3)})  # a CPU left
    assert probe.sample(host, 3 * S) == {"nic.softnet_drops": Reading(None)}
    host.close()


@given(st.binary(max_size=80))
def test_any_bytes_are_softnet_counts_or_malformed(text: bytes) -> None:
    try:
        assert softnet.parse(text) >= 0
    except Malformed:
        return
    assert text.strip()  # nothing is not zero


def test_this_very_host_has_its_network_read() -> None:
    host, probe = Host(), NicTraffic()
    answers = probe.sample(host, 0)
    host.close()
    assert set(answers) == set(probe.signals)
    assert not any(nic.name == "lo" for nic in choose(host))
