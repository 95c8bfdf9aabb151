"""A node's life as people and events see it: intent, deletion, holds, reasons."""

import asyncio
import sqlite3

import pytest

from trimtab.balancer import NoFit, parse_task
from trimtab.collector.events import Kind
from trimtab.collector.session import Rejected, Session
from trimtab.collector.states import Admin, State
from trimtab.collector.trust import MANY, PATIENCE
from trimtab.wire import Inventory, encode


def say(session, *messages):
    return session.feed(b"".join(encode(m) for m in messages))


def joined(collector, hello, frame, n=1, **fields):
    session = Session(collector.intake)
    say(session, hello(n, **fields), *(frame(seq) for seq in (1, 2, 3)))
    collector.tick()
    return session


def told(collector, kind):
    return [e for e in collector.events.after(0, 9999) if e.kind is kind]


def route(collector):
    return collector.router.route(parse_task({}), collector.clock.monotonic())


def test_a_drained_node_gets_no_new_task_and_is_drained_once_its_work_is_done(
    collector, hello, frame
):
    joined(collector, hello, frame)
    decision = route(collector)
    collector.drain(0, until_unix_s=None, reason="a new disk", by="ops")
    collector.tick()
    assert collector.fleet.admin[0] == Admin.DRAINING
    assert isinstance(route(collector), NoFit)
    collector.router.close(decision.id, "ok", collector.clock.monotonic())
    collector.tick()
    assert collector.fleet.admin[0] == Admin.DRAINED
    first, last = told(collector, Kind.ADMIN)
    assert (first.reason, first.by, first.details["after"]) == (
        "a new disk",
        "ops",
        "draining",
    )
    assert (last.reason, last.details["after"]) == ("its work is done", "drained")
    collector.undrain(0, by="ops")
    collector.tick()
    assert route(collector).node == "node1"
    assert 0 not in collector.fleet.drains


def test_at_the_deadline_a_node_is_drained_whatever_still_runs(
    collector, hello, frame, clock
):
    joined(collector, hello, frame)
    route(collector)
    collector.drain(0, until_unix_s=clock.unix() + 1.5, reason="", by=None)
    collector.tick()
    assert collector.fleet.admin[0] == Admin.DRAINING
    clock.now += 1
    collector.tick()
    assert collector.fleet.admin[0] == Admin.DRAINING
    clock.now += 1
    collector.tick()
    assert collector.fleet.admin[0] == Admin.DRAINED
    assert "1 leases open" in told(collector, Kind.ADMIN)[-1].reason


def test_a_drain_outlives_a_restart_with_its_reason(make_collector, hello, frame):
    first = make_collector()
    joined(first, hello, frame)
    first.drain(0, until_unix_s=None, reason="a new disk", by="ops")
    first.tick()
    asyncio.run(first.commit())
    second = make_collector()
    assert second.fleet.admin[0] == Admin.DRAINED
    assert second.fleet.drains[0].reason == "a new disk"


def test_a_deleted_node_is_refused_until_it_is_put_back(make_collector, hello, frame):
    """A35: delete means tombstone; the node does not return by itself."""
    collector = make_collector()
    joined(collector, hello, frame)
    collector.delete(0, reason="sold", by="ops")
    assert collector.intake.deleted == {0}
    with pytest.raises(Rejected, match="was deleted"):
        say(Session(collector.intake), hello(1))
    collector.tick()
    assert isinstance(route(collector), NoFit)
    asyncio.run(collector.commit())
    again = make_collector()
    with pytest.raises(Rejected, match="was deleted"):
        say(Session(again.intake), hello(1))
    again.undrain(0, by=None)
    joined(again, hello, lambda seq: frame(seq + 10))
    assert route(again).node == "node1"


def test_deleted_nodes_are_forgotten_after_a_season(collector, hello, frame, clock):
    joined(collector, hello, frame)
    collector.delete(0, reason="sold", by=None)
    clock.now += 89 * 86_400
    assert collector.expired() == []
    clock.now += 2 * 86_400
    assert collector.expired() == [0]


def test_the_later_word_on_what_a_node_holds_wins(collector, hello, frame):
    holding = {"inventory": Inventory(holds=("base",))}
    joined(collector, hello, frame, **holding)
    collector.hold(0, ("base", "model"), by="scheduler")

    def held():
        return collector.fleet.nodes[0].hello.inventory.holds

    say(Session(collector.intake), hello(1, **holding))  # a reconnect is no news
    assert held() == ("base", "model")
    say(Session(collector.intake), hello(1, inventory=Inventory(holds=("other",))))
    assert held() == ("other",)
    (event,) = told(collector, Kind.HOLDS)
    assert event.by == "scheduler"


