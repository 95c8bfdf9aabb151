import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.agent.errors import Malformed
from trimtab.agent.probes import cpu_usage, memory_available, memory_events, refaults
from trimtab.agent.probes.throttle import Counters, parse, throttled_periods


def test_v2_counts_throttled_time_in_us_and_v1_in_ns() -> None:
    v2 = b"usage_usec 9\nnr_periods 10\nnr_throttled 4\nthrottled_usec 7000\n"
    v1 = b"nr_periods 10\nnr_throttled 4\nthrottled_time 7000999\n"
    assert parse(v2) == parse(v1) == Counters(10, 4, 7000)


@pytest.mark.parametrize("text", [b"", b"usage_usec 9\n", b"nr_periods x\n"])
def test_a_cpu_stat_without_throttling_is_malformed(text: bytes) -> None:
    with pytest.raises(Malformed):
        parse(text)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((100, 10), (110, 19), 0.9),
        ((100, 10), (110, 10), 0.0),
        ((100, 10), (100, 10), 0.0),  # idle
        ((100, 10), (101, 14), 1.0),  # the recorded 4 of 1 periods
        ((100, 10), (5, 1), None),  # another group of this name
        ((100, 10), (110, 9), None),
    ],
)
def test_throttled_periods_are_a_share_of_the_periods(
    before: tuple[int, int], after: tuple[int, int], expected: float | None
) -> None:
    assert throttled_periods(Counters(*before, 0), Counters(*after, 0)) == expected


counts = st.integers(0, 2**64)


@given(counts, counts, counts, counts)
def test_whatever_the_counters_do_periods_are_a_share(
    a: int, b: int, c: int, d: int
) -> None:
    found = throttled_periods(Counters(a, b, 0), Counters(c, d, 0))
    assert found is None or 0.0 <= found <= 1.0


def test_cpu_usage_is_read_in_us_of_either_version() -> None:
    assert cpu_usage.parse(b"usage_usec 95996653\nuser_usec 1\n") == 95_996_653
    assert cpu_usage.parse(b"95996653175\n") == 95_996_653
    with pytest.raises(Malformed):
        cpu_usage.parse(b"-1452543795404 1376681271659\n")


@pytest.mark.parametrize(
    ("used_us", "elapsed_us", "cpus", "expected"),
    [
        (200_000, 1_000_000, 0.2, 1.0),
        (100_000, 1_000_000, 0.2, 0.5),
        (250_000, 1_000_000, 0.2, 1.0),  # a burst, or the last period's rest
        (1_000_000, 1_000_000, 4, 0.25),
        (0, 0, 4, None),
        (-1, 1_000_000, 4, None),
    ],
)
def test_cpu_usage_is_a_share_of_what_may_be_used(
    used_us: int, elapsed_us: int, cpus: float, expected: float | None
) -> None:
    found = cpu_usage.share(10, 10 + used_us, elapsed_us, cpus)
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("limit", "used", "inactive_file", "expected"),
    [
        (100, 40, 0, 0.6),
        (100, 90, 50, 0.6),  # old file pages can be had back
        (100, 130, 0, 0.0),  # a limit lowered below the use
        (100, 20, 30, 1.0),  # read a moment apart
        (0, 0, 0, 0.0),
    ],
)
def test_what_a_memory_limit_leaves_is_a_share_of_it(
    limit: int, used: int, inactive_file: int, expected: float
) -> None:
    assert memory_available.left(limit, used, inactive_file) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"workingset_refault_anon 5\nworkingset_refault_file 7\n", 12),
        (b"x 1\nworkingset_refault 9\n", 9),  # before Linux 5.9
        (
            # v1: with the groups below
            b"""workingset_refault_file 1
total_workingset_refault_anon 2
total_workingset_refault_file 3
""",
            5,
        ),
        (b"pgmajfault 3\n", None),
    ],
)
def test_refaults_are_those_of_anon_and_file(text: bytes, expected: int | None) -> None:
    assert refaults.parse(text) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 4}, 3),
        ({"a": 1, "b": 10}, {"a": 4, "b": 12}, 5),
        ({"a": 1}, {"a": 4, "b": 12}, 3),  # a level that came: no events known
        ({}, {"a": 4}, None),
        ({"a": 4}, {"a": 1}, None),
    ],
)
def test_events_are_those_since_the_sample_before(
    before: dict[str, int], after: dict[str, int], expected: int | None
) -> None:
    name = memory_events.MAX

    def counted(counts: dict[str, int]) -> memory_events.Counts:
        return {(folder, name): count for folder, count in counts.items()}

    assert memory_events.events(counted(before), counted(after), name) == expected


def test_a_failcnt_that_is_no_number_is_malformed() -> None:
    with pytest.raises(Malformed, match="failcnt"):
        memory_events.parse_failcnt(b"\n")
