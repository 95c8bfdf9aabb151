"""Fleets that are drawn from before anybody looks: the answers stay the same."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.balancer import (
    Admin,
    Decision,
    Mode,
    Node,
    NoFit,
    Outcome,
    Pick,
    Router,
    Settings,
    Snapshot,
    State,
    Task,
    parse_task,
)


def node(number: int, **more: Any) -> Node:
    plain = Node(f"{number:032x}", f"n{number}", sampled_at=0.0, cpu=0.8, slots=4)
    return plain._replace(**more)


def router(nodes: list[Node], seed: int = 1, **options: Any) -> Router:
    made = Router(Random(seed), Settings(**options))
    made.update(Snapshot.of(nodes, version=7))
    return made


def routed(made: Router, task: Task, now: float = 0.0) -> Decision:
    answer = made.route(task, now)
    assert isinstance(answer, Decision)
    return answer


def test_where_hardly_a_node_fits_all_are_looked_at() -> None:
    nodes = [node(i, labels={"disk": "fast"} if i == 77 else {}) for i in range(100)]
    answer = routed(router(nodes), parse_task({"labels": {"disk": "fast"}}))
    assert answer.node == "n77"
    assert answer.looked_at == 100
    (entry,) = answer.filtered
    assert (entry.rule, entry.nodes) == ("labels.disk", 99)


def test_an_answer_says_what_was_left_out_of_the_drawn() -> None:
    nodes = [node(i, groups=(f"rack{i % 4}",)) for i in range(200)]
    made = router(nodes)
    task = parse_task({"avoid": ["rack1"]})
    answers = [routed(made, task) for _ in range(20)]
    assert all(8 <= answer.looked_at <= 24 for answer in answers)
    drawn = Counter(f.rule for answer in answers for f in answer.filtered)
    assert set(drawn) == {"avoid"}
    (entry,) = made.filtered(answers[0]) or ()
    assert (entry.rule, entry.nodes) == ("avoid", 50)  # of all, for who asks


def test_what_is_asked_in_full_comes_from_the_snapshot_it_was_decided_on() -> None:
    nodes = [node(i) for i in range(100)]
    made = router(nodes, snapshots=2)
    answer = routed(made, Task())
    drained = [n._replace(admin=Admin.DRAINED) for n in nodes[:50]] + nodes[50:]
    made.update(Snapshot.of(drained, version=8))
    assert made.filtered(answer) == ()
    made.update(Snapshot.of(drained, version=9))
    assert made.filtered(answer) is None


def test_a_verdict_is_kept_until_what_it_rests_on_changes() -> None:
    nodes = [node(i, memory_free_mib=1000) for i in range(30)]
    fleet = Snapshot.of(nodes, version=1)
    made = Router(Random(1), Settings())
    made.update(fleet)
    task = parse_task({"memory_mib": 500})
    for _ in range(50):
        routed(made, task)
    full = tuple(1000 if i < 3 else 10 for i in range(30))
    made.update(fleet.renewed(2, 0.0, memory_free_mib=full))
    assert {routed(made, task).node for _ in range(50)} <= {"n0", "n1", "n2"}
    admin = tuple(Admin.DRAINED if i == 0 else Admin.ACTIVE for i in range(30))
    made.update(fleet.renewed(3, 0.0, memory_free_mib=full, admin=admin))
    assert {routed(made, task).node for _ in range(50)} <= {"n1", "n2"}


states = st.sampled_from(State)
steps = st.lists(
    st.tuples(st.integers(0, 39), states, st.sampled_from(Admin), st.integers(0, 9)),
    min_size=1,
    max_size=12,
)


@given(steps, st.integers(0, 99))
@settings(max_examples=60)
def test_never_a_drained_lost_or_tombstoned_node_however_states_change(
    history: list[tuple[int, State, Admin, int]], seed: int
) -> None:
    fleet = Snapshot.of([node(i) for i in range(40)])
    made = Router(Random(seed), Settings())
    made.update(fleet)
    now = 0.0
    for row, state, admin, failures in history:
        now += 0.3
        places = range(40)
        fleet = fleet.renewed(
            fleet.version + 1,
            now,
            states=tuple(state if i == row else fleet.states[i] for i in places),
            admin=tuple(admin if i == row else fleet.admin[i] for i in places),
        )
        made.update(fleet)
        for attempt in range(4):
            answer = made.route(Task(), now)
            if isinstance(answer, NoFit):
                continue
            place = fleet.by_id[answer.node_id]
            assert fleet.admin[place] is Admin.ACTIVE
            assert fleet.states[place] not in (State.LOST, State.SLEEPING)
            if attempt < failures:
                made.close(answer.id, Outcome.ERROR, now)


def fail(made: Router, name: str, now: float = 0.0) -> None:
    ident = f"{int(name[1:]):032x}"
    for _ in range(5):
        made.board.ended(ident, ok=False, slowness=None, now=now)


@pytest.mark.parametrize("size", [10, 60])
def test_an_ejected_node_gets_nothing_until_its_time_is_over(size: int) -> None:
    made = router([node(i) for i in range(size)])
    routed(made, Task())
    fail(made, "n3")
    answers = [routed(made, Task(), 0.01 + i / 100) for i in range(200)]
    assert "n3" not in {answer.node for answer in answers}
    rules = {entry.rule for answer in answers for entry in answer.filtered}
    assert rules == {"ejected"}
    back = {routed(made, Task(), 20.0).node for _ in range(200)}
    assert "n3" in back


@pytest.mark.parametrize("size", [10, 60])
def test_b10_when_the_bound_holds_back_an_ejection_headroom_is_not_believed(
    size: int,
) -> None:
    made = router([node(i) for i in range(size)])
    for i in range(size // 2):
        fail(made, f"n{i}")
    answer = routed(made, Task())
    assert answer.mode is Mode.PANIC
    assert routed(made, Task(), 6.0).mode is Mode.NORMAL


@pytest.mark.parametrize("size", [10, 60])
@pytest.mark.parametrize("state", [State.STALE, State.LOST])
def test_b11_a_class_that_fails_closed_gets_no_doubtful_node(
    size: int, state: State
) -> None:
    nodes = [node(i, state=state) for i in range(size)]
    made = router(nodes, fail_closed=frozenset({"training"}))
    closed = made.route(parse_task({"class": "training"}), 0.0)
    assert isinstance(closed, NoFit)
    assert f"{size} of {size} are {state.value}" in closed.sentence
    opened = made.route(Task(), 0.0)
    if state is State.LOST:
        assert isinstance(opened, NoFit)
    else:
        assert isinstance(opened, Decision)
        assert opened.mode is Mode.SPILL


def test_b24_when_all_are_stale_leases_alone_decide() -> None:
    nodes = [node(i, state=State.STALE, cpu=i / 8) for i in range(8)]
    made = router(nodes)
    counts = Counter(routed(made, Task()).node for _ in range(32))
    assert set(counts.values()) == {4}


def test_b09_stale_nodes_are_spilt_to_before_anything_panics() -> None:
    nodes = [node(i, state=State.STALE) for i in range(5)]
    drained = [node(i, admin=Admin.DRAINED) for i in range(5, 30)]
    assert routed(router(nodes + drained), Task()).mode is Mode.SPILL


def test_b18_a_node_that_is_not_ready_is_no_usable_capacity() -> None:
    full = [node(i, state=State.SATURATED) for i in range(20)]
    ready = [node(i) for i in range(20, 30)]
    assert routed(router(full + ready), Task()).mode is Mode.PANIC


@pytest.mark.parametrize("size", [4, 40])
def test_b20_fast_errors_attract_nothing(size: int) -> None:
    made = router([node(i) for i in range(size)])
    bad = f"{0:032x}"
    now, sent = 0.0, 0
    for step in range(400):
        now = step / 1000
        answer = made.pick(Task(), now)
        assert isinstance(answer, Pick)
        if answer.node_id == bad:
            sent += 1
            made.close(answer.id, Outcome.ERROR, now, service_ms=0.1)
        else:
            made.close(answer.id, Outcome.OK, now, service_ms=50.0)
    assert sent <= 5  # then it is ejected
    assert made.board.node(bad).service.slowness(1.0, now) == 1.0


@pytest.mark.parametrize("size", [4, 40])
def test_a_black_hole_is_seen_by_its_overdue_answers_before_any_timeout(
    size: int,
) -> None:
    made = router([node(i, slots=2) for i in range(size)])
    hole = f"{0:032x}"
    opened: list[tuple[float, str]] = []
    sent = 0
    for step in range(3000):
        now = step / 1000
        while opened and opened[0][0] <= now:
            made.close(opened.pop(0)[1], Outcome.OK, now, service_ms=50.0)
        if step % 20 == 0 or (size == 40 and step % 2 == 0):
            answer = made.pick(Task(), now)
            assert isinstance(answer, Pick)
            if answer.node_id == hole:
                sent += 1
            else:
                opened.append((now + 0.05, answer.id))
    assert 0 < sent <= 4


@pytest.mark.parametrize("size", [4, 40])
def test_b21_a_node_that_joins_is_not_flooded(size: int) -> None:
    old = [node(i) for i in range(size)]
    made = router(old)
    for i in range(size):
        for _ in range(2):
            made.board.node(f"{i:032x}").service.note(1.0, 0.0)
    made.update(Snapshot.of([*old, node(size)], version=8, at=1.0))
    answers = [routed(made, Task(), 1.0) for _ in range(size)]
    got = sum(answer.node == f"n{size}" for answer in answers)
    assert got <= 2


fleets = st.lists(
    st.tuples(st.integers(1, 8), st.floats(0.3, 3), st.floats(0, 30)),
    min_size=2,
    max_size=8,
)


@given(fleets, st.data())
@settings(max_examples=50)
def test_lowering_one_nodes_cost_never_lowers_its_share(
    sizes: list[tuple[int, float, float]], data: st.DataObject
) -> None:
    """A burst of 40: a faster or nearer node gets as many of it at least."""
    place = data.draw(st.integers(0, len(sizes) - 1))

    def got(speedup: float, nearer: float) -> int:
        nodes = [
            node(
                i,
                slots=slots,
                speed=speed * speedup if i == place else speed,
                rtt_p95_ms=rtt * nearer if i == place else rtt,
            )
            for i, (slots, speed, rtt) in enumerate(sizes)
        ]
        made = router(nodes)
        return sum(routed(made, Task()).node == f"n{place}" for _ in range(40))

    assert got(1.5, 1.0) >= got(1.0, 1.0) - 1  # equals are decided by chance
    assert got(1.0, 0.5) >= got(1.0, 1.0) - 1


@given(st.integers(0, 1000))
@settings(max_examples=20)
def test_the_same_seed_makes_the_same_picks_in_a_large_fleet(seed: int) -> None:
    def picks() -> list[tuple[str, str]]:
        made = router([node(i, cpu=i / 100) for i in range(100)], seed)
        found = []
        for step in range(60):
            now = step / 50
            answer = made.pick(Task(), now)
            assert isinstance(answer, Pick)
            found.append((answer.id, answer.node_id))
            if step % 2:
                made.close(answer.id, Outcome.OK, now, service_ms=40.0)
        return found

    assert picks() == picks()


def test_pick_and_route_choose_alike() -> None:
    nodes = [node(i, groups=(f"r{i % 3}",)) for i in range(50)]
    one, other = router(nodes), router(nodes)
    for _ in range(30):
        picked = one.pick(Task(), 0.0)
        assert isinstance(picked, Pick)
        assert picked.node_id == routed(other, Task()).node_id


def test_a_proxy_gets_nothing_for_who_is_out_and_keeps_who_is_silent() -> None:
    made = router(
        [
            node(0, cpu=1.0),
            node(1, admin=Admin.DRAINING),
            node(2, state=State.STALE),
            node(3, cpu=0.1),
            node(4),
        ]
    )
    fail(made, "n4")
    levels = {int(ident, 16): level for ident, level in made.levels(0.0).items()}
    assert levels == {0: 1.0, 1: 0.0, 2: None, 3: pytest.approx(0.1), 4: 0.0}
