from trimtab.balancer import Node, Snapshot
from trimtab.balancer.changes import Changes, same_nodes

BEFORE = Snapshot.of([Node(f"{i}", f"n{i}", cpu=0.5) for i in range(4)])


def test_rows_are_found_column_by_column() -> None:
    after = BEFORE.renewed(1, 1.0, cpu=(0.5, None, 0.5, 0.6), memory=(None,) * 4)
    changes = Changes(BEFORE, after)
    assert list(changes.rows("cpu")) == [1, 3]
    assert list(changes.rows("memory")) == list(changes.rows("states")) == []


def test_a_renewed_snapshot_has_the_same_nodes_and_a_new_one_has_not() -> None:
    assert same_nodes(BEFORE, BEFORE.renewed(1, 1.0))
    assert not same_nodes(BEFORE, Snapshot.of([Node("0", "n0")]))
