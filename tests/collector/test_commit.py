"""Store and acknowledge: what a restart finds, and what a failing disk costs."""

import asyncio
import sqlite3

import pytest

from trimtab.collector.session import Session
from trimtab.collector.states import State
from trimtab.wire import Inventory, encode


def say(session, *messages):
    return session.feed(b"".join(encode(m) for m in messages))


def commit(collector):
    return asyncio.run(collector.commit())


def samples(collector, row=0):
    node_id = collector.fleet.nodes[row].node_id
    return sum(m.sums.samples for m in collector.store.minutes(node_id, 0, 2**40))


def test_only_what_is_stored_is_acknowledged(collector, hello, frame):
    session = Session(collector.intake)
    say(session, hello(1), frame(1), frame(2))
    assert collector.intake.stored_seq == {}
    assert commit(collector) == {0: 2}
    assert samples(collector) == 2
    assert commit(collector) == {}  # nothing new
    (welcome,) = say(Session(collector.intake), hello(1))
    assert welcome.stored_seq == 2


def test_a_restart_forgets_nobody_and_starts_as_unknown(
    make_collector, hello, frame, clock
):
    first = make_collector()
    for n in (1, 2):
        session = Session(first.intake)
        say(session, hello(n, inventory=Inventory(cpus=n)), frame(1))
    first.fleet.admin[1] = 1
    commit(first)
    second = make_collector()
    assert [node.name for node in second.fleet.nodes] == ["node1", "node2"]
    assert [node.hello.inventory.cpus for node in second.fleet.nodes] == [1, 2]
    assert second.fleet.state[:2].tolist() == [State.UNKNOWN, State.UNKNOWN]
    assert second.fleet.admin[:2].tolist() == [0, 1]
    # The key is still bound, and the sequence still counts.
    session = Session(second.intake)
    (welcome,) = say(session, hello(1))
    assert welcome.stored_seq == 1
    say(session, frame(1), frame(2))
    commit(second)
    assert samples(second) == 2


def test_what_was_not_acknowledged_is_counted_once_after_a_kill(
    make_collector, hello, frame
):
    first = make_collector()
    session = Session(first.intake)
    say(session, hello(1), frame(1), frame(2))
    commit(first)
    say(session, frame(3), frame(4))  # never stored: the collector is killed here
    second = make_collector()
    session = Session(second.intake)
    (welcome,) = say(session, hello(1))
    resent = [frame(seq) for seq in range(welcome.stored_seq + 1, 5)]
    say(session, *resent)
    commit(second)
    assert samples(second) == 4


def test_two_minutes_of_backfill_land_in_their_own_minutes(
    collector, hello, frame, clock
):
    session = Session(collector.intake)
    clock.now += 150
    say(session, hello(1, boot_ms=5_150_000))
    say(session, *(frame(seq) for seq in range(1, 151)))
    collector.tick()
    commit(collector)
    node_id = collector.fleet.nodes[0].node_id
    rows = collector.store.minutes(node_id, 0, 2**40)
    assert sum(r.sums.samples for r in rows) == 150
    assert max(r.sums.samples for r in rows) == 60
    assert len(rows) in (3, 4)
    assert clock.now - collector.fleet.sampled_at[0] < 1  # the newest is live


def test_a_failing_store_costs_no_sample_and_no_score(
    collector, hello, frame, clock, settings
):
    session = Session(collector.intake)
    say(session, hello(1), frame(1))
    lock = sqlite3.connect(settings.database, isolation_level=None)
    collector.store._writer.execute("PRAGMA busy_timeout = 50")
    lock.execute("BEGIN EXCLUSIVE")
    assert commit(collector) == {}
    assert "locked" in collector.committer.failure
    say(session, frame(2))
    clock.now += 1
    collector.tick()
    assert collector.fleet.score[0] == pytest.approx(1.0)
    lock.execute("ROLLBACK")
    lock.close()
    assert commit(collector) == {0: 2}
    assert collector.committer.failure is None
    assert samples(collector) == 2


def test_frames_still_waiting_for_a_tick_are_stored_with_their_sequence(
    collector, hello, frame
):
    session = Session(collector.intake)
    say(session, hello(1), frame(1))
    assert commit(collector) == {0: 1}  # no tick in between
    assert samples(collector) == 1
