"""What outlives the collector: one SQLite file in WAL mode.

Holds the registry (who is in the fleet, with its key's hash, what the
operator wants of it, and the highest sequence stored for its boot), minute
and hour rollups, events, decisions, forecasts and credentials. Writing
happens in one thread, a transaction a commit; readers have a connection of
their own and never wait for it. Nothing on the road from frame to score
comes through here.
"""

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trimtab.wire import Hello, Stream, WireError, encode

from .drains import Drain
from .events import Event, Kind
from .node import clone_id
from .rollup import Floats, Sums, merge
from .schema import TooNew, migrate

MINUTES = 60  # of an hour
# An hour's minutes are merged once it is over, some nodes with each commit.
ROLLED_AT_ONCE = 500
KEPT_EVENTS = 100_000
KEPT_DECISIONS = 10_000
# Small files are read through at start; the damage of larger ones shows later.
CHECKED_BYTES = 256 * 2**20
GUARD = "collector.guarded"
_ASIDE = ("", "-wal", "-shm")


class StoreError(RuntimeError):
    """The file can't be used; the text says what to do."""


class Damaged(StoreError):
    """The file is there, but is no sound database."""


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
    drain: Drain | None = None
    announced: tuple[str, ...] | None = None  # see Node

    @property
    def shown_id(self) -> bytes:
        """What the node is known by; see Node."""
        if self.clone_of is None:
            return self.hello.node_id
        return clone_id(self.hello.node_id, self.hello.boot_id)


class Slice(NamedTuple):
    """The sums of one node over a minute, or over an hour."""

    minute: int  # Unix time // 60, its first
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


class Notice(NamedTuple):
    """What another command did, for the service to make an event of."""

    ident: int
    unix_s: float
    kind: str
    reason: str


class Batch(NamedTuple):
    """What one commit stores: all of it, or nothing."""

    nodes: Sequence[Registered] = ()
    minutes: Sequence[tuple[bytes, int, Sums]] = ()
    forgotten: Sequence[bytes] = ()
    events: Sequence[Event] = ()
    decisions: Sequence[tuple[str, float, str]] = ()  # id, Unix time, JSON
    notices_taken: Sequence[int] = ()


class Keep(NamedTuple):
    """Up to where history is kept."""

    minute: int = 0  # older ones are forgotten
    hour: int = 0
    size_bytes: int | None = None  # of the whole file


