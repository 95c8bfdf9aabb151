"""The database's tables, and the way from each version to the next.

A version that was released is never edited; a change is a step of its own,
run in one transaction with the number it leads to (PRAGMA user_version).
"""

import sqlite3

STEPS = (
    # 1: registry, minutes, credentials
    """
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
    """,
    # 2: drains, what nodes hold, hours, events, decisions, forecasts, notices
    """
    -- drain, announced: JSON, null for none
    ALTER TABLE nodes ADD COLUMN drain TEXT;
    ALTER TABLE nodes ADD COLUMN announced TEXT;
    CREATE TABLE hours (
      node BLOB NOT NULL, hour INTEGER NOT NULL, samples INTEGER NOT NULL,
      series BLOB NOT NULL, PRIMARY KEY (node, hour)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX hours_by_age ON hours (hour);
    CREATE TABLE events (
      id INTEGER PRIMARY KEY, unix REAL NOT NULL, kind TEXT NOT NULL,
      node TEXT, node_id TEXT, reason TEXT NOT NULL, made_by TEXT,
      details TEXT NOT NULL
    ) STRICT;
    CREATE TABLE decisions (
      id TEXT PRIMARY KEY, unix REAL NOT NULL, document TEXT NOT NULL
    ) STRICT;
    CREATE INDEX decisions_by_age ON decisions (unix);
    CREATE TABLE forecasts (key TEXT PRIMARY KEY, state BLOB NOT NULL) STRICT;
    -- what other commands have to tell the service, which makes events of them
    CREATE TABLE notices (
      id INTEGER PRIMARY KEY, unix REAL NOT NULL, kind TEXT NOT NULL,
      reason TEXT NOT NULL
    ) STRICT;
    """,
)
VERSION = len(STEPS)


class TooNew(RuntimeError):
    """The file was written by a newer version of this program."""

    def __init__(self, version: int) -> None:
        super().__init__(
            f"written by a newer trimtab (schema {version}, this one knows "
            f"{VERSION}): upgrade, or name another state_dir"
        )


def migrate(db: sqlite3.Connection) -> None:
    """Bring the tables to the newest version; TooNew if they are past it."""
    version: int
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise TooNew(version)
    for number in range(version + 1, VERSION + 1):
        db.executescript(
            f"BEGIN IMMEDIATE;{STEPS[number - 1]}PRAGMA user_version = {number};COMMIT;"
        )
