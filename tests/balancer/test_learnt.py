"""Weights learnt from the outcomes of real workers and machines."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from trimtab.balancer.service import Service

from .learnt import Learnt, away, followed, losses, right_weights, swing, usual_weights
from .recorded import Done, vm_runs, worker_steps


def learner() -> Callable[[Done], Mapping[str, float]]:
    """Learn as a router does: what is expected of a node is the fleet's mean."""
    nodes: dict[str, Service] = {}
    fleet = [0.0, 0.0]

    def learn(done: Done) -> dict[str, float]:
        fleet[0] += done.service_s
        fleet[1] += 1
        expected = fleet[0] / fleet[1]
        nodes.setdefault(done.node, Service()).note(done.service_s, done.at_s)
        return {n: own.slowness(expected, done.at_s) for n, own in nodes.items()}

    return learn


def track_of(done: list[Done]) -> list[Learnt]:
    """Return the weights from when every node was heard of."""
    nodes = len({each.node for each in done})
    return [t for t in followed(done, learner()) if len(t.weights) == nodes]


@pytest.mark.parametrize(
    "job",
    [
        1,
        2,
        pytest.param(
            4, marks=pytest.mark.xfail(reason="leans on the mean of unlike nodes")
        ),
    ],
)
def test_the_weights_of_real_workers_come_within_5_percent(
    recordings: Path, job: int
) -> None:
    done = worker_steps(recordings, job)
    found = away(usual_weights(track_of(done), after_s=0), right_weights(done))
    assert len(found) == 10
    assert max(abs(share) for share in found.values()) <= 0.05


def test_only_the_true_straggler_loses_weight_in_its_window_and_recovers(
    recordings: Path,
) -> None:
    done = worker_steps(recordings, 1)
    own = [each.at_s for each in done if each.node == "6"]
    begins, ends = own[181], own[194]  # by the recording's description
    found = losses(track_of(done), 0.1)
    assert set(found) == {"6"}
    assert begins <= min(found["6"]) <= ends
    assert max(found["6"]) <= ends + 10  # seconds of ten workers' steps


@pytest.mark.parametrize(
    ("metric", "a_second"),
    [
        ("cpu_events_per_s", 60),
        ("cpu_stress_bogo_ops_per_s", 60),
        ("pg_read_only_25c_tps", 60),
        ("redis_get_per_s", 600),  # noise of over 4 % takes more to learn from
    ],
)
def test_noise_of_real_machines_moves_no_weight_by_4_percent(
    recordings: Path, metric: str, a_second: float
) -> None:
    done = vm_runs(recordings, metric, lower_is_better=False, a_second=a_second)
    track = track_of(done[:12_000])
    settled_s = track[-1].at_s / 10
    right = right_weights(done)
    found = away(usual_weights(track, settled_s), right)
    assert max(abs(share) for share in found.values()) <= 0.05
    assert max(swing(track, settled_s).values()) <= 0.04


def test_weights_that_stay_even_are_seen_to_be_wrong(recordings: Path) -> None:
    done = worker_steps(recordings, 2)
    blind = followed(done, lambda _: {str(worker): 1.0 for worker in range(10)})
    found = away(usual_weights(blind, 0), right_weights(done))
    assert max(abs(share) for share in found.values()) > 0.1
    assert losses(blind, 0.1) == {}
