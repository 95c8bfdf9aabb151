from math import nan
from typing import Any

import pytest

from trimtab.balancer import Node, Snapshot

A = Node("0a", "alpha", cpu=0.5)
B = Node("0b", "beta", groups=("rack1",))


def test_rows_become_columns_and_are_found_by_id_and_name() -> None:
    fleet = Snapshot.of([A, B], version=3, at=9.0)
    assert (len(fleet), fleet.version, fleet.at) == (2, 3, 9.0)
    assert fleet.cpu == (0.5, None)
    assert fleet.groups == ((), ("rack1",))
    assert fleet.row("0b") == fleet.row("beta") == 1
    assert fleet.row("gamma") is None


def test_a_fleet_of_nobody_is_a_snapshot() -> None:
    assert len(Snapshot.of([])) == 0


def test_an_id_goes_before_a_name() -> None:
    fleet = Snapshot.of([Node("0a", "0b"), Node("0b", "beta")])
    assert fleet.row("0b") == 1


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([A, A], "id"),
        ([A._replace(speed=0.0)], "speed"),
        ([A._replace(speed=nan)], "speed"),
        ([A._replace(slots=-1)], "slots"),
    ],
)
def test_what_can_not_be_a_fleet_is_refused(nodes: list[Node], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Snapshot.of(nodes)


def test_columns_of_unlike_length_are_refused() -> None:
    columns: list[Any] = [(value,) for value in A]
    columns[-1] = ()
    with pytest.raises(ValueError, match="'groups': 0"):
        Snapshot(0, 0.0, *columns)


def test_a_renewed_snapshot_has_the_same_nodes_and_other_readings() -> None:
    before = Snapshot.of([A, B], version=3, at=9.0)
    after = before.renewed(4, 9.5, cpu=(0.25, 1.0))
    assert (after.version, after.at, after.cpu) == (4, 9.5, (0.25, 1.0))
    assert after.ids is before.ids
    assert after.row("beta") == 1
    assert (before.version, before.cpu) == (3, (0.5, None))
    with pytest.raises(ValueError, match="2 rows"):
        before.renewed(4, 9.5, cpu=(0.25,))
