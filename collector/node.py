"""One node of the fleet: who it is, as opposed to how it is doing."""

import hashlib
from dataclasses import dataclass

from trimtab.wire import Gpus, Hello, Hole, Link

from .waiting import alone


@dataclass(slots=True)
class Node:
    """The part of a node that is no number; numbers are the table's columns."""

    hello: Hello  # the last one, without key and token; holds as last said by anyone
    name: str  # as shown: unique in the fleet
    key_hash: bytes | None
    first_seen: float  # Unix seconds
    last_seen: float  # Unix seconds, of the last frame or hello
    newest: bytes | None = None  # the newest live frame, as it came
    gaps: int = 0  # as of that frame
    clone_of: str | None = None  # the name of the node with the same id
    # What its own last hello held, once someone else has said otherwise: only
    # a hello that differs from it is newer than their word.
    announced: tuple[str, ...] | None = None

    def greet(self, hello: Hello) -> None:
        """Take a hello of this node."""
        said = hello.inventory.holds
        if self.announced is not None and said == self.announced:
            held = hello.inventory._replace(holds=self.hello.inventory.holds)
            hello = hello._replace(inventory=held)
        else:
            self.announced = None
        self.hello = hello

    def hold(self, holds: tuple[str, ...]) -> None:
        """Take somebody's word for the data it holds."""
        inventory = self.hello.inventory
        if self.announced is None:
            self.announced = inventory.holds
        self.hello = self.hello._replace(inventory=inventory._replace(holds=holds))

    @property
    def links(self) -> tuple[Link, ...]:
        """Its links, as of the newest live frame."""
        return () if self.newest is None else alone(self.newest).links

    @property
    def holes(self) -> tuple[Hole, ...]:
        """Its signals without a fresh value, as of the newest live frame."""
        return () if self.newest is None else alone(self.newest).holes

    @property
    def gpus(self) -> Gpus | None:
        """Its GPUs, as of the newest live frame; None: no GPU probe."""
        return None if self.newest is None else alone(self.newest).gpus

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
