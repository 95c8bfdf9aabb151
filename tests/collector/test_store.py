"""The SQLite file: what goes in comes out, whole transactions or nothing."""

import sqlite3

import numpy as np
import pytest

from trimtab.collector import schema
from trimtab.collector.credentials import new_credential
from trimtab.collector.drains import Drain
from trimtab.collector.events import Event, Kind
from trimtab.collector.recovery import open_store
from trimtab.collector.rollup import Sums
from trimtab.collector.store import Batch, Damaged, Keep, Registered, Store, StoreError
from trimtab.wire import Inventory


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "deep" / "er" / "c.db")
    yield store
    store.close()


def registered(hello, n=1, **fields):
    known = hello(n, inventory=Inventory(cpus=4, labels={"a": "b"}, price=0.25))
    node = Registered(known, f"node{n}", b"h" * 32, 0, 17, 1.5, 2.5)
    return node._replace(**fields)


def commit(store, nodes=(), minutes=(), forget_before=0, unix_now=0.0, **batch):
    store.commit(
        Batch(nodes=nodes, minutes=minutes, **batch),
        Keep(minute=forget_before),
        unix_now,
    )


def sums(samples, value):
    return Sums(samples, np.array([[samples, samples * value, value, value]]))


def test_the_registry_comes_back_without_keys_and_tokens(store, hello):
    node = registered(hello)
    commit(store, [node._replace(hello=node.hello._replace(token="secret"))], [], 0)
    (back,) = store.registry()
    assert back.hello == node.hello._replace(key=None, token=None)
    assert back[1:] == node[1:]
    assert b"secret" not in store.path.read_bytes()


def test_minutes_merge_with_what_is_stored(store):
    node = b"n" * 16
    commit(store, [], [(node, 10, sums(2, 0.5)), (node, 11, sums(1, 0.1))], 0)
    commit(store, [], [(node, 10, sums(3, 1.0))], 0)
    ten, eleven = store.minutes(node, 10, 12)
    assert (ten.minute, ten.sums.samples) == (10, 5)
    assert ten.sums.series.tolist() == [[5, 4.0, 0.5, 1.0]]
    assert eleven.sums.samples == 1
    assert store.minutes(node, 11, 11) == []
    assert store.minutes(b"x" * 16, 0, 99) == []


def test_old_minutes_are_forgotten(store):
    node = b"n" * 16
    commit(store, [], [(node, minute, sums(1, 0.5)) for minute in (5, 6, 7)], 0)
    commit(store, [], [], 7)
    assert [row.minute for row in store.minutes(node, 0, 99)] == [7]


def test_a_commit_that_fails_stores_nothing_of_it(store, hello):
    commit(store, [registered(hello, 1)], [], 0)
    twin = registered(hello, 2, name="node2", seq="not a number")
    with pytest.raises(sqlite3.Error):
        commit(store, [registered(hello, 1, seq=99), twin], [], 0)
    (kept,) = store.registry()
    assert kept.seq == 17
    commit(store, [registered(hello, 3)], [], 0)  # and the file is not stuck
    assert len(store.registry()) == 2


def test_the_file_is_its_owners_alone(store):
    assert store.path.stat().st_mode & 0o077 == 0


def test_credentials_are_kept_as_hashes_until_revoked(store):
    credential = new_credential("tt_secret", ["read", "route"], "ci", 10.0, 20.0)
    store.add_credential(credential)
    assert store.credentials() == [credential]
    assert b"tt_secret" not in store.path.read_bytes()
    assert store.revoke_credential(credential.ident, 15.0)
    assert not store.revoke_credential(credential.ident, 16.0)
    assert not store.revoke_credential("nobody", 16.0)
    assert store.credentials() == [credential._replace(revoked=15.0)]


def test_a_file_of_a_newer_trimtab_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "c.db"
    Store(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match=r"newer trimtab.*upgrade"):
        Store(path)


@pytest.mark.parametrize("content", [b"this is no database at all" * 100])
def test_a_file_that_is_no_database_is_refused_by_name(tmp_path, content):
    path = tmp_path / "c.db"
    path.write_bytes(content)
    with pytest.raises(Damaged, match=r"c\.db: is damaged: file is not"):
        Store(path)
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_made_is_refused_by_name(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="can't be opened"):
        Store(tmp_path / "file" / "c.db")


def test_a_drain_and_what_was_announced_come_back(store, hello):
    drain = Drain(10.0, None, "a new disk", "ops")
    node = registered(hello, admin=1, drain=drain, announced=("m1",))
    commit(store, [node])
    (back,) = store.registry()
    assert (back.admin, back.drain, back.announced) == (1, drain, ("m1",))
    commit(store, [registered(hello)])
    assert store.registry()[0].drain is None


def test_hours_are_merged_once_they_are_over(store):
    node = b"n" * 16
    minutes = [(node, 60 * 5 + i, sums(1, i / 100)) for i in range(60)]
    commit(store, minutes=minutes, unix_now=5.9 * 3600)
    assert store.hours(node, 0, 9999) == []
    commit(store, minutes=[(node, 60 * 6, sums(1, 0.5))], unix_now=6.0 * 3600)
    (hour,) = store.hours(node, 0, 9999)
    assert (hour.minute, hour.sums.samples) == (300, 60)
    assert hour.sums.series[0].tolist() == pytest.approx([60, 17.7, 0.0, 0.59])


