import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.balancer import (
    Admin,
    Closing,
    Decision,
    Mode,
    Node,
    NoFit,
    Outcome,
    Router,
    Settings,
    Snapshot,
    State,
    Task,
    parse_task,
)

SMALL = "have less than 64000 MiB of memory free"
PLAIN = Settings()
ANY = Task()
NEVER = {State.LOST, State.SLEEPING}


def node(number: int, **more: Any) -> Node:
    plain = Node(f"{number:032x}", f"n{number}", f"10.0.0.{number}:80")
    return plain._replace(sampled_at=0.0, cpu=0.8, slots=4)._replace(**more)


def router(nodes: list[Node], seed: int = 1, options: Settings = PLAIN) -> Router:
    made = Router(Random(seed), options)
    made.update(Snapshot.of(nodes, version=7))
    return made


def picked(made: Router, now: float = 0.0, task: Task = ANY) -> Decision:
    answer = made.route(task, now)
    assert isinstance(answer, Decision)
    return answer


rooms = st.none() | st.floats(0, 1)
fleets = st.lists(
    st.builds(
        Node,
        id=st.just(""),
        name=st.just(""),
        state=st.sampled_from(State),
        admin=st.sampled_from(Admin) | st.just(Admin.ACTIVE),
        sampled_at=st.none() | st.floats(-100, 0),
        cpu=rooms,
        memory=rooms,
        network=rooms,
        gpu=rooms,
        slots=st.integers(0, 8),
        speed=st.floats(0.1, 4),
        memory_free_mib=st.none() | st.floats(0, 4096),
        gpus=st.none() | st.integers(0, 2),
        gpu_free_mib=st.none() | st.floats(0, 4096),
        rtt_p95_ms=st.none() | st.floats(0, 100),
        groups=st.lists(st.sampled_from(["r1", "r2", "p1"]), unique=True).map(tuple),
    ),
    max_size=40,
).map(
    lambda nodes: [
        each._replace(id=f"{i:032x}", name=f"n{i}") for i, each in enumerate(nodes)
    ]
)
tasks = st.fixed_dictionaries(
    {},
    optional={
        "class": st.sampled_from(["interactive", "training"]),
        "memory_mib": st.floats(1, 4096),
        "gpus": st.integers(0, 2),
        "gpu_memory_mib": st.floats(1, 4096),
        "latency_budget_ms": st.floats(1, 300),
        "avoid": st.lists(st.sampled_from(["n1", "r1", "nobody"])),
        "failover_from": st.sampled_from(["n0", "n1", "nobody"]),
    },
).map(parse_task)


def misses(each: Node, task: Task) -> bool:
    """Whether a reading of this node says that it can't run the task."""
    return (
        (task.memory_mib or 0) > (each.memory_free_mib or 1e9)
        or (task.gpu_memory_mib or 0) > (each.gpu_free_mib or 1e9)
        or (each.gpus is not None and each.gpus < (task.gpus or 0))
        or (each.gpus == 0 and task.gpu_memory_mib is not None)
        or (each.rtt_p95_ms or 0) > 0.3 * (task.latency_budget_ms or 1e9)
        or bool({each.name, each.id, *each.groups} & set(task.avoid))
        or each.name == task.failover_from
    )


@given(fleets, tasks, st.integers(0, 3))
@settings(max_examples=300)
def test_no_pick_breaks_a_rule_and_one_is_made_if_any_may_be(
    nodes: list[Node], task: Task, seed: int
) -> None:
    # 0.0 free would read as "any" in misses(): it is no need's exact limit.
    nodes = [
        each._replace(
            memory_free_mib=each.memory_free_mib or None,
            gpu_free_mib=each.gpu_free_mib or None,
        )
        for each in nodes
    ]
    made = router(nodes, seed, Settings(full_scan=10))
    allowed = [
        each
        for each in nodes
        if each.admin is Admin.ACTIVE
        and each.state not in NEVER
        and each.slots > 0
        and not misses(each, task)
    ]
    answer = made.route(task, now=1.0)
    json.dumps(answer.to_json(), allow_nan=False)
    if isinstance(answer, NoFit):
        assert not allowed
        return
    names = {each.name for each in allowed}
    assert answer.node in names
    assert {other.node for other in answer.alternatives} <= names - {answer.node}
    states = {each.name: each.state for each in nodes}
    fresh = {name for name in names if states[name] is not State.STALE}
    if fresh:
        assert answer.node in fresh
        assert answer.mode is not Mode.SPILL
    else:
        assert answer.mode is Mode.SPILL
        assert any(said.startswith("stale") for said in answer.relaxed)


@given(fleets, st.integers(0, 1000))
def test_the_same_seed_makes_the_same_picks(nodes: list[Node], seed: int) -> None:
    def picks() -> list[dict[str, object]]:
        made = router(nodes, seed, Settings(full_scan=5))
        return [made.route(Task(), i / 10).to_json() for i in range(5)]

    assert picks() == picks()


