import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.agent.errors import Malformed, Unsupported
from trimtab.agent.host import Host
from trimtab.agent.probes import run_queue, usable_cpus
from trimtab.agent.probes.reading import Reading
from trimtab.agent.probes.run_queue import RunQueue

S = 1_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"cpu 1 2 3 4\nprocs_running 12\nprocs_blocked 0\n", 12),
        (b"cpu 1 2 3 4\nprocs_running 0", 0),  # OpenVZ does not count us
        (b"cpu 1 2 3 4\n", None),
        (b"", None),
    ],
)
def test_procs_running_is_found_or_absent(text: bytes, expected: int | None) -> None:
    assert run_queue.parse_stat(text) == expected


@pytest.mark.parametrize("text", [b"", b"0.1 0.2 0.3\n", b"0.1 0.2 0.3 x/9 1\n"])
def test_a_loadavg_without_running_tasks_is_malformed(text: bytes) -> None:
    with pytest.raises(Malformed):
        run_queue.parse_loadavg(text)


def test_the_average_starts_at_the_first_value() -> None:
    assert run_queue.smooth(None, 5.0, 0) == 5.0


def test_a_step_has_gone_all_but_1_in_e_of_the_way_after_tau() -> None:
    assert run_queue.smooth(0.0, 1.0, S) == pytest.approx(1 - 1 / math.e)


@given(
    st.floats(0, 1e6),
    st.floats(0, 1e6),
    st.integers(0, 10 * S),
    st.integers(0, 10 * S),
)
def test_two_short_intervals_weigh_as_one_long(
    before: float, value: float, first_us: int, second_us: int
) -> None:
    halfway = run_queue.smooth(before, value, first_us)
    twice = run_queue.smooth(halfway, value, second_us)
    once = run_queue.smooth(before, value, first_us + second_us)
    assert twice == pytest.approx(once, abs=1e-6)
    assert min(before, value) - 1e-6 <= once <= max(before, value) + 1e-6


def test_we_are_not_part_of_the_queue_we_measure(fixtures: Path) -> None:
    host = Host(fixtures / "ordinary/proc", fixtures / "ordinary/sys")
    # 7 running, we among them, on 4 CPUs of which one is isolated.
    assert RunQueue().sample(host, 0) == {"cpu.run_queue": Reading(6 / 3)}
    host.close()


def test_a_host_that_counts_nobody_has_no_queue(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu 1 2 3 4\ncpu0 1 2 3 4\nprocs_running 0\n")
    host = Host(tmp_path, tmp_path)
    assert RunQueue().sample(host, 0) == {"cpu.run_queue": Reading(0.0)}
    host.close()


def test_without_procs_running_loadavg_is_read_and_named(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu 1 2 3 4\ncpu0 1 2 3 4\n")
    (tmp_path / "loadavg").write_text("9.00 8.00 7.00 5/210 4321\n")
    host = Host(tmp_path, tmp_path)
    answer = RunQueue().sample(host, 0)["cpu.run_queue"]
    assert isinstance(answer, Reading)
    assert answer.value == 4.0
    assert "loadavg" in answer.note
    host.close()


def test_a_control_group_has_no_run_queue_of_its_own(fixtures: Path) -> None:
    host = Host(fixtures / "ordinary/proc", fixtures / "ordinary/sys", "/a/b")
    with pytest.raises(Unsupported, match="whole host only, and /a/b"):
        RunQueue().sample(host, 0)


def test_without_either_file_it_is_unsupported(tmp_path: Path) -> None:
    with pytest.raises(Unsupported):
        RunQueue().sample(Host(tmp_path, tmp_path), 0)


def test_cpus_that_come_later_are_counted(tmp_path: Path) -> None:
    (tmp_path / "devices/system/cpu").mkdir(parents=True)
    online = tmp_path / "devices/system/cpu/online"
    online.write_text("0\n")
    (tmp_path / "stat").write_text("cpu 1 2 3 4\nprocs_running 9\n")
    host, probe = Host(tmp_path, tmp_path), RunQueue()
    assert probe.sample(host, 0) == {"cpu.run_queue": Reading(8.0)}
    online.write_text("0-3\n")
    later = probe.sample(host, usable_cpus.EVERY_US)
    assert later == {"cpu.run_queue": Reading(2.0)}
    host.close()
