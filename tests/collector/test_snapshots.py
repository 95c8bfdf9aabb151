"""Snapshots: made from the one before, and yet as if made anew."""

from dataclasses import fields
from itertools import count

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trimtab.collector.fleet import Fleet
from trimtab.collector.node import Node
from trimtab.collector.snapshots import Snapshots
from trimtab.collector.states import Admin, State
from trimtab.wire import Hello, Inventory

NUMBERS = count(1)
NOW, UNIX = 100.0, 1_800_000_000.0


def add(fleet, n, **inventory):
    hello = Hello(n.to_bytes(16, "big"), b"b" * 16, f"n{n}")
    node = Node(
        hello._replace(inventory=Inventory(**inventory)), f"n{n}", None, UNIX, UNIX
    )
    row = fleet.add(node, NOW, State.JOINING)
    fleet.greet(row, 1.0, None)
    return row


def everything(snapshot):
    return {f.name: getattr(snapshot, f.name) for f in fields(snapshot)}


def change(fleet, action, pick, value):
    """Do something to the fleet that snapshots must show."""
    rows = fleet.rows()
    row = rows[pick % len(rows)] if rows else None
    match action:
        case "add":
            add(fleet, next(NUMBERS), cpus=value)
        case _ if row is None:
            return
        case "forget":
            fleet.retire(row)
            fleet.reuse(fleet.take_retired())
        case "score":
            fleet.headroom[row, value % 4] = value / 10
            fleet.sampled_at[row] = NOW + value
            fleet.readings[row] = value or np.nan
            fleet.gpu_free_mib[row] = value or np.nan
        case "state":
            fleet.state[row] = State(value % 8)
            fleet.admin[row] = Admin(value % 4)
        case "hello":
            node = fleet.nodes[row]
            inventory = Inventory(memory_mib=100 * value, labels={"a": str(value)})
            node.hello = node.hello._replace(inventory=inventory)
            fleet.greet(row, 1.0, None)
        case "rename":
            fleet.rename(row, fleet.free_name(f"m{value}"))


changes = st.lists(
    st.tuples(
        st.sampled_from(["add", "forget", "score", "state", "hello", "rename"]),
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    max_size=6,
)


@given(st.lists(changes, max_size=6))
def test_a_snapshot_made_from_the_one_before_is_as_one_made_anew(ticks):
    fleet = Fleet()
    snapshots = Snapshots(fleet)
    for version, batch in enumerate(ticks):
        for action in batch:
            change(fleet, *action)
        renewed = snapshots.renew(version, NOW)
        anew = Snapshots(fleet).renew(version, NOW)
        assert everything(renewed) == everything(anew)
        assert renewed.by_id == anew.by_id
        assert renewed.by_name == anew.by_name


def test_what_is_no_number_yet_is_none_in_the_snapshot():
    fleet = Fleet()
    row = add(fleet, 1, memory_mib=1000, cpus=4)
    snapshots = Snapshots(fleet)
    first = snapshots.renew(1, NOW)
    assert (first.cpu, first.gpu_free_mib, first.memory_free_mib) == ((None,),) * 3
    assert (first.slots, first.cpus) == ((4,), (4,))
    fleet.readings[row] = 0.5
    fleet.gpu_free_mib[row] = 31_000
    second = snapshots.renew(2, NOW + 1)
    assert second.memory_free_mib == (500.0,)
    assert second.gpu_free_mib == (31_000.0,)
    assert (second.version, second.at) == (2, NOW + 1)
    assert second.ids is first.ids  # what did not change is not made again
    assert first.memory_free_mib == (None,)
