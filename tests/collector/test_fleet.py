"""The fleet table: what a frame does to its node, and to nobody else."""

import numpy as np
import pytest

from trimtab.collector.fleet import Fleet
from trimtab.collector.health import assess
from trimtab.collector.node import Node
from trimtab.collector.readings import row as row_of
from trimtab.collector.states import State
from trimtab.wire import Cpu, Hello, encode

NOW, UNIX, BOOT_MS = 100.0, 1_800_000_000.0, 1_000_000


def add(fleet, n, *, name=None):
    hello = Hello(n.to_bytes(16, "big"), b"b" * 16, name or f"n{n}")
    node = Node(hello, name or f"n{n}", None, UNIX, UNIX)
    row = fleet.add(node, NOW, State.JOINING)
    fleet.greet(row, 1.0, None)
    fleet.begin(row, NOW, BOOT_MS, 1.0, anew=True)
    return row


class Sender:
    """A conversation that began at NOW."""

    live_from_ms = BOOT_MS - 1000

    def refuse(self, error):
        raise error


def take(fleet, row, frame, sampled_at, now, sender=Sender):
    """Queue a frame that was sampled and that arrived at these times."""
    boot_ms = BOOT_MS + round((sampled_at - NOW) * 1000)
    data = encode(frame._replace(boot_ms=boot_ms))
    fleet.waiting.add(row, sender(), now, data, [len(data)])


def scored(frame):
    """Return the score of a frame, as health.py judges it."""
    return pytest.approx(float(assess(np.array([row_of(frame)])).score[0]), abs=1e-3)


def test_a_live_frame_replaces_the_row_on_the_next_tick(frame):
    fleet = Fleet()
    row = add(fleet, 1)
    strained = frame(1, cpu=Cpu(stall=0.525), gaps=3)
    take(fleet, row, strained, NOW, NOW)
    assert np.isnan(fleet.score[row])
    fleet.tick(NOW, UNIX, 30.0)
    assert fleet.score[row] == scored(strained)
    assert fleet.sampled_at[row] == NOW
    node = fleet.nodes[row]
    assert (node.gaps, node.links, node.gpus) == (3, frame(1).links, None)


def test_the_newest_of_several_frames_in_a_tick_is_the_one_shown(frame):
    fleet = Fleet()
    row, other = add(fleet, 1), add(fleet, 2)
    for seq, stall in ((1, 0.0), (2, 1.0), (3, 0.525)):
        newest = frame(seq, cpu=Cpu(stall=stall))
        take(fleet, row, newest, NOW + seq / 10, NOW + 0.3)
        take(fleet, other, newest, NOW + seq / 10, NOW + 0.3)
    fleet.tick(NOW + 0.3, UNIX, 30.0)
    assert fleet.score[row] == fleet.score[other] == scored(newest)
    assert fleet.frames[row] == 3


def test_a_late_frame_is_history_and_never_touches_the_row(frame):
    fleet = Fleet()
    row = add(fleet, 1)
    take(fleet, row, frame(1), NOW, NOW)
    fleet.tick(NOW, UNIX, 30.0)
    take(fleet, row, frame(2, cpu=Cpu(stall=1.0)), NOW - 60, NOW)
    fleet.tick(NOW, UNIX, 30.0)
    assert fleet.seq[row] == 2
    assert fleet.score[row] == scored(frame(1))
    assert fleet.frames[row] == 1
    held = fleet.rollups.drain()
    assert sum(sums.samples for sums in held.values()) == 2
    assert len({key.minute for key in held}) == 2  # each in its own minute