class Store:
    """The file. `commit` belongs to one thread; the rest may be called in any."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._guard = path.with_name(GUARD)
        self._reading = threading.Lock()
        self.damage: str | None = None  # that a reader met
        self._rolled_hour = -1
        self._to_roll: list[tuple[bytes, int]] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
            self._open()
        except sqlite3.DatabaseError as exc:
            if damaging(exc):
                raise Damaged(f"{path}: is damaged: {exc}") from exc
            raise self._unusable(exc) from exc
        except TooNew as exc:
            raise StoreError(f"{path}: {exc}") from exc
        except OSError as exc:
            raise self._unusable(exc) from exc

    def _unusable(self, exc: Exception) -> StoreError:
        return StoreError(
            f"{self.path}: can't be opened as trimtab's database: {exc}. "
            "Check who owns the folder and the file, and the free space, or name "
            "another state_dir"
        )

    def _open(self) -> None:
        if not self.path.exists():
            _make(self.path)
        self._inode = self.path.stat().st_ino
        self._writer = self._connect()
        self._reader = self._connect()
        migrate(self._writer)
        if self.path.stat().st_size <= CHECKED_BYTES:
            (found,) = self._writer.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise sqlite3.DatabaseError(f"{_MALFORMED}: {found}")
        if self.credentials() and not self.guarded:
            _make(self._guard)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=5, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode = WAL")
        # A power cut may cost the newest commits, never the file; agents
        # send again what was not acknowledged.
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def close(self) -> None:
        """Close the file."""
        self._writer.close()
        with self._reading:
            self._reader.close()

    @property
    def guarded(self) -> bool:
        """Whether there ever was a credential, here or in a file that was lost."""
        return self._guard.exists()

    @property
    def broken(self) -> str | None:
        """Why the file is of no more use: damaged, deleted, replaced; or None."""
        try:
            if self.path.stat().st_ino == self._inode:
                return self.damage
        except OSError as exc:
            return f"{self.path}: {exc.strerror}"
        return f"{self.path} is another file now"

    def renew(self) -> str | None:
        """Begin a new file in place of one that is damaged or gone.

        What is left of the old one is moved aside; return under which name.
        """
        with self._reading:
            for connection in (self._writer, self._reader):
                with suppress(sqlite3.Error):  # it is damaged, after all
                    connection.close()
        aside = set_aside(self.path)
        self._rolled_hour, self._to_roll = -1, []
        self.damage = None
        self._open()
        return aside

    # What is asked

    def registry(self) -> list[Registered]:
        """Return every node that was ever registered and not forgotten."""
        return [_registered(row) for row in self._ask(_REGISTRY)]

    def minutes(self, node_id: bytes, since: int, until: int) -> list[Slice]:
        """Return the node's minutes in since <= minute < until, in order."""
        rows = self._ask(
            "SELECT minute, samples, series FROM minutes "
            "WHERE node = ? AND minute >= ? AND minute < ? ORDER BY minute",
            (node_id, since, until),
        )
        return [Slice(minute, Sums(n, _series(blob))) for minute, n, blob in rows]

    def hours(self, node_id: bytes, since: int, until: int) -> list[Slice]:
        """Return the node's hours in since <= minute < until, in order.

        The last one or two hours may not be among them yet.
        """
        rows = self._ask(
            "SELECT hour, samples, series FROM hours "
            "WHERE node = ? AND hour >= ? AND hour < ? ORDER BY hour",
            (node_id, since // MINUTES, -(-until // MINUTES)),
        )
        return [Slice(hour * MINUTES, Sums(n, _series(blob))) for hour, n, blob in rows]

    def credentials(self) -> list[Credential]:
        """Return every credential there ever was."""
        return [_credential(row) for row in self._ask(_CREDENTIALS)]

    def events(self, newest: int) -> list[Event]:
        """Return the newest events, oldest first."""
        rows = self._ask(
            "SELECT id, unix, kind, node, node_id, reason, made_by, details "
            "FROM events ORDER BY id DESC LIMIT ?",
            (newest,),
        )
        return [
            Event(i, unix, Kind(kind), node, node_id, reason, by, json.loads(details))
            for i, unix, kind, node, node_id, reason, by, details in reversed(rows)
        ]

    def decision(self, ident: str) -> str | None:
        """Return the JSON of a decision; None if it is not kept."""
        rows = self._ask("SELECT document FROM decisions WHERE id = ?", (ident,))
        return rows[0][0] if rows else None

    def notices(self) -> list[Notice]:
        """Return what other commands did since the service looked."""
        rows = self._ask("SELECT id, unix, kind, reason FROM notices ORDER BY id")
        return [Notice(*row) for row in rows]

    def forecasts(self) -> dict[str, bytes]:
        """Return the state of every forecast."""
        return dict(self._ask("SELECT key, state FROM forecasts"))

    def _ask(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        try:
            with self._reading:
                return self._reader.execute(sql, values).fetchall()
        except sqlite3.DatabaseError as exc:
            if damaging(exc):
                self.damage = str(exc)
            raise

    # What is told

    def commit(self, batch: Batch, keep: Keep, unix_now: float) -> None:
        """Store a batch, and forget what is past keeping; all or nothing."""
        db = self._writer
        db.execute("BEGIN IMMEDIATE")
        try:
            # First, as a name may be another's now.
            db.executemany(
                "DELETE FROM nodes WHERE id = ?", ((i,) for i in batch.forgotten)
            )
            db.executemany(_PUT_NODE, (_row(node) for node in batch.nodes))
            hour = int(unix_now) // 3600
            for node_id, minute, sums in batch.minutes:
                self._add(_MINUTES, node_id, minute, sums)
                if minute // MINUTES < hour:
                    self._add_late(node_id, minute // MINUTES, sums)
            self._roll(hour)
            self._put_events(batch.events)
            self._put_decisions(batch.decisions)
            db.executemany(
                "DELETE FROM notices WHERE id = ?", ((i,) for i in batch.notices_taken)
            )
            db.execute("DELETE FROM minutes WHERE minute < ?", (keep.minute,))
            db.execute("DELETE FROM hours WHERE hour < ?", (keep.hour,))
            if keep.size_bytes is not None:
                self._shrink(keep.size_bytes)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:  # a full disk has ended it already
                db.execute("ROLLBACK")
            self._rolled_hour, self._to_roll = -1, []
            raise

    def _add(self, table: "_Table", node_id: bytes, number: int, sums: Sums) -> None:
        held = self._writer.execute(table.get, (node_id, number)).fetchone()
        if held is not None:
            sums = merge(Sums(held[0], _series(held[1])), sums)
        self._writer.execute(table.put, _slice_row(node_id, number, sums))

    def _add_late(self, node_id: bytes, hour: int, sums: Sums) -> None:
        """Add to an hour that was merged before; one that was not will have it."""
        known = self._writer.execute(
            "SELECT 1 FROM hours WHERE node = ? AND hour = ?", (node_id, hour)
        ).fetchone()
        if known is not None:
            self._add(_HOURS, node_id, hour, sums)
        elif (node_id, hour) not in self._to_roll:
            self._to_roll.append((node_id, hour))

    def _roll(self, hour: int) -> None:
        """Merge the minutes of hours that are over, a few nodes at a time."""
        if hour > self._rolled_hour:
            # After a start: two hours, as the last one may have been begun.
            since = hour - 2 if self._rolled_hour < 0 else self._rolled_hour
            found = self._writer.execute(
                "SELECT DISTINCT node, minute / 60 AS hour FROM minutes AS m "
                "WHERE minute >= ? AND minute < ? AND NOT EXISTS (SELECT 1 FROM hours "
                "WHERE hours.node = m.node AND hours.hour = m.minute / 60)",
                (since * MINUTES, hour * MINUTES),
            ).fetchall()
            waiting = set(self._to_roll)
            self._to_roll += [key for key in found if key not in waiting]
            self._rolled_hour = hour
        for node_id, over in self._to_roll[:ROLLED_AT_ONCE]:
            self._merge_hour(node_id, over)
        del self._to_roll[:ROLLED_AT_ONCE]

    def _merge_hour(self, node_id: bytes, hour: int) -> None:
        rows = self._writer.execute(
            "SELECT samples, series FROM minutes "
            "WHERE node = ? AND minute >= ? AND minute < ?",
            (node_id, hour * MINUTES, (hour + 1) * MINUTES),
        ).fetchall()
        if not rows:
            return
        total = Sums(rows[0][0], _series(rows[0][1]))
        for samples, blob in rows[1:]:
            total = merge(total, Sums(samples, _series(blob)))
        self._writer.execute(_HOURS.put, _slice_row(node_id, hour, total))

    def _put_events(self, events: Sequence[Event]) -> None:
        if not events:
            return
        self._writer.executemany(
            "INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (*event[:2], event.kind.value, *event[3:7], json.dumps(event.details))
                for event in events
            ),
        )
        self._writer.execute(
            "DELETE FROM events WHERE id <= ?", (events[-1].ident - KEPT_EVENTS,)
        )

    def _put_decisions(self, decisions: Sequence[tuple[str, float, str]]) -> None:
        if not decisions:
            return
        self._writer.executemany(
            "INSERT OR REPLACE INTO decisions VALUES (?, ?, ?)", decisions
        )
        self._writer.execute(
            "DELETE FROM decisions WHERE id IN (SELECT id FROM decisions "
            "ORDER BY unix DESC LIMIT -1 OFFSET ?)",
            (KEPT_DECISIONS,),
        )

    def _shrink(self, size_bytes: int) -> None:
        """Forget the oldest hour of minutes while the file is too large.

        The pages that this frees are used again, so the file stays.
        """
        db = self._writer
        (page,) = db.execute("PRAGMA page_size").fetchone()
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        (free,) = db.execute("PRAGMA freelist_count").fetchone()
        if (pages - free) * page <= size_bytes:
            return
        (oldest,) = db.execute("SELECT min(minute) FROM minutes").fetchone()
        if oldest is not None:
            db.execute("DELETE FROM minutes WHERE minute < ?", (oldest + MINUTES,))

    def put_forecasts(self, states: Iterable[tuple[str, bytes]]) -> None:
        """Store the state of forecasts."""
        self._writer.executemany(
            "INSERT OR REPLACE INTO forecasts VALUES (?, ?)", states
        )

    def add_credential(self, credential: Credential) -> None:
        """Store a credential."""
        if not self.guarded:
            _make(self._guard)
        self._writer.execute(
            "INSERT OR REPLACE INTO credentials VALUES (?, ?, ?, ?, ?, ?, ?)",
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

    def notify(self, kind: Kind, reason: str, now: float) -> None:
        """Leave word for the service of what this command did."""
        self._writer.execute(
            "INSERT INTO notices (unix, kind, reason) VALUES (?, ?, ?)",
            (now, kind.value, reason),
        )


class _Table(NamedTuple):
    get: str
    put: str


_MINUTES = _Table(
    "SELECT samples, series FROM minutes WHERE node = ? AND minute = ?",
    "INSERT OR REPLACE INTO minutes VALUES (?, ?, ?, ?)",
)
_HOURS = _Table(
    "SELECT samples, series FROM hours WHERE node = ? AND hour = ?",
    "INSERT OR REPLACE INTO hours VALUES (?, ?, ?, ?)",
)
_MALFORMED = "database disk image is malformed"
_REGISTRY = (
    "SELECT hello, name, key_hash, admin, seq, first_seen, last_seen, clone_of, "
    "drain, announced FROM nodes ORDER BY first_seen"
)
_CREDENTIALS = (
    "SELECT id, hash, scopes, label, created, expires, revoked "
    "FROM credentials ORDER BY created"
)
_PUT_NODE = (
    "INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (id) DO UPDATE SET name = excluded.name, "
    "key_hash = excluded.key_hash, admin = excluded.admin, seq = excluded.seq, "
    "hello = excluded.hello, last_seen = excluded.last_seen, "
    "drain = excluded.drain, announced = excluded.announced"
)


def damaging(exc: sqlite3.Error) -> bool:
    """Whether an error says that the file itself is broken."""
    code = getattr(exc, "sqlite_errorcode", None)
    if code is None:
        return _MALFORMED in str(exc)
    truncated = code == sqlite3.SQLITE_IOERR_SHORT_READ
    return truncated or code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def salvage(path: Path) -> tuple[list[Registered], list[Credential]]:
    """Return what of a damaged file's registry and credentials can be read."""
    nodes: list[Registered] = []
    credentials: list[Credential] = []
    with suppress(sqlite3.Error, OSError):
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            for row in _each(db, _REGISTRY):
                with suppress(StoreError, ValueError, TypeError, WireError):
                    nodes.append(_registered(row))
            credentials += map(_credential, _each(db, _CREDENTIALS))
        finally:
            db.close()
    return nodes, credentials


def _each(db: sqlite3.Connection, sql: str) -> Iterator[Any]:
    """Yield the rows up to where the file is broken."""
    with suppress(sqlite3.Error):
        yield from db.execute(sql)


def set_aside(path: Path) -> str | None:
    """Move a database and its journals out of the way; return its new name."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    number, aside = 0, path.with_name(f"{path.name}.damaged-{stamp}")
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
    moved = None
    for suffix in _ASIDE:
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
            moved = moved or aside.name
    return moved


def _make(path: Path) -> None:
    """Make a file, its owner's alone: it holds hashes of keys.

    Made by root, for a service that runs as another: the folder's owner.
    """
    path.touch(mode=0o600)
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)


def _slice_row(node_id: bytes, number: int, sums: Sums) -> tuple[object, ...]:
    return (node_id, number, sums.samples, sums.series.astype("<f8").tobytes())


def _row(node: Registered) -> tuple[object, ...]:
    return (
        node.shown_id,
        node.name,
        node.key_hash,
        node.admin,
        node.seq,
        encode(node.hello._replace(key=None, token=None)),
        node.first_seen,
        node.last_seen,
        node.clone_of,
        None if node.drain is None else json.dumps(node.drain),
        None if node.announced is None else json.dumps(node.announced),
    )


def _registered(row: Sequence[Any]) -> Registered:
    blob, *middle, drain, announced = row
    return Registered(*(_hello(blob), *middle))._replace(
        drain=None if drain is None else Drain(*json.loads(drain)),
        announced=None if announced is None else tuple(json.loads(announced)),
    )


def _credential(row: Sequence[Any]) -> Credential:
    ident, token_hash, scopes, *rest = row
    return Credential(ident, token_hash, frozenset(scopes.split()), *rest)


def _hello(blob: bytes) -> Hello:
    for message in Stream().feed(blob):
        if isinstance(message, Hello):
            return message
    raise Damaged("the registry holds a node without its hello: restore a backup")


def _series(blob: bytes) -> Floats:
    return np.frombuffer(blob, dtype="<f8").astype(np.float64).reshape(-1, 4)
