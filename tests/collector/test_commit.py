"""Store and acknowledge: what a restart finds, and what a failing disk costs."""

import asyncio
import sqlite3

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
    assert collector.fleet.score[0] > 0.99
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


def test_a_boot_during_a_commit_is_not_acknowledged_by_it(collector, hello, frame):
    """The new boot's frames have sequences of their own."""
    session = Session(collector.intake)
    say(session, hello(1), frame(901))

    async def scenario():
        committing = asyncio.create_task(collector.commit())
        await asyncio.sleep(0)  # the write is under way, in its thread
        await asyncio.sleep(0)
        rebooted = Session(collector.intake)
        say(rebooted, hello(1, boot_id=b"c" * 16, boot_ms=0), frame(5, boot_ms=10))
        assert await committing == {}
        assert collector.intake.stored_seq == {}
        assert await collector.commit() == {0: 5}

    asyncio.run(scenario())


def test_a_commit_that_is_cancelled_still_accounts_for_its_write(
    collector, hello, frame, settings
):
    session = Session(collector.intake)
    say(session, hello(1), frame(1))
    lock = sqlite3.connect(settings.database, isolation_level=None)
    collector.store._writer.execute("PRAGMA busy_timeout = 300")
    lock.execute("BEGIN EXCLUSIVE")

    async def scenario():
        committing = asyncio.create_task(collector.commit())
        await asyncio.sleep(0.05)
        committing.cancel()  # as at a stop; the write then fails
        await asyncio.gather(committing, return_exceptions=True)
        await asyncio.sleep(0.5)
        lock.execute("ROLLBACK")
        return await collector.commit()

    assert asyncio.run(scenario()) == {0: 1}
    lock.close()
    assert samples(collector) == 1


def test_a_drifting_or_paused_clock_does_not_make_a_node_stale(
    collector, hello, frame, clock
):
    session = Session(collector.intake)
    say(session, hello(1))
    for second in range(1, 40):
        clock.now += 1
        paused_ms = 0 if second < 10 else 5000  # its clock stood still for 5 s
        boot_ms = 5_000_000 + second * 999 - paused_ms
        say(session, frame(second, boot_ms=boot_ms))
        collector.tick()
        assert collector.fleet.state[0] in (State.JOINING, State.HEALTHY)
    assert clock.now - collector.fleet.sampled_at[0] < 1


def test_who_was_lost_before_a_restart_is_lost_after_it(
    make_collector, hello, frame, clock
):
    first = make_collector()
    sessions = {n: Session(first.intake) for n in (1, 2)}
    for n, session in sessions.items():
        say(session, hello(n), frame(1))
    first.tick()
    for second in range(2, 62):
        clock.now += 1
        say(sessions[1], frame(second))
        first.tick()
    assert first.fleet.state[:2].tolist() == [State.HEALTHY, State.LOST]
    commit(first)
    clock.now += 600  # down for ten minutes
    second_life = make_collector()
    assert second_life.fleet.state[:2].tolist() == [State.UNKNOWN, State.LOST]
    clock.now += 5
    second_life.tick()
    assert second_life.fleet.state[:2].tolist() == [State.UNKNOWN, State.LOST]
    back = Session(second_life.intake)
    say(back, hello(2, boot_ms=6_000_000), frame(700, boot_ms=6_000_001))
    second_life.tick()
    assert second_life.fleet.state[1] == State.JOINING
