"""The SQLite file: what goes in comes out, whole transactions or nothing."""

import sqlite3

import numpy as np
import pytest

from trimtab.collector.credentials import new_credential
from trimtab.collector.rollup import Sums
from trimtab.collector.store import Registered, Store, StoreError
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


def sums(samples, value):
    return Sums(samples, np.array([[samples, samples * value, value, value]]))


def test_the_registry_comes_back_without_keys_and_tokens(store, hello):
    node = registered(hello)
    store.commit([node._replace(hello=node.hello._replace(token="secret"))], [], 0)
    (back,) = store.registry()
    assert back.hello == node.hello._replace(key=None, token=None)
    assert back[1:] == node[1:]
    assert b"secret" not in store.path.read_bytes()


def test_minutes_merge_with_what_is_stored(store):
    node = b"n" * 16
    store.commit([], [(node, 10, sums(2, 0.5)), (node, 11, sums(1, 0.1))], 0)
    store.commit([], [(node, 10, sums(3, 1.0))], 0)
    ten, eleven = store.minutes(node, 10, 12)
    assert (ten.minute, ten.sums.samples) == (10, 5)
    assert ten.sums.series.tolist() == [[5, 4.0, 0.5, 1.0]]
    assert eleven.sums.samples == 1
    assert store.minutes(node, 11, 11) == []
    assert store.minutes(b"x" * 16, 0, 99) == []


def test_old_minutes_are_forgotten(store):
    node = b"n" * 16
    store.commit([], [(node, minute, sums(1, 0.5)) for minute in (5, 6, 7)], 0)
    store.commit([], [], 7)
    assert [row.minute for row in store.minutes(node, 0, 99)] == [7]


def test_a_commit_that_fails_stores_nothing_of_it(store, hello):
    store.commit([registered(hello, 1)], [], 0)
    twin = registered(hello, 2, name="node2", seq="not a number")
    with pytest.raises(sqlite3.Error):
        store.commit([registered(hello, 1, seq=99), twin], [], 0)
    (kept,) = store.registry()
    assert kept.seq == 17
    store.commit([registered(hello, 3)], [], 0)  # and the file is not stuck
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
    with pytest.raises(StoreError, match=r"c\.db: can't be opened"):
        Store(path)
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_made_is_refused_by_name(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="can't be opened"):
        Store(tmp_path / "file" / "c.db")
