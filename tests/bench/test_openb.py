"""The replay of the recorded GPU cluster, against what was published."""

from pathlib import Path

import pytest
from bench import openb

# One seed of each policy here; the benchmark makes ten, on every task list.
POINTS = (50, 80, 90, 100, 130)


@pytest.mark.parametrize("policy", ["06-FGD", "05-BestFit"])
def test_a_replay_is_within_half_a_point_of_the_published_one(
    recordings: Path, policy: str
) -> None:
    folder = recordings / "openb-gpu-2023"
    known = openb.published(folder)
    run = openb.replay(folder, "default", policy, seed=11)
    for measure in ("alloc_pct", "frag_pct_of_total"):
        for at in POINTS:
            published = known[measure, "default", policy, at]
            assert run.figures[measure][at] == pytest.approx(published, abs=0.5)
