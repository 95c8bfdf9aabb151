from random import Random
from typing import Any

import pytest

from trimtab.balancer import (
    Admin,
    Decision,
    Node,
    Outcome,
    Router,
    Snapshot,
    State,
    Task,
)
from trimtab.balancer.sticky import Sticky

NODES = [Node(f"{i}", f"n{i}", slots=4) for i in range(6)]
STICKY = Task(sticky="user-7")


def routed(router: Router, task: Task = STICKY, now: float = 0.0) -> Decision:
    answer = router.route(task, now)
    assert isinstance(answer, Decision)
    return answer


def router(nodes: list[Node] = NODES) -> Router:
    made = Router(Random(1))
    made.update(Snapshot.of(nodes))
    return made


def test_a_key_goes_to_one_node() -> None:
    made = router()
    first = routed(made)
    answers = [routed(made) for _ in range(20)]
    assert {answer.node for answer in answers} == {first.node}
    assert not first.to_json()["why"]["sticky"]
    assert answers[0].to_json()["why"]["sticky"]


def test_b16_a_draining_node_keeps_its_keys_and_gets_nothing_new() -> None:
    made = router()
    stuck = routed(made).node
    draining = [
        n._replace(admin=Admin.DRAINING) if n.name == stuck else n for n in NODES
    ]
    made.update(Snapshot.of(draining, version=1))
    assert routed(made).node == stuck
    others = {routed(made, Task(sticky=f"new-{i}")).node for i in range(30)}
    assert stuck not in others
    assert len(others) == 5


@pytest.mark.parametrize(
    "change",
    [
        {"admin": Admin.DRAINED},  # its deadline is over
        {"admin": Admin.TOMBSTONED},
        {"state": State.LOST},
        {"slots": 0},
        {"memory_free_mib": 1},
    ],
)
def test_b16_a_key_moves_for_good_when_its_node_may_not_be_picked(
    change: dict[str, Any],
) -> None:
    nodes = [n._replace(memory_free_mib=1024) for n in NODES]
    task = Task(sticky="user-7", memory_mib=512)
    made = router(nodes)
    stuck = routed(made, task).node
    rows = [n._replace(**change) if n.name == stuck else n for n in nodes]
    made.update(Snapshot.of(rows, version=1))
    moved = routed(made, task).node
    assert moved != stuck
    made.update(Snapshot.of(nodes, version=2))
    assert routed(made, task).node == moved


def test_a_key_leaves_a_node_that_is_ejected() -> None:
    made = router()
    stuck = routed(made)
    for _ in range(5):
        made.close(routed(made).id, Outcome.ERROR, 0.0)
    assert routed(made).node != stuck.node


def test_the_key_not_used_for_longest_is_forgotten_first() -> None:
    keys = Sticky(limit=2)
    for key in ("a", "b", "a", "c"):
        keys.keep(key, "n")
    assert [keys.node(key) for key in "abc"] == ["n", None, "n"]
    assert len(keys) == 2
