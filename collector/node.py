"""One node of the fleet: who it is, as opposed to how it is doing."""

import hashlib
from dataclasses import dataclass

from trimtab.wire import Gpus, Hello, Hole, Link


@dataclass(slots=True)
class Node:
    """The part of a node that is no number; numbers are the table's columns."""

    hello: Hello  # the last one, without key and token
    name: str  # as shown: unique in the fleet
    key_hash: bytes | None
    first_seen: float  # Unix seconds
    last_seen: float  # Unix seconds, of the last frame or hello
    links: tuple[Link, ...] = ()
    holes: tuple[Hole, ...] = ()
    gaps: int = 0
    gpus: Gpus | None = None
    clone_of: str | None = None  # the name of the node with the same id

    @property
    def shown_id(self) -> bytes:
        """The 16 bytes it is known by here: its own id, a clone's another."""
        if self.clone_of is None:
            return self.hello.node_id
        return clone_id(self.hello.node_id, self.hello.boot_id)

    @property
    def node_id(self) -> bytes:
        """The 16 bytes that the node made at its enrolment."""
        return self.hello.node_id

    @property
    def hex_id(self) -> str:
        """The id as routes and answers show it."""
        return self.shown_id.hex()


def clone_id(node_id: bytes, boot_id: bytes) -> bytes:
    """Return what a clone is known by: it has the id of another node."""
    return hashlib.sha256(b"clone" + node_id + boot_id).digest()[:16]
