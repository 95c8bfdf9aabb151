"""Needs, seen where they act: which nodes a pool holds and what it says."""

import pytest

from trimtab.balancer import Node, Settings, Snapshot, State, parse_task
from trimtab.balancer.pool import build

PLAIN = Node("0a", "a", cpu=0.9, sampled_at=0.0)


def pool(task, *nodes):
    fleet = Snapshot.of(nodes)
    return fleet, build(fleet, parse_task(task), 0.0, Settings())


def fitting(task, *nodes):
    fleet, found = pool(task, *nodes)
    return [fleet.names[row] for row in found.rows]


def left_out(task, *nodes):
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
def test_a_node_fits_or_not(task, node, fits):
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
def test_an_unread_node_fits_only_when_no_read_one_does(task, column, value):
    unread = Node("0b", "unread", cpu=1.0, sampled_at=0.0)
    read = PLAIN._replace(**{column: value})
    assert fitting(task, unread, read) == ["a"]
    assert left_out(task, unread, read) == {"unread": 1}
    _, found = pool(task, unread)
    assert len(found.rows) == 1
    (said,) = found.relaxed
    assert said.startswith(next(iter(task)))
    assert found.filtered == ()


def test_b22_failover_avoids_the_node_and_its_risk_groups():
    failed = PLAIN._replace(groups=("rack1", "power1"))
    rack = Node("0b", "rack", groups=("rack1",))
    both = Node("0c", "both", groups=("rack1", "power1"))
    free = Node("0d", "free", groups=("rack2",))
    task = {"failover_from": "a"}
    assert fitting(task, failed, rack, both, free) == ["free"]
    assert fitting(task, failed, rack, both) == ["rack"]  # the fewest shared
    assert fitting(task, failed, both) == ["both"]
    assert fitting(task, failed) == []
    assert left_out(task, failed, rack, free) == {
        "failover_from": 1,
        "failover_groups": 1,
    }


def test_a_missing_reading_gives_before_a_shared_group_and_that_before_silence():
    failed = PLAIN._replace(groups=("r",), memory_free_mib=0)
    unread = Node("0b", "unread")
    shared = Node("0c", "shared", memory_free_mib=64, groups=("r",))
    stale = Node("0d", "stale", memory_free_mib=64, state=State.STALE)
    task = {"failover_from": "a", "memory_mib": 64}
    assert fitting(task, failed, stale, shared, unread) == ["unread"]
    assert fitting(task, failed, stale, shared) == ["shared"]
    assert fitting(task, failed, stale) == ["stale"]


def test_b19_names_that_match_nothing_are_said():
    _, found = pool({"failover_from": "gone", "avoid": ["a", "rack9"]}, PLAIN)
    assert found.idle_words == (
        "failover_from: no node 'gone'",
        "avoid: no node or group 'rack9'",
    )


def test_a_node_that_misses_two_needs_counts_for_both():
    node = PLAIN._replace(memory_free_mib=1, cpus=1)
    assert left_out({"memory_mib": 2, "cpu": 2}, node) == {"memory_mib": 1, "cpu": 1}


def test_what_was_compared_is_shown():
    nodes = [Node(f"{i}", f"n{i}", memory_free_mib=i) for i in range(5)]
    _, found = pool({"memory_mib": 64}, *nodes)
    (entry,) = found.filtered
    assert (entry.rule, entry.limit, entry.nodes) == ("memory_mib", 64.0, 5)
    assert entry.examples[2] == ("n2", 2)
    assert len(entry.examples) == 3
