"""Messages to bytes: positional MessagePack arrays of quantised integers.

A value past its field's range is sent as the range's end; a negative or
non-finite one is a bug of the caller and raises ValueError. Trailing fields
without a value are left off where a reader takes absence for "no reading".
"""

import math
from collections.abc import Callable

import msgpack

from .limits import SAFE_INTEGER, UINT32
from .messages import (
    Ack,
    Bye,
    Cpu,
    Echo,
    Frame,
    Hello,
    Hole,
    Inventory,
    Kind,
    Link,
    Memory,
    Message,
    Refused,
    Welcome,
)
from .signals import NUMBERS

# Scales: one unit on the wire is 1/scale of the unit in messages.py.
SHARE_SCALE = 10_000
QUEUE_SCALE = 100
BYTES_SCALE = 1 / 1024
RATE_SCALE = 10
MILLI = 1000

QUEUE_LIMIT = 65_535


def encode(message: Message) -> bytes:
    """Return the bytes of one message."""
    return _PACK(_ARRAYS[type(message)](message))


def _scaled(value: float | None, scale: float, limit: int) -> int | None:
    if value is None:
        return None
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"a reading must be finite and at least 0, got {value!r}")
    return round(min(limit, value * scale))


def _share(value: float | None) -> int | None:
    return _scaled(value, SHARE_SCALE, SHARE_SCALE)


def _trimmed(items: list[object]) -> list[object]:
    while items and items[-1] is None:
        items.pop()
    return items


def _hello(m: Hello) -> list[object]:
    return [
        Kind.HELLO,
        m.protocol,
        m.node_id,
        m.boot_id,
        m.name,
        m.key,
        m.token,
        m.machine,
        m.agent_version,
        m.interval_ms,
        m.silence_ms,
        m.boot_ms,
        _inventory(m.inventory),
    ]


def _inventory(i: Inventory) -> list[object]:
    return [
        i.cpus,
        i.memory_mib,
        i.targets,
        i.address,
        i.site,
        i.zone,
        i.operator,
        i.groups,
        dict(i.labels),
        i.holds,
        dict(i.resources),
        _scaled(i.price, MILLI, UINT32),
        i.slots,
        _scaled(i.speed, MILLI, UINT32),
    ]


def _welcome(m: Welcome) -> list[object]:
    return [
        Kind.WELCOME,
        m.protocol,
        m.name,
        m.server_ms,
        m.interval_ms,
        m.peers,
        m.stored_seq,
    ]


def _refused(m: Refused) -> list[object]:
    return [Kind.REFUSED, m.reason, m.text[:500], m.retry_s]


def _frame(m: Frame) -> list[object]:
    return _trimmed(
        [
            Kind.FRAME,
            _scaled(m.seq, 1, SAFE_INTEGER),
            _scaled(m.boot_ms, 1, SAFE_INTEGER),
            _scaled(m.gaps, 1, UINT32),
            _cpu(m.cpu),
            _memory(m.memory),
            [_link(link) for link in m.links],
            None,  # GPUs: reserved
            [_hole(hole) for hole in m.holes] or None,
        ]
    )


def _cpu(c: Cpu) -> list[object]:
    return _trimmed(
        [
            _share(c.stall),
            _scaled(c.run_queue, QUEUE_SCALE, QUEUE_LIMIT),
            _share(c.steal),
            _share(c.busy),
        ]
    )


def _memory(m: Memory) -> list[object]:
    return _trimmed(
        [
            _share(m.stall_some),
            _share(m.stall_full),
            _share(m.available),
            _scaled(m.swap_in_bytes_s, BYTES_SCALE, UINT32),
            _scaled(m.swap_out_bytes_s, BYTES_SCALE, UINT32),
            _scaled(m.major_faults_s, RATE_SCALE, UINT32),
        ]
    )


def _link(k: Link) -> list[object]:
    return _trimmed(
        [
            k.peer,
            k.method,
            _scaled(k.rtt_us, 1, UINT32),
            _scaled(k.rtt_min_us, 1, UINT32),
            _scaled(k.rtt_p95_us, 1, UINT32),
            _scaled(k.jitter_us, 1, UINT32),
            _share(k.loss),
            _scaled(k.retransmits, 1, UINT32),
        ]
    )


def _hole(h: Hole) -> list[object]:
    age_ms = _scaled(h.age_ms, 1, UINT32)
    return _trimmed([NUMBERS[h.signal], h.state, age_ms, h.peer])


def _echo(m: Echo) -> list[object]:
    return [Kind.ECHO, int(m.reply), m.ident, m.stamp_us]


def _ack(m: Ack) -> list[object]:
    return [Kind.ACK, m.seq]


def _bye(m: Bye) -> list[object]:
    return [Kind.BYE, m.why, m.back_s]


_PACK: Callable[[object], bytes] = msgpack.Packer().pack
_ARRAYS: dict[type, Callable[..., list[object]]] = {
    Hello: _hello,
    Welcome: _welcome,
    Refused: _refused,
    Frame: _frame,
    Echo: _echo,
    Ack: _ack,
    Bye: _bye,
}
