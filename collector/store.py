"""What outlives the collector: one SQLite file in WAL mode.

Holds the registry (who is in the fleet, with its key's hash and the highest
sequence stored for its boot), minute rollups, and credentials. Writing
happens in one thread, a transaction a commit; readers have a connection of
their own and never wait for it. Nothing on the road from frame to score
comes through here.
"""

import os
import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trimtab.wire import Hello, Stream, encode

from .node import clone_id
from .rollup import Floats, Sums, merge

SCHEMA_VERSION = 1
_SCHEMA = """
-- hello: the node's last one, as on the wire, without key and token
CREATE TABLE nodes (
  id BLOB PRIMARY KEY, name TEXT NOT NULL UNIQUE, key_hash BLOB,
  admin INTEGER NOT NULL, seq INTEGER NOT NULL, hello BLOB NOT NULL,
  first_seen REAL NOT NULL, last_seen REAL NOT NULL, clone_of TEXT
) STRICT;
-- series: little-endian float64, a row of (count, sum, least, greatest) each
CREATE TABLE minutes (
  node BLOB NOT NULL, minute INTEGER NOT NULL, samples INTEGER NOT NULL,
  series BLOB NOT NULL, PRIMARY KEY (node, minute)
) STRICT, WITHOUT ROWID;
CREATE INDEX minutes_by_age ON minutes (minute);
CREATE TABLE credentials (
  id TEXT PRIMARY KEY, hash BLOB NOT NULL UNIQUE, scopes TEXT NOT NULL,
  label TEXT NOT NULL, created REAL NOT NULL, expires REAL, revoked REAL
) STRICT;
"""


class StoreError(RuntimeError):
    """The file can't be used; the text says what to do."""


class Registered(NamedTuple):
    """A node as the registry knows it. Times are Unix seconds."""

    hello: Hello  # the last one, without key and token
    name: str  # as shown
    key_hash: bytes | None
    admin: int
    seq: int  # highest stored of the hello's boot; -1 before any
    first_seen: float
    last_seen: float
    clone_of: str | None = None

    @property
    def shown_id(self) -> bytes:
        """What the node is known by; see Node."""
        if self.clone_of is None:
            return self.hello.node_id
        return clone_id(self.hello.node_id, self.hello.boot_id)


class MinuteRow(NamedTuple):
    """One minute of one node."""

    minute: int  # Unix time // 60
    sums: Sums


class Credential(NamedTuple):
    """A token's record: its hash, never itself. Times are Unix seconds."""

    ident: str
    token_hash: bytes
    scopes: frozenset[str]
    label: str
    created: float
    expires: float | None
    revoked: float | None = None