def test_a_late_sample_counts_in_its_hour_too_once(store):
    node = b"n" * 16
    commit(store, minutes=[(node, 300, sums(1, 0.1))], unix_now=5.1 * 3600)
    commit(store, unix_now=6.1 * 3600)
    commit(store, minutes=[(node, 301, sums(2, 0.4))], unix_now=6.2 * 3600)
    commit(store, minutes=[(node, 180, sums(3, 0.4))], unix_now=6.3 * 3600)
    commit(store, unix_now=6.4 * 3600)
    hours = store.hours(node, 0, 9999)
    assert [(h.minute, h.sums.samples) for h in hours] == [(180, 3), (300, 3)]


def test_hours_that_a_kill_left_unmerged_are_merged_after_the_next_start(tmp_path):
    node = b"n" * 16
    first = Store(tmp_path / "c.db")
    commit(first, minutes=[(node, 300, sums(1, 0.1))], unix_now=5.1 * 3600)
    first.close()
    second = Store(tmp_path / "c.db")
    commit(second, unix_now=6.1 * 3600)
    assert [h.sums.samples for h in second.hours(node, 0, 9999)] == [1]
    second.close()


def test_events_come_back_in_order_with_all_they_say(store):
    events = [
        Event(i, 10.0 + i, Kind.STATE, "n1", "00ff", "silent", None, {"after": "lost"})
        for i in range(1, 6)
    ]
    commit(store, events=events)
    assert store.events(3) == events[2:]
    assert store.events(99) == events


def test_decisions_are_kept_up_to_a_bound(store, monkeypatch):
    monkeypatch.setattr("trimtab.collector.store.KEPT_DECISIONS", 3)
    commit(store, decisions=[(f"d{i}", float(i), f'{{"n":{i}}}') for i in range(5)])
    assert store.decision("d4") == '{"n":4}'
    assert store.decision("d1") is None


def test_notices_are_there_until_they_were_taken(store):
    store.notify(Kind.CREDENTIAL, "token 1 made", 5.0)
    (notice,) = store.notices()
    assert (notice.kind, notice.reason) == ("credential", "token 1 made")
    commit(store, notices_taken=[notice.ident])
    assert store.notices() == []


def test_forecasts_come_back(store):
    store.put_forecasts([("n1/score", b"abc")])
    store.put_forecasts([("n1/score", b"abd")])
    assert store.forecasts() == {"n1/score": b"abd"}


def test_a_file_past_its_size_loses_its_oldest_minutes_first(store):
    node, wide = b"n" * 16, Sums(1, np.ones((400, 4)))
    minutes = [(node, minute, wide) for minute in range(240)]
    store.commit(Batch(minutes=minutes), Keep(), 0.0)
    for _ in range(2):
        store.commit(Batch(), Keep(size_bytes=2**21), 0.0)
    left = [row.minute for row in store.minutes(node, 0, 999)]
    assert left == list(range(120, 240))
    store.commit(Batch(), Keep(size_bytes=2**21), 0.0)
    assert len(store.minutes(node, 0, 999)) == 120


def test_a_file_of_the_first_version_is_brought_up_with_all_it_holds(tmp_path, hello):
    path = tmp_path / "c.db"
    with sqlite3.connect(path) as db:
        db.executescript(schema.STEPS[0] + "PRAGMA user_version = 1;")
        db.execute(
            "INSERT INTO credentials VALUES ('i', x'00', 'read', 'l', 1.0, NULL, NULL)"
        )
    db.close()
    store = Store(path)
    assert [c.ident for c in store.credentials()] == ["i"]
    commit(store, [registered(hello)])
    store.close()
    assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone() == (
        schema.VERSION,
    )


def test_a_damaged_file_is_moved_aside_and_what_is_legible_taken_over(tmp_path, hello):
    path = tmp_path / "c.db"
    store = Store(path)
    commit(store, [registered(hello, n) for n in range(1, 40)])
    store.add_credential(new_credential("tt_secret", ["admin"], "ops", 1.0, None))
    minutes = [(b"n" * 16, m, Sums(1, np.ones((99, 4)))) for m in range(300)]
    commit(store, minutes=minutes)
    store.close()
    content = bytearray(path.read_bytes())
    content[-300_000:] = b"\x55" * 300_000  # the history's pages
    path.write_bytes(content)
    with pytest.raises(Damaged):
        Store(path)
    store, trouble = open_store(path)
    assert trouble is not None
    assert "moved to c.db.damaged-" in trouble
    assert len(store.registry()) == 39
    assert [c.label for c in store.credentials()] == ["ops"]
    assert len(list(tmp_path.glob("c.db.damaged-*"))) >= 1
    store.close()


@pytest.mark.parametrize("content", [b"this is no database at all" * 100])
def test_what_is_no_database_is_moved_aside_and_no_door_is_opened(tmp_path, content):
    path = tmp_path / "c.db"
    store = Store(path)
    store.add_credential(new_credential("tt_secret", ["admin"], "ops", 1.0, None))
    store.close()
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.write_bytes(content)
    store, trouble = open_store(path)
    assert trouble is not None
    assert store.credentials() == []
    assert store.guarded  # it had credentials: it is not open to everyone now
    store.close()


def test_a_sound_file_is_opened_without_a_word(tmp_path):
    store, trouble = open_store(tmp_path / "c.db")
    assert trouble is None
    assert not store.guarded
    store.close()


def test_a_file_that_was_deleted_is_noticed_and_made_anew(store, hello):
    store.path.unlink()
    assert store.broken == f"{store.path}: No such file or directory"
    store.renew()
    commit(store, [registered(hello)])
    assert len(store.registry()) == 1
    assert not store.broken
