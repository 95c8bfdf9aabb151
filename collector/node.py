"""One node of the fleet: who it is, as opposed to how it is doing."""

from dataclasses import dataclass

from trimtab.wire import Hello, Hole, Link


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

    @property
    def node_id(self) -> bytes:
        """The 16 bytes that the node made at its enrolment."""
        return self.hello.node_id

    @property
    def hex_id(self) -> str:
        """The id as routes and answers show it."""
        return self.hello.node_id.hex()