def test_backfill_is_no_sign_of_life_and_a_late_frame_is(frame):
    fleet = Fleet()
    row = add(fleet, 1)
    take(fleet, row, frame(1), NOW, NOW)
    fleet.tick(NOW, UNIX, 30.0)

    class Reconnected(Sender):
        live_from_ms = BOOT_MS + 10_000

    take(fleet, row, frame(2), NOW + 1, NOW + 10, Reconnected)
    fleet.tick(NOW + 10, UNIX, 30.0)
    assert fleet.state[row] == State.STALE
    # States go by arrival: whoever speaks lives, however its clock runs.
    take(fleet, row, frame(3, cpu=Cpu(stall=1.0)), NOW + 2, NOW + 11)
    fleet.tick(NOW + 11, UNIX, 30.0)
    assert fleet.state[row] != State.STALE
    assert fleet.score[row] == scored(frame(1))  # but what it says is history


@pytest.mark.parametrize("seq", [5, 4, 0])
@pytest.mark.parametrize("ticks", [1, 2])
def test_a_repeated_or_older_sequence_is_not_counted_again(frame, seq, ticks):
    fleet = Fleet()
    row = add(fleet, 1)
    take(fleet, row, frame(5), NOW, NOW)
    if ticks == 2:
        fleet.tick(NOW, UNIX, 30.0)
    take(fleet, row, frame(seq), NOW, NOW)
    fleet.tick(NOW, UNIX, 30.0)
    assert fleet.repeated == 1
    assert [s.samples for s in fleet.rollups.drain().values()] == [1]


def test_the_table_grows_and_keeps_every_row_apart(frame):
    fleet = Fleet()
    rows = [add(fleet, n) for n in range(1, 201)]
    frames = [frame(1, cpu=Cpu(stall=0.05 + 0.95 * row / 200)) for row in rows]
    for row in rows:
        take(fleet, row, frames[row], NOW, NOW)
    fleet.tick(NOW, UNIX, 30.0)
    assert [*fleet.score[:200]] == [scored(frame) for frame in frames]
    assert len({*fleet.score[:200]}) > 100  # all alike would prove nothing
    fresh = add(fleet, 999)
    assert np.isnan(fleet.score[fresh])
    assert fleet.seq[fresh] == -1


def test_names_are_unique_and_ids_outrank_names():
    fleet = Fleet()
    first = add(fleet, 1, name="db")
    assert fleet.free_name("db") == "db~2"
    assert fleet.free_name("web") == "web"
    second = add(fleet, 2, name="db~2")
    assert fleet.free_name("db") == "db~3"
    # A node that calls itself by another one's id is not found under it.
    add(fleet, 3, name=fleet.nodes[first].hex_id)
    assert fleet.find(fleet.nodes[first].hex_id) == first
    assert fleet.find("db~2") == second
    assert fleet.find("nobody") is None
    assert fleet.find("z" * 32) is None
    fleet.rename(second, "web")
    assert fleet.find("db~2") is None
    assert fleet.find("web") == second


def test_a_node_that_fell_silent_joins_anew(frame):
    fleet = Fleet()
    row = add(fleet, 1)
    for seq in range(1, 5):
        take(fleet, row, frame(seq), NOW + seq, NOW + seq)
        fleet.tick(NOW + seq, UNIX, 30.0)
    assert fleet.state[row] == State.HEALTHY
    assert [c.after for c in fleet.tick(NOW + 10, UNIX, 30.0)] == [State.STALE]
    assert [c.after for c in fleet.tick(NOW + 60, UNIX, 30.0)] == [State.LOST]
    assert fleet.tick(NOW + 61, UNIX, 30.0) == []
    states = []
    for seq in range(5, 9):
        take(fleet, row, frame(seq), NOW + 60 + seq, NOW + 60 + seq)
        fleet.tick(NOW + 60 + seq, UNIX, 30.0)
        states.append(State(int(fleet.state[row])).name)
    assert states == ["JOINING", "JOINING", "HEALTHY", "HEALTHY"]


def test_a_tick_without_news_leaves_the_version_alone(frame):
    fleet = Fleet()
    row = add(fleet, 1)
    take(fleet, row, frame(1), NOW, NOW)
    fleet.tick(NOW, UNIX, 30.0)
    version = fleet.version
    fleet.tick(NOW + 0.2, UNIX, 30.0)
    assert fleet.version == version
