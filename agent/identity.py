"""Who this node is: a random id and key, made once and kept.

Never derived from a MAC address, a host name or a machine id: those are
shared by clones and change with repairs. The file is readable by its owner
alone; the collector binds the key to the id at enrolment.
"""

import json
import os
import stat
from contextlib import suppress
from typing import NamedTuple

from .paths import StrPath, exists

ID_BYTES = 16
KEY_BYTES = 32
FILE = "identity.json"


class Identity(NamedTuple):
    """The two random values of an enrolment."""

    node_id: bytes
    key: bytes


class NoIdentity(RuntimeError):
    """The identity can't be read or kept; the text says what to do."""


def load_or_make(state_dir: StrPath) -> Identity:
    """Return this node's identity, made at the first call."""
    path = os.path.join(state_dir, FILE)
    try:
        if exists(path):
            return _load(path)
        os.makedirs(state_dir, mode=0o700, exist_ok=True)
        identity = Identity(os.urandom(ID_BYTES), os.urandom(KEY_BYTES))
        _save(path, identity)
    except OSError as exc:
        raise NoIdentity(
            f"{path}: {exc.strerror}. The agent keeps its identity there: make "
            "the folder writable for this user, or set state_dir"
        ) from exc
    return identity


def known(state_dir: StrPath) -> bool:
    """Whether this node has an identity already."""
    return exists(os.path.join(state_dir, FILE))


def check(state_dir: StrPath) -> str:
    """Return what there is of an identity, keeping nothing; or NoIdentity."""
    path = os.path.join(state_dir, FILE)
    try:
        if exists(path):
            return f"node {_load(path).node_id.hex()}, kept in {state_dir}"
        nearest = os.path.abspath(state_dir)
        while not exists(nearest):
            nearest = os.path.dirname(nearest)
        import tempfile

        with tempfile.TemporaryFile(dir=nearest):
            return f"none yet; the first run makes it in {state_dir}"
    except OSError as exc:
        reason = str(exc.strerror)
    raise NoIdentity(
        f"{path}: {reason}. The agent keeps its identity there: make the folder "
        "writable for this user, or set state_dir"
    )


def _load(path: str) -> Identity:
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise NoIdentity(f"{path}: not a file; delete it to enrol as a new node")
    if mode & 0o077:
        raise NoIdentity(
            f"{path}: mode {mode & 0o777:04o} lets others read this node's key. "
            "Set it to 0600, and delete the file to enrol anew if it was read"
        )
    try:
        held = json.loads(_text(path))
        identity = Identity(bytes.fromhex(held["id"]), bytes.fromhex(held["key"]))
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise NoIdentity(
            f"{path}: not an identity ({exc}). Restore it from a backup, or "
            "delete it to enrol as a new node"
        ) from exc
    if len(identity.node_id) != ID_BYTES or len(identity.key) != KEY_BYTES:
        raise NoIdentity(f"{path}: id or key has a wrong length; delete it to enrol")
    return identity


def _save(path: str, identity: Identity) -> None:
    # Whole or not at all: a power cut must not leave half an identity.
    draft = f"{path}.{os.urandom(4).hex()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            json.dump({"id": identity.node_id.hex(), "key": identity.key.hex()}, file)
            file.flush()
            os.fsync(descriptor)
        os.replace(draft, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(draft)
        raise


def _text(path: StrPath) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def read_token(path: StrPath, *, guarded: bool = False) -> str:
    """Return the enrolment token in a file; NoIdentity says what is wrong.

    `guarded`: something else keeps others out, as systemd does with its
    credentials, whose mode shows the ACL's mask and not who may read.
    """
    try:
        mode = os.stat(path).st_mode
        text = _text(path).strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise NoIdentity(f"token file {path} can't be read: {exc}") from exc
    if mode & 0o077 and not guarded:
        raise NoIdentity(
            f"token file {path}: mode {mode & 0o777:04o} lets others read it; "
            "set it to 0600"
        )
    if not text or len(text) > 255 or not text.isprintable():
        raise NoIdentity(f"token file {path}: expected one line with the token")
    return text
