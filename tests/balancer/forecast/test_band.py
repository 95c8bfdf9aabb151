"""The band is as wide as forecasts were wrong."""

import random

import pytest

from trimtab.balancer.forecast.band import COVERAGE, FEWEST, KEPT, Bands
from trimtab.balancer.forecast.record import HORIZONS


def missed(misses: list[float]) -> Bands:
    """Bands after forecasts of 0 that missed by so much."""
    bands = Bands()
    for miss in misses:
        bands.put(miss)
        bands.say([0.0] * len(HORIZONS))
    return bands


def test_the_ends_are_the_outer_ranks_of_the_misses() -> None:
    misses = [float(n) for n in range(200)]
    random.Random(1).shuffle(misses)
    width = missed([0.0, *misses]).width(0)
    # ceil(201 * 0.95) = 191: the 191st from either end.
    assert width == (9.0, 190.0)


def test_a_load_that_only_jumps_up_has_its_band_above() -> None:
    width = missed([100.0 if n % 9 == 0 else 0.0 for n in range(180)]).width(0)
    assert width is not None
    assert width.low == 0.0
    assert width.high == 100.0


def test_no_band_is_told_from_too_few_misses() -> None:
    bands = missed([1.0] * FEWEST)  # the first is before any forecast
    assert bands.width(0) is None
    bands.put(1.0)
    assert bands.width(0) == (1.0, 1.0)


@pytest.mark.parametrize("shape", ["normal", "laplace", "skewed"])
def test_the_band_holds_nine_of_ten_of_any_noise(shape: str) -> None:
    rng = random.Random(7)
    draw = {
        "normal": lambda: rng.gauss(0.0, 1.0),
        "laplace": lambda: rng.expovariate(1.0) * rng.choice((-1, 1)),
        "skewed": lambda: rng.expovariate(1.0) ** 2,
    }[shape]
    bands = missed([draw() for _ in range(KEPT + 1)])
    inside = 0
    for _ in range(3000):
        width = bands.width(0)
        assert width is not None
        miss = draw()
        inside += width.low <= miss <= width.high
        bands.put(miss)
        bands.say([0.0] * len(HORIZONS))
    assert inside / 3000 == pytest.approx(COVERAGE, abs=0.03)
