"""Who this node is: a random id and key, made once and kept.

Never derived from a MAC address, a host name or a machine id: those are
shared by clones and change with repairs. The file is readable by its owner
alone; the collector binds the key to the id at enrolment.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

ID_BYTES = 16
KEY_BYTES = 32
FILE = "identity.json"


class Identity(NamedTuple):
    """The two random values of an enrolment."""

    node_id: bytes
    key: bytes


class NoIdentity(RuntimeError):
    """The identity can't be read or kept; the text says what to do."""


def load_or_make(state_dir: Path) -> Identity:
    """Return this node's identity, made at the first call."""
    path = state_dir / FILE
    try:
        if path.exists():
            return _load(path)
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        identity = Identity(os.urandom(ID_BYTES), os.urandom(KEY_BYTES))
        _save(path, identity)
    except OSError as exc:
        raise NoIdentity(
            f"{path}: {exc.strerror}. The agent keeps its identity there: make "
            "the folder writable for this user, or set state_dir"
        ) from exc
    return identity


def known(state_dir: Path) -> bool:
    """Whether this node has an identity already."""
    return (state_dir / FILE).exists()


def check(state_dir: Path) -> str:
    """Return what there is of an identity, keeping nothing; or NoIdentity."""
    path = state_dir / FILE
    try:
        if path.exists():
            return f"node {_load(path).node_id.hex()}, kept in {state_dir}"
        nearest = next(p for p in (state_dir, *state_dir.parents) if p.exists())
        import tempfile

        with tempfile.TemporaryFile(dir=nearest):
            return f"none yet; the first run makes it in {state_dir}"
    except OSError as exc:
        reason = str(exc.strerror)
    raise NoIdentity(
        f"{path}: {reason}. The agent keeps its identity there: make the folder "
        "writable for this user, or set state_dir"
    )


def _load(path: Path) -> Identity:
    mode = path.stat().st_mode
    if not path.is_file():
        raise NoIdentity(f"{path}: not a file; delete it to enrol as a new node")
    if mode & 0o077:
        raise NoIdentity(
            f"{path}: mode {mode & 0o777:04o} lets others read this node's key. "
            "Set it to 0600, and delete the file to enrol anew if it was read"
        )
    try:
        held = json.loads(path.read_text())
        identity = Identity(bytes.fromhex(held["id"]), bytes.fromhex(held["key"]))
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise NoIdentity(
            f"{path}: not an identity ({exc}). Restore it from a backup, or "
            "delete it to enrol as a new node"
        ) from exc
    if len(identity.node_id) != ID_BYTES or len(identity.key) != KEY_BYTES:
        raise NoIdentity(f"{path}: id or key has a wrong length; delete it to enrol")
    return identity


def _save(path: Path, identity: Identity) -> None:
    # Whole or not at all: a power cut must not leave half an identity.
    import tempfile

    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".identity-")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump({"id": identity.node_id.hex(), "key": identity.key.hex()}, file)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_token(path: Path, *, guarded: bool = False) -> str:
    """Return the enrolment token in a file; NoIdentity says what is wrong.

    `guarded`: something else keeps others out, as systemd does with its
    credentials, whose mode shows the ACL's mask and not who may read.
    """
    try:
        mode = path.stat().st_mode
        text = path.read_text().strip()
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