@pytest.mark.parametrize("options", [Settings(), Settings(full_scan=0)])
def test_b23_a_burst_between_two_reports_spreads(options: Settings) -> None:
    nodes = [node(i, cpu=0.8) for i in range(7)] + [node(7, cpu=0.85)]
    made = router(nodes, options=options)
    picks = Counter(picked(made, 0.5).node for _ in range(32))
    assert len(picks) == 8
    assert max(picks.values()) <= 8  # twice an even share


def test_a_burst_fills_nodes_by_what_they_can_do() -> None:
    made = router([node(0, slots=2), node(1, slots=8), node(2, slots=8, cpu=0.1)])
    picks = Counter(picked(made).node for _ in range(12))
    assert picks["n1"] > picks["n0"]
    assert picks["n1"] > picks["n2"]


def test_a_single_pick_goes_where_there_is_room() -> None:
    made = router([node(0, cpu=0.1), node(1, cpu=0.9)])
    for _ in range(20):
        answer = picked(made)
        assert answer.node == "n1"
        made.close(answer.id, Outcome.OK, now=0.0)


def test_b29_b21_an_unmeasured_node_counts_as_the_middle_of_its_pool() -> None:
    joining = node(9, cpu=1.0, state=State.JOINING)  # whatever it read
    unknown = node(8, cpu=None, sampled_at=None, state=State.UNKNOWN)
    nodes = [node(0, cpu=0.2), node(1, cpu=0.6), node(2, cpu=0.9), joining, unknown]
    answer = picked(router(nodes))
    costs = {each.node: each.cost_ms for each in answer.candidates}
    assert costs["n9"] == costs["n8"] == costs["n1"]
    assert answer.node == "n2"


def test_b29_an_unmeasured_path_counts_as_the_middle_of_its_pool() -> None:
    nodes = [node(0, rtt_p95_ms=1.0), node(1), node(2, rtt_p95_ms=9.0)]
    answer = picked(router(nodes))
    costs = {each.node: each.cost_ms for each in answer.candidates}
    assert costs["n1"] == pytest.approx((costs["n0"] + costs["n2"]) / 2)
    assert {each.rtt_ms for each in answer.candidates} == {1.0, None, 9.0}


def test_b10_panic_ignores_headroom_and_says_so() -> None:
    full = [node(i, cpu=0.0, state=State.SATURATED) for i in range(3)]
    drained = node(8, admin=Admin.DRAINED)
    made = router([*full, node(3, cpu=0.9), drained, node(9, state=State.LOST)])
    answers = [picked(made) for _ in range(16)]
    assert {answer.to_json()["why"]["mode"] for answer in answers} == {"panic"}
    # By capacity alone; never the drained and the lost one.
    assert Counter(a.node for a in answers) == dict.fromkeys(
        ("n0", "n1", "n2", "n3"), 4
    )
    assert len({each.cost_ms for each in answers[0].candidates}) == 1


def test_half_of_the_capacity_is_no_panic() -> None:
    nodes = [node(0, cpu=0.0, state=State.SATURATED), node(1)]
    assert picked(router(nodes)).mode is Mode.NORMAL


def test_panic_takes_no_stale_node_while_another_fits() -> None:
    nodes = [node(i, state=State.STALE) for i in range(5)] + [node(5)]
    made = router(nodes)
    answers = [picked(made) for _ in range(50)]
    assert {(a.mode, a.node) for a in answers} == {(Mode.PANIC, "n5")}


def test_b19_fields_that_change_nothing_are_named() -> None:
    task = parse_task({"egress_mib": 5, "data": ["m"], "avoid": ["gone"], "cpu": 0})
    answer = picked(router([node(0)]), 0.0, task)
    assert answer.to_json()["why"]["unused"] == [
        "data",
        "egress_mib",
        "avoid: no node or group 'gone'",
    ]


@pytest.mark.parametrize(
    ("nodes", "task", "said"),
    [
        ([], {}, "No node fits: the fleet is empty."),
        ([node(0, admin=Admin.DRAINED)], {}, "No node fits: 1 of 1 is drained."),
        (
            [node(i, memory_free_mib=100) for i in range(7)]
            + [node(i, admin=Admin.DRAINING) for i in (7, 8)],
            {"memory_mib": 64000},
            f"No node fits: 7 of 9 {SMALL}; 2 of 9 are draining.",
        ),
        ([node(0, slots=0)], {}, "No node fits: 1 of 1 has no slots."),
    ],
)
def test_no_fit_says_how_many_nodes_failed_which_need(
    nodes: list[Node], task: Task, said: str
) -> None:
    answer = router(nodes).route(parse_task(task), now=0.0)
    assert isinstance(answer, NoFit)
    assert answer.to_json()["detail"] == said


