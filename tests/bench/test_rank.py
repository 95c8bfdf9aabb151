"""The rank correlation and the slope that verdicts rest on."""

import random

import pytest
from bench.rank import ranks, spearman
from bench.soak import judge, slope
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], []),
        ([30, 10, 20], [3, 1, 2]),
        ([5, 5, 1, 9], [2.5, 2.5, 1, 4]),
        ([7, 7, 7], [2, 2, 2]),
    ],
)
def test_equal_values_share_their_mean_rank(values, expected):
    assert ranks(values) == expected


@pytest.mark.parametrize(
    ("xs", "ys", "expected"),
    [
        ([1, 2, 3, 4], [1, 8, 27, 64], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        # Kendall and Gibbons, IQ against hours of television: -29/165.
        (
            [106, 100, 86, 101, 99, 103, 97, 113, 112, 110],
            [7, 27, 2, 50, 28, 29, 20, 12, 6, 17],
            -29 / 165,
        ),
        ([1, 2, 2, 3], [1, 2, 3, 4], 4.5 / 22.5**0.5),  # by hand: a tie
        ([1, None, 3, 4], [1, 5, 2, 3], 1.0),  # a window without a reading
        ([1, 1, 1], [1, 2, 3], None),  # never changed
        ([1, 2], [1, 2], None),  # too few
    ],
)
def test_spearman_is_the_correlation_of_ranks_or_nothing(xs, ys, expected):
    assert spearman(xs, ys) == (expected and pytest.approx(expected))


@given(st.lists(st.tuples(st.integers(), st.integers()), min_size=3))
def test_spearman_is_symmetric_and_bounded(pairs):
    xs, ys = zip(*pairs, strict=True)
    rho = spearman(xs, ys)
    assert rho == spearman(ys, xs)
    assert rho is None or -1 - 1e-9 <= rho <= 1 + 1e-9


def test_a_slope_is_not_moved_by_an_outlier():
    points = [(float(x), 3.0 * x) for x in range(20)]
    points[10] = (10.0, 1e9)
    assert slope(points) == pytest.approx(3.0)
    assert slope([(1.0, 5.0)]) == 0.0


def sizes(**grows):
    """Points of 20,000 samples, noisy by a few pages, growing as told."""
    rng = random.Random(1)
    flat = {"pss_kib": 12_000, "private_kib": 9_000, "descriptors": 20, "threads": 1}
    return [
        {"samples": n * 200}
        | {
            what: round(size + grows.get(what, 0) * n * 200)
            + (4 * rng.randrange(8) if what.endswith("kib") else 0)
            for what, size in flat.items()
        }
        for n in range(1, 101)
    ]


@pytest.mark.parametrize(
    ("grows", "expected"),
    [
        ({}, []),
        ({"private_kib": 24 / 1024}, ["private memory"]),  # a float a sample
        ({"private_kib": 2 / 1024}, []),  # less than any object
        ({"pss_kib": 1.0}, []),  # others stopped sharing the interpreter
        ({"descriptors": 0.001}, ["descriptors"]),
        ({"threads": 0.001}, ["threads"]),
    ],
)
def test_a_leak_of_the_smallest_object_is_growth_and_noise_is_not(grows, expected):
    assert judge(sizes(**grows))["grew"] == expected
