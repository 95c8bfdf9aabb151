from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.agent.errors import Malformed, Unsupported
from trimtab.agent.host import Host
from trimtab.agent.probes import cpu_time
from trimtab.agent.probes.cpu_busy import CpuBusy
from trimtab.agent.probes.cpu_time import Shares, Spent, Ticks
from trimtab.agent.probes.reading import Reading

BASE = Ticks(1000, 100, 500, 80_000, 200, 10, 20, 30, 400, 40)
S = 1_000_000


def stat(*cpus: Ticks, first: int = 0, tail: str = "intr 5 1 2\nctxt 9\n") -> bytes:
    """Return a stat file of these CPUs, and their sum."""
    columns = zip(*(tuple(cpu) for cpu in cpus), strict=True)
    rows = [("cpu", tuple(sum(filter(None, column)) for column in columns))]
    rows += [(f"cpu{first + n}", tuple(cpu)) for n, cpu in enumerate(cpus)]
    text = "".join(f"{name} {' '.join(map(str, row))}\n" for name, row in rows)
    return (text + tail).encode()


def between(before: bytes, after: bytes, elapsed_us: int) -> Shares | None:
    return cpu_time.between(cpu_time.look(before), cpu_time.look(after), elapsed_us)


def test_guest_time_is_not_counted_twice() -> None:
    after = BASE._replace(user=BASE.user + 50, guest=BASE.guest + 50, idle=80_050)
    assert cpu_time.spent(BASE, after, 1) == Spent(idle=50, busy=50, steal=0)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"user": 25, "idle": 75}, Spent(75, 25, 0)),
        ({"idle": 90, "iowait": -2}, Spent(88, 0, 0)),  # one sleep, moved
        ({"iowait": -3}, Spent(0, 0, 0)),  # A28: a small step back
        ({"user": -1, "system": 5, "idle": 96}, Spent(96, 5, 0)),
        ({"idle": -300}, Spent(0, 0, 0)),  # 3 s: still a small one
        ({"idle": -301}, None),  # A28: a reset
        ({"user": -5000, "idle": 90}, None),
        ({"steal": -1_000_000, "idle": 99}, Spent(99, 0, -1_000_000)),
    ],
)
def test_a_small_step_back_is_nothing_and_a_large_one_a_reset(
    step: dict[str, int], expected: Spent | None
) -> None:
    values = BASE._asdict()
    after = Ticks(**{name: value + step.get(name, 0) for name, value in values.items()})
    assert cpu_time.spent(BASE, after, 1) == expected


@pytest.mark.parametrize(
    ("spent", "expected"),
    [
        (Spent(75, 25, 0), Shares(0.25, 0.0)),
        (Spent(60, 20, 20), Shares(0.4, 0.2)),  # steal was wanted time: busy
        (Spent(0, 100, None), Shares(1.0, None)),  # before Linux 2.6.11
        (Spent(19, 0, -5), Shares(0.81, 0.0)),  # the clock stands in
        (Spent(120, 0, -5), Shares(0.0, 0.0)),
        (Spent(0, 0, 0), None),
    ],
)
def test_shares_are_of_all_time_or_no_reading(
    spent: Spent, expected: Shares | None
) -> None:
    found = cpu_time.shares(spent, S, 1)
    assert found == (expected and pytest.approx(expected))


def test_a_cpu_that_left_takes_no_part(fixtures: Path) -> None:
    before = (fixtures / "oddities/stat-before-cpu2-left").read_bytes()
    after = (fixtures / "oddities/stat-after-cpu2-left").read_bytes()
    # busy 4 + 2 + 2 of idle 96 + 98 + 98 more
    assert between(before, after, S) == pytest.approx((8 / 300, 0.0))


def test_a_cpu_that_joined_takes_no_part_in_the_first_interval() -> None:
    after = BASE._replace(user=BASE.user + 40, idle=BASE.idle + 60)
    newcomer = Ticks(5, 0, 5, 900_000, steal=0)
    assert between(stat(BASE), stat(after, newcomer), S) == Shares(0.4, 0.0)