def test_a_router_that_has_seen_no_snapshot_has_no_fleet() -> None:
    assert isinstance(Router(Random(1)).route(Task(), now=0.0), NoFit)


def test_an_outcome_closes_the_lease_once() -> None:
    made = router([node(0)])
    answer = picked(made)
    assert made.load(answer.node_id, 1.0).in_flight == 1
    assert made.close(answer.id, Outcome.ERROR, 1.0) is Closing.CLOSED
    assert made.close(answer.id, Outcome.OK, 1.0) is Closing.REPEATED
    assert made.outcome(answer.id) is Outcome.ERROR
    assert made.close("never", Outcome.OK, 1.0) is Closing.UNKNOWN
    assert made.load(answer.node_id, 1.0).in_flight == 0


@pytest.mark.parametrize(("duration_s", "ttl_s"), [(None, 30), (1, 30), (40, 80)])
def test_b26_a_lease_without_outcome_expires(
    duration_s: float | None, ttl_s: float
) -> None:
    made = router([node(0)])
    answer = picked(made, 5.0, Task(duration_s=duration_s))
    assert answer.expires_at == 5.0 + ttl_s
    assert answer.to_json()["expires_ms"] == ttl_s * 1000
    assert made.load(answer.node_id, 5.0 + ttl_s).in_flight == 0
    late = 6.0 + ttl_s
    assert made.close(answer.id, Outcome.OK, late) is Closing.EXPIRED
    assert made.close(answer.id, Outcome.OK, late) is Closing.REPEATED


def test_leases_outlive_a_snapshot_and_a_node_that_left_it() -> None:
    made = router([node(0)])
    answer = picked(made)
    made.update(Snapshot.of([node(1)], version=8, at=1.0))
    assert picked(made, 1.0).node == "n1"
    assert made.load(answer.node_id, 1.0).in_flight == 1
    assert made.close(answer.id, Outcome.OK, 2.0) is Closing.CLOSED


def test_a_new_snapshot_decides_at_once() -> None:
    made = router([node(0), node(1, cpu=0.1)])
    assert picked(made).node == "n0"
    drained = node(0, admin=Admin.DRAINING)
    made.update(Snapshot.of([drained, node(1, cpu=0.1)], version=8))
    answer = picked(made)
    assert (answer.node, answer.snapshot) == ("n1", 8)


def test_trust_goes_on_fading_without_a_new_snapshot() -> None:
    made = router([node(0, cpu=1.0)])
    picked(made)
    (candidate,) = picked(made, 300.0).candidates
    assert candidate.used == pytest.approx(0.5, abs=0.001)
    assert (candidate.headroom, candidate.age_ms) == (1.0, 300_000)


def test_decisions_are_remembered_up_to_a_bound() -> None:
    made = router([node(0)], options=Settings(remembered=2))
    answers = [picked(made) for _ in range(3)]
    assert [made.decision(answer.id) for answer in answers] == [None, *answers[1:]]
    # Its lease is still open, and its outcome is still taken.
    assert made.close(answers[0].id, Outcome.OK, 1.0) is Closing.CLOSED


def test_an_answer_names_where_to_go_next_outside_the_risk_groups() -> None:
    nodes = [node(0, slots=8, groups=("r1",))]
    nodes += [node(1, groups=("r1",)), node(2, groups=("r2",)), node(3)]
    answer = picked(router(nodes))
    assert answer.node == "n0"
    assert {other.node for other in answer.alternatives} == {"n2", "n3"}
    assert answer.to_json()["alternatives"][0].keys() == {"node", "address"}


def test_an_answer_explains_its_cost() -> None:
    json_answer = picked(router([node(0, rtt_p95_ms=2.0)]), 0.5).to_json()
    assert len(json_answer["decision"]) == 16
    assert json_answer["score"] == 0.8
    why = json_answer["why"]
    assert (why["task"], why["snapshot"]) == ({"class": "interactive"}, 7)
    (candidate,) = why["candidates"]
    assert candidate["state"] == "healthy"
    assert (candidate["limiting"], candidate["age_ms"]) == ("cpu", 500.0)
    assert (candidate["in_flight"], candidate["slots"]) == (0, 4)


def test_the_gpu_counts_only_for_a_task_that_asks_for_one() -> None:
    busy = node(0, cpu=0.9, gpu=0.0, gpus=1, gpu_free_mib=100)
    idle = node(1, cpu=0.5, gpu=1.0, gpus=1, gpu_free_mib=100)
    assert picked(router([busy, idle])).node == "n0"
    assert picked(router([busy, idle]), 0.0, Task(gpus=1)).node == "n1"


def test_a_sampled_fleet_sends_in_proportion_to_its_room() -> None:
    nodes = [node(i, cpu=0.9 if i < 50 else 0.1) for i in range(100)]
    made = router(nodes)
    picks = Counter(int(picked(made).node[1:]) < 50 for _ in range(200))
    assert picks[True] > 150  # 100 if reports counted for nothing
