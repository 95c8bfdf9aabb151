"""Who may join: a hello becomes a row of the fleet, or a refusal.

A node is its random id. At enrolment it brings a token (none is needed while
the collector is open) and a key, whose hash is bound to the id from then on:
the key alone admits later, and the id with another key is refused, so no
node can report for another. The name is a label: a second holder is shown
as name~2.
"""

import hmac
from collections.abc import Container

from trimtab.wire import Hello, Reason, Refused

from .credentials import Credentials, digest
from .events import Events, Kind
from .fleet import Fleet
from .node import Node, clone_id
from .states import Admin, State
from .store import Registered

# One key must not fill the fleet.
MOST_CLONES = 4
TOMBSTONE_RETRY_S = 300


def admit(
    fleet: Fleet,
    credentials: Credentials,
    events: Events,
    hello: Hello,
    now: float,
    unix_now: float,
    max_nodes: int,
    speaking: Container[int],
) -> int | Refused:
    """Return the node's row, new or known, or why it is refused.

    One id from two boots at once is a clone, a disk that was copied: while
    the first is `speaking`, the second is shown beside it, under an id of its
    own, so that neither counts for the other.
    """
    index = fleet.find_id(hello.node_id)
    key_hash = None if hello.key is None else digest(hello.key)
    if index is not None:
        bound = fleet.nodes[index].key_hash
        if bound is not None and (
            key_hash is None or not hmac.compare_digest(bound, key_hash)
        ):
            return Refused(
                Reason.CREDENTIAL,
                f"node id {hello.node_id.hex()} is bound to another key: if this "
                "host was re-installed, delete its state folder to enrol anew",
            )
    if index is None or fleet.nodes[index].key_hash is None:
        if not credentials.allows(hello.token, "agent", unix_now):
            return Refused(
                Reason.CREDENTIAL,
                "enrolment needs a valid token of scope agent: make one with "
                "'trimtab-collector token create --scope agent'",
            )
        if key_hash is None and not credentials.open:
            return Refused(Reason.CREDENTIAL, "enrolment needs a key of 32 bytes")
    if index is not None and fleet.admin[index] == Admin.TOMBSTONED:
        return Refused(
            Reason.CREDENTIAL,
            f"node {fleet.nodes[index].name} was deleted: 'trimtab undrain "
            f"{fleet.nodes[index].hex_id}' lets it back, or delete this host's "
            "state folder to enrol as a new node",
            retry_s=TOMBSTONE_RETRY_S,
        )
    known = hello._replace(key=None, token=None)
    clone_of = None
    if index is not None and _is_clone(fleet, index, hello, speaking):
        clone_of = fleet.nodes[index].name
        index = fleet.find_id(clone_id(hello.node_id, hello.boot_id))
        if index is None and _clones(fleet, clone_of) >= MOST_CLONES:
            return Refused(
                Reason.LIMIT,
                f"{clone_of} has {MOST_CLONES} clones already: on the copied hosts "
                "delete the agent's state folder, so that each enrols as itself",
                retry_s=60,
            )
    if index is None and len(fleet) >= max_nodes:
        return Refused(
            Reason.LIMIT,
            f"the fleet has its {max_nodes} nodes: raise max_nodes, or find out who "
            "enrols so many",
            retry_s=60,
        )
    if index is None:
        node = Node(
            hello=known,
            name=fleet.free_name(hello.name),
            key_hash=key_hash,
            first_seen=unix_now,
            last_seen=unix_now,
            clone_of=clone_of,
        )
        index = fleet.add(node, now, State.JOINING)
        _say_new(events, node)
    else:
        _update(fleet, events, index, known, key_hash)
    silence_s = None if hello.silence_ms is None else hello.silence_ms / 1000
    fleet.greet(index, hello.interval_ms / 1000, silence_s)
    return index


def _clones(fleet: Fleet, name: str) -> int:
    return sum(fleet.nodes[row].clone_of == name for row in fleet.rows())


def _is_clone(fleet: Fleet, index: int, hello: Hello, speaking: Container[int]) -> bool:
    if fleet.nodes[index].hello.boot_id == hello.boot_id:
        return False
    known = fleet.find_id(clone_id(hello.node_id, hello.boot_id))
    return known is not None or index in speaking


def _say_new(events: Events, node: Node) -> None:
    if node.clone_of is not None:
        events.say(
            Kind.CLONE,
            f"two boots speak as {node.clone_of}: its disk was copied, and the copy "
            f"is shown as {node.name} until it enrols as itself",
            node=node.name,
            node_id=node.hex_id,
            clone_of=node.clone_of,
        )
        return
    events.say(
        Kind.ENROLLED,
        "first hello of this id",
        node=node.name,
        node_id=node.hex_id,
        agent_version=node.hello.agent_version,
    )


def _update(
    fleet: Fleet,
    events: Events,
    index: int,
    hello: Hello,
    key_hash: bytes | None,
) -> None:
    node = fleet.nodes[index]
    if node.hello.name != hello.name:
        before = node.name
        fleet.rename(index, fleet.free_name(hello.name))
        events.say(
            Kind.RENAMED,
            f"was {before}",
            node=node.name,
            node_id=node.hex_id,
            before=before,
        )
    if node.hello.boot_id != hello.boot_id:
        fleet.seq[index] = -1
        events.say(Kind.BOOT, "booted anew", node=node.name, node_id=node.hex_id)
    node.greet(hello)
    node.key_hash = node.key_hash or key_hash


def recall(
    fleet: Fleet, registered: list[Registered], now: float, lost_after_s: float
) -> None:
    """Fill an empty fleet from the registry.

    Whoever was heard of to the last starts as unknown. Whoever had been silent
    for long before that was lost, and is so still: a restart is no news of it.
    """
    ended = max((r.last_seen for r in registered), default=0.0)
    for r in registered:
        node = Node(
            hello=r.hello,
            name=r.name,
            key_hash=r.key_hash,
            first_seen=r.first_seen,
            last_seen=r.last_seen,
            clone_of=r.clone_of,
            announced=r.announced,
        )
        was_lost = ended - r.last_seen > lost_after_s
        index = fleet.add(node, now, State.LOST if was_lost else State.UNKNOWN)
        fleet.admin[index] = r.admin
        if r.drain is not None:
            fleet.drains[index] = r.drain
        fleet.seq[index] = r.seq
        silence_s = None if r.hello.silence_ms is None else r.hello.silence_ms / 1000
        fleet.greet(index, r.hello.interval_ms / 1000, silence_s)