class Store:
    """The file. `commit` belongs to one thread; the rest may be called in any."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
            if not path.exists():
                _make(path)
            self._writer = self._connect()
            self._reader = self._connect()
            self._migrate()
        except (OSError, sqlite3.Error) as exc:
            raise StoreError(
                f"{path}: can't be opened as trimtab's database: {exc}. "
                "Check who owns the folder and the file, and the free space, or name "
                "another state_dir"
            ) from exc
        self._reading = threading.Lock()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=5, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode = WAL")
        # A power cut may cost the newest commits, never the file; agents
        # send again what was not acknowledged.
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def _migrate(self) -> None:
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{self.path}: written by a newer trimtab (schema {version}, this "
                f"one knows {SCHEMA_VERSION}): upgrade, or name another state_dir"
            )
        if version == 0:
            self._writer.executescript(
                f"BEGIN;{_SCHEMA}PRAGMA user_version = {SCHEMA_VERSION};COMMIT;"
            )

    def close(self) -> None:
        """Close the file."""
        self._writer.close()
        with self._reading:
            self._reader.close()

    def registry(self) -> list[Registered]:
        """Return every node that was ever registered and not forgotten."""
        with self._reading:
            rows = self._reader.execute(
                "SELECT hello, name, key_hash, admin, seq, first_seen, last_seen, "
                "clone_of FROM nodes ORDER BY first_seen"
            ).fetchall()
        return [Registered(_hello(r[0]), *r[1:]) for r in rows]

    def commit(
        self,
        nodes: Iterable[Registered],
        minutes: Iterable[tuple[bytes, int, Sums]],
        forget_before_minute: int,
        forgotten: Iterable[bytes] = (),
    ) -> None:
        """Store changed nodes and the new part of their minutes, or nothing."""
        db = self._writer
        db.execute("BEGIN IMMEDIATE")
        try:
            # First, as a name may be another's now.
            db.executemany("DELETE FROM nodes WHERE id = ?", ((i,) for i in forgotten))
            db.executemany(
                "INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (id) DO UPDATE SET name = excluded.name, "
                "key_hash = excluded.key_hash, admin = excluded.admin, "
                "seq = excluded.seq, hello = excluded.hello, "
                "last_seen = excluded.last_seen",
                (
                    (
                        node.shown_id,
                        node.name,
                        node.key_hash,
                        node.admin,
                        node.seq,
                        encode(node.hello._replace(key=None, token=None)),
                        node.first_seen,
                        node.last_seen,
                        node.clone_of,
                    )
                    for node in nodes
                ),
            )
            for node_id, minute, sums in minutes:
                self._add(node_id, minute, sums)
            db.execute("DELETE FROM minutes WHERE minute < ?", (forget_before_minute,))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:  # a full disk has ended it already
                db.execute("ROLLBACK")
            raise

    def _add(self, node_id: bytes, minute: int, sums: Sums) -> None:
        held = self._writer.execute(
            "SELECT samples, series FROM minutes WHERE node = ? AND minute = ?",
            (node_id, minute),
        ).fetchone()
        if held is not None:
            sums = merge(Sums(held[0], _series(held[1])), sums)
        self._writer.execute(
            "INSERT OR REPLACE INTO minutes VALUES (?, ?, ?, ?)",
            (node_id, minute, sums.samples, sums.series.astype("<f8").tobytes()),
        )

    def minutes(self, node_id: bytes, since: int, until: int) -> list[MinuteRow]:
        """Return the node's minutes in since <= minute < until, in order."""
        with self._reading:
            rows = self._reader.execute(
                "SELECT minute, samples, series FROM minutes "
                "WHERE node = ? AND minute >= ? AND minute < ? ORDER BY minute",
                (node_id, since, until),
            ).fetchall()
        return [MinuteRow(m, Sums(n, _series(blob))) for m, n, blob in rows]

    def credentials(self) -> list[Credential]:
        """Return every credential there ever was."""
        with self._reading:
            rows = self._reader.execute(
                "SELECT id, hash, scopes, label, created, expires, revoked "
                "FROM credentials ORDER BY created"
            ).fetchall()
        return [
            Credential(i, h, frozenset(s.split()), *rest) for i, h, s, *rest in rows
        ]

    def add_credential(self, credential: Credential) -> None:
        """Store a credential."""
        self._writer.execute(
            "INSERT INTO credentials VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                credential.ident,
                credential.token_hash,
                " ".join(sorted(credential.scopes)),
                credential.label,
                credential.created,
                credential.expires,
                credential.revoked,
            ),
        )

    def revoke_credential(self, ident: str, now: float) -> bool:
        """End a credential; False if none of that id is valid.

        It stays listed: a collector that had credentials once is never open
        to everyone again.
        """
        cursor = self._writer.execute(
            "UPDATE credentials SET revoked = ? WHERE id = ? AND revoked IS NULL",
            (now, ident),
        )
        return cursor.rowcount > 0


def _make(path: Path) -> None:
    """Make the file, its owner's alone: it holds hashes of keys.

    Made by root, for a service that runs as another: the folder's owner.
    """
    path.touch(mode=0o600)
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)


def _hello(blob: bytes) -> Hello:
    for message in Stream().feed(blob):
        if isinstance(message, Hello):
            return message
    raise StoreError("the registry holds a node without its hello: restore a backup")


def _series(blob: bytes) -> Floats:
    return np.frombuffer(blob, dtype="<f8").astype(np.float64).reshape(-1, 4)