def test_a_cpu_swapped_for_another_is_noticed_by_the_impossible_sum() -> None:
    idle = BASE._replace(idle=BASE.idle + 50, system=BASE.system + 50)
    before = stat(BASE, BASE, tail="")
    for other in (BASE._replace(idle=5_000_000), Ticks(1, 1, 1, 1, steal=0)):
        after = stat(idle, other, tail="").replace(b"cpu1", b"cpu7")
        assert between(before, after, S) == Shares(0.5, 0.0)


def test_an_impossible_step_of_every_cpu_is_no_reading() -> None:
    after = BASE._replace(idle=BASE.idle + 1_000_000)
    assert between(stat(BASE), stat(after), S) is None


def test_idle_that_went_back_over_a_suspend_is_no_reading() -> None:
    """A28."""
    after = BASE._replace(user=BASE.user + 70, idle=BASE.idle - 34_846)
    assert between(stat(BASE), stat(after), 7 * S) is None


def test_a_stat_without_a_line_per_cpu_gives_the_sum() -> None:
    before = b"cpu 100 0 0 100 0 0 0 0 0 0\nintr 1\n"
    after = b"cpu 500 0 0 500 0 0 0 0 0 0\nintr 1\n"  # 8 CPUs' worth
    assert between(before, after, S) == Shares(0.5, 0.0)


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"intr 1\n", b"cpu\n", b"cpu 1 2 3\n", b"cpu a b c d\n"]
)
def test_a_stat_without_its_first_line_is_malformed(text: bytes) -> None:
    with pytest.raises(Malformed):
        cpu_time.parse(text)


def test_openvz_lacks_the_guest_columns_and_has_an_empty_line(fixtures: Path) -> None:
    text = (fixtures / "oddities/stat-openvz").read_bytes()
    assert cpu_time.parse(text) == Ticks(7000, 0, 1500, 13_000_000_000, 150, 0, 0, 0)
    assert sorted(cpu_time.parse_cpus(text)) == [0, 1]
    assert cpu_time.count_cpus(text) == 2


def test_a_kernel_without_a_steal_column_still_gives_busy(tmp_path: Path) -> None:
    host, probe = Host(tmp_path, tmp_path), CpuBusy()
    (tmp_path / "stat").write_text("cpu 0 0 0 0\ncpu0 0 0 0 0\n")
    probe.sample(host, 0)
    (tmp_path / "stat").write_text("cpu 10 0 0 90\ncpu0 10 0 0 90\n")
    answers = probe.sample(host, S)
    assert answers["cpu.busy"] == Reading(1 - 90 / 100)
    assert isinstance(answers["cpu.steal"], Unsupported)
    host.close()


def test_512_cpus_are_read_by_their_sum() -> None:
    """A04."""
    after = BASE._replace(user=BASE.user + 30, idle=BASE.idle + 70)
    tail = f"intr 1{' 0' * 20_000}\nctxt 5\nprocs_running 3\nsoftirq 1 2\n"
    texts = [stat(*[cpu] * 512, tail=tail) for cpu in (BASE, after)]
    assert len(texts[0]) > 60_000
    assert cpu_time.count_cpus(texts[0]) == 512
    assert between(texts[0], texts[1], S) == pytest.approx((0.3, 0.0))


ticks = st.builds(Ticks, *[st.integers(0, 2**64)] * 7, steal=st.integers(0, 2**64))


@given(
    st.lists(ticks, min_size=1, max_size=4),
    st.lists(ticks, min_size=1, max_size=4),
    st.integers(-5, 10**12),
)
def test_whatever_the_counters_do_a_share_is_a_share(
    before: list[Ticks], after: list[Ticks], elapsed_us: int
) -> None:
    found = between(stat(*before), stat(*after), elapsed_us)
    if found is not None:
        assert 0.0 <= found.busy <= 1.0
        assert found.steal is None or 0.0 <= found.steal <= found.busy + 1e-9