def test_what_a_node_holds_outlives_a_restart(make_collector, hello, frame):
    first = make_collector()
    joined(first, hello, frame)
    first.hold(0, ("model",), by=None)
    asyncio.run(first.commit())
    second = make_collector()
    say(Session(second.intake), hello(1))
    assert second.fleet.nodes[0].hello.inventory.holds == ("model",)


def test_every_change_of_state_has_an_event_with_its_reason(
    collector, hello, frame, clock
):
    joined(collector, hello, frame)
    for _ in range(40):
        clock.now += 1
        collector.tick()
    changes = [
        (e.details["before"], e.details["after"]) for e in told(collector, Kind.STATE)
    ]
    assert changes == [
        ("joining", "healthy"),
        ("healthy", "stale"),
        ("stale", "lost"),
    ]
    rated, stale, lost = told(collector, Kind.STATE)
    assert rated.reason.startswith("score ")
    assert "nothing heard for" in stale.reason
    assert "longer than the grace" in lost.reason


def test_enrolment_reboot_and_rename_are_told(collector, hello, frame):
    joined(collector, hello, frame)
    say(Session(collector.intake), hello(1, boot_id=b"c" * 16, name="other"))
    kinds = [e.kind for e in collector.events.after(0, 99) if e.kind is not Kind.STATE]
    assert kinds == [Kind.ENROLLED, Kind.RENAMED, Kind.BOOT]
    assert told(collector, Kind.RENAMED)[0].details["before"] == "node1"


def test_events_go_on_after_a_restart(make_collector, hello, frame):
    first = make_collector()
    joined(first, hello, frame)
    asyncio.run(first.commit())
    newest = first.events.newest
    second = make_collector()
    assert [e.ident for e in second.events.after(0, 99)] == list(range(1, newest + 1))
    joined(second, hello, frame, n=2)
    assert second.events.newest > newest


def test_when_most_of_the_fleet_falls_silent_at_once_nobody_is_called_lost(
    collector, hello, frame, clock
):
    for n in range(1, MANY + 2):
        joined(collector, hello, frame, n)
    for _ in range(60):
        clock.now += 1
        collector.tick()
    assert set(collector.fleet.state[: MANY + 1].tolist()) == {State.STALE}
    (event,) = told(collector, Kind.COLLECTOR)
    assert "the fault is likely near this collector" in event.reason
    for _ in range(int(30 * PATIENCE)):
        clock.now += 1
        collector.tick()
    assert set(collector.fleet.state[: MANY + 1].tolist()) == {State.LOST}


def test_a_link_that_comes_and_goes_does_not_make_a_node_flap(
    collector, hello, frame, clock
):
    """A31: ten minutes of 5 s silence each 12 s are a few changes, not fifty."""
    session = joined(collector, hello, frame)
    seq = 3
    start = clock.now
    while clock.now - start < 600:
        clock.now += 1
        if (clock.now - start) % 12 > 5:
            seq = 3 + int(clock.now - start)
            say(session, frame(seq))
        collector.tick()
    changes = told(collector, Kind.STATE)[1:]
    assert 2 <= len(changes) <= 12


def test_what_a_command_did_becomes_an_event_once(collector):
    collector.store.notify(Kind.CREDENTIAL, "token 1 made", 5.0)
    for _ in range(2):
        collector.take_notices(collector.store.notices())
    assert [e.reason for e in told(collector, Kind.CREDENTIAL)] == ["token 1 made"]
    asyncio.run(collector.commit())
    assert collector.store.notices() == []


def test_a_database_deleted_under_a_running_collector_is_made_anew(
    collector, hello, frame
):
    joined(collector, hello, frame)
    asyncio.run(collector.commit())
    collector.store.path.unlink()
    asyncio.run(collector.commit())
    assert [r.name for r in collector.store.registry()] == ["node1"]
    assert "made anew from memory" in told(collector, Kind.COLLECTOR)[0].reason


def test_a_database_damaged_under_a_running_collector_is_made_anew(
    collector, hello, frame
):
    session = joined(collector, hello, frame)
    asyncio.run(collector.commit())
    with collector.store.path.open("r+b") as file:
        file.write(b"\x55" * 2**16)
    collector.store.path.with_name(collector.store.path.name + "-wal").write_bytes(b"")
    with pytest.raises(sqlite3.DatabaseError):
        collector.store.credentials()  # as the service reads them now and then
    say(session, frame(4))
    asyncio.run(collector.commit())
    assert [r.name for r in collector.store.registry()] == ["node1"]
    assert list(collector.store.path.parent.glob("collector.db.damaged-*"))
