"""Needs, seen where they act: which nodes a pool holds and what it says."""

from typing import Any

import pytest

from trimtab.balancer import Node, Settings, Snapshot, State, parse_task
from trimtab.balancer.needs import idle_words
from trimtab.balancer.pool import Pool, build

PLAIN = Node("0a", "a", cpu=0.9, sampled_at=0.0)


def pool(task: dict[str, object], *nodes: Node) -> tuple[Snapshot, Pool]:
    fleet = Snapshot.of(nodes)
    return fleet, build(fleet, parse_task(task), Settings(), lambda _: False)


def fitting(task: dict[str, object], *nodes: Node) -> list[str]:
    fleet, found = pool(task, *nodes)
    return [fleet.names[row] for row in found.rows]


def left_out(task: dict[str, object], *nodes: Node) -> dict[str, int]:
    _, found = pool(task, *nodes)
    return {entry.rule: entry.nodes for entry in found.filtered}


GPU = PLAIN._replace(gpu=0.9, gpus=2, gpu_free_mib=20_000)


@pytest.mark.parametrize(
    ("task", "node", "fits"),
    [
        ({"memory_mib": 512}, PLAIN._replace(memory_free_mib=512), True),
        ({"memory_mib": 512}, PLAIN._replace(memory_free_mib=511), False),
        ({"memory_mib": 0}, PLAIN._replace(memory_free_mib=0), True),
        ({"cpu": 2.5}, PLAIN._replace(cpus=4), True),
        ({"cpu": 2.5}, PLAIN._replace(cpus=2), False),
        ({"gpus": 2}, GPU, True),
        ({"gpus": 3}, GPU, False),
        ({"gpu_memory_mib": 20_000}, GPU, True),
        ({"gpu_memory_mib": 20_001}, GPU, False),
        # No device: its free memory is no open question.
        ({"gpu_memory_mib": 1}, PLAIN._replace(gpus=0), False),
        ({"gpu_memory_mib": 0}, PLAIN._replace(gpus=0), True),
        ({"latency_budget_ms": 100}, PLAIN._replace(rtt_p95_ms=30), True),
        ({"latency_budget_ms": 100}, PLAIN._replace(rtt_p95_ms=30.1), False),
        ({"labels": {"zone": "a"}}, PLAIN._replace(labels={"zone": "a"}), True),
        ({"labels": {"zone": "a"}}, PLAIN._replace(labels={"zone": "b"}), False),
        ({"labels": {"zone": "a"}}, PLAIN, False),  # absent is no open question
        ({"avoid": ["a"]}, PLAIN, False),
        ({"avoid": ["0a"]}, PLAIN, False),
        ({"avoid": ["rack1"]}, PLAIN._replace(groups=("rack1",)), False),
        ({"avoid": ["b"]}, PLAIN, True),
        ({"failover_from": "a"}, PLAIN, False),
        ({"failover_from": "0a"}, PLAIN, False),
        ({"data_mib": 1e9, "sticky": "x", "from": "nowhere"}, PLAIN, True),
    ],
)
def test_a_node_fits_or_not(task: dict[str, object], node: Node, fits: bool) -> None:
    assert fitting(task, node) == (["a"] if fits else [])


@pytest.mark.parametrize(
    ("task", "column", "value"),
    [
        ({"memory_mib": 512}, "memory_free_mib", 1024),
        ({"cpu": 1}, "cpus", 4),
        ({"gpus": 1}, "gpus", 1),
        ({"latency_budget_ms": 100}, "rtt_p95_ms", 1),
    ],
)
def test_an_unread_node_fits_only_when_no_read_one_does(
    task: dict[str, object], column: str, value: float
) -> None:
    unread = Node("0b", "unread", cpu=1.0, sampled_at=0.0)
    changes: dict[str, Any] = {column: value}
    read = PLAIN._replace(**changes)
    assert fitting(task, unread, read) == ["a"]
    assert left_out(task, unread, read) == {"unread": 1}
    _, found = pool(task, unread)
    assert len(found.rows) == 1
    (said,) = found.relaxed
    assert said.startswith(next(iter(task)))
    assert found.filtered == ()


def test_b22_failover_avoids_the_node_and_its_risk_groups() -> None:
    failed = PLAIN._replace(groups=("rack1", "power1"))
    rack = Node("0b", "rack", groups=("rack1",))
    both = Node("0c", "both", groups=("rack1", "power1"))
    free = Node("0d", "free", groups=("rack2",))
    task: dict[str, object] = {"failover_from": "a"}
    assert fitting(task, failed, rack, both, free) == ["free"]
    assert fitting(task, failed, rack, both) == ["rack"]  # the fewest shared
    assert fitting(task, failed, both) == ["both"]
    assert fitting(task, failed) == []
    assert left_out(task, failed, rack, free) == {
        "failover_from": 1,
        "failover_groups": 1,
    }


def test_missing_readings_give_first_then_shared_groups_then_freshness() -> None:
    failed = PLAIN._replace(groups=("r",), memory_free_mib=0)
    unread = Node("0b", "unread")
    shared = Node("0c", "shared", memory_free_mib=64, groups=("r",))
    stale = Node("0d", "stale", memory_free_mib=64, state=State.STALE)
    task: dict[str, object] = {"failover_from": "a", "memory_mib": 64}
    assert fitting(task, failed, stale, shared, unread) == ["unread"]
    assert fitting(task, failed, stale, shared) == ["shared"]
    assert fitting(task, failed, stale) == ["stale"]


def test_b19_names_that_match_nothing_are_said() -> None:
    task = parse_task({"failover_from": "gone", "avoid": ["a", "rack9"]})
    assert idle_words(Snapshot.of([PLAIN]), task) == (
        "failover_from: no node 'gone'",
        "avoid: no node or group 'rack9'",
    )


def test_a_node_that_misses_two_needs_counts_for_both() -> None:
    node = PLAIN._replace(memory_free_mib=1, cpus=1)
    assert left_out({"memory_mib": 2, "cpu": 2}, node) == {"memory_mib": 1, "cpu": 1}


def test_what_was_compared_is_shown() -> None:
    nodes = [Node(f"{i}", f"n{i}", memory_free_mib=i) for i in range(5)]
    _, found = pool({"memory_mib": 64}, *nodes)
    (entry,) = found.filtered
    assert (entry.rule, entry.limit, entry.nodes) == ("memory_mib", 64.0, 5)
    assert entry.examples[2] == ("n2", 2)
    assert len(entry.examples) == 3
