"""Messages to bytes: positional MessagePack arrays of quantised integers.

A value past its field's range is sent as the range's end; a negative or
non-finite one is a bug of the caller and raises ValueError. Trailing fields
without a value are left off where a reader takes absence for "no reading".
"""

import math
from collections.abc import Callable

import msgpack

from .limits import ARRAY_ITEMS, INT32, SAFE_INTEGER, UINT16, UINT32
from .messages import (
    Ack,
    Bye,
    Cpu,
    Echo,
    Frame,
    Gpu,
    GpuInfo,
    Gpus,
    Hello,
    Hole,
    Inventory,
    Io,
    Kind,
    Link,
    Memory,
    Message,
    Mig,
    Net,
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

# °C: the widest range that never takes more than two bytes.
TEMPERATURE_LEAST, TEMPERATURE_MOST = -128, 255


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


def _signed(value: int | None, least: int, most: int) -> int | None:
    return None if value is None else round(max(least, min(most, value)))


def _bits(value: int | None) -> int | None:
    """Return the low 32 bits: a set is cut, where a number would saturate."""
    if value is None:
        return None
    if value < 0:
        raise ValueError(f"a set of bits must be at least 0, got {value!r}")
    return value & UINT32


def _flag(value: bool | None) -> int | None:
    return None if value is None else int(value)


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
        *_trimmed(
            [
                _scaled(i.cpu_quota, MILLI, UINT32),
                _scaled(i.memory_limit_mib, 1, UINT32),
                [_gpu_info(g) for g in i.gpus] or None,
                _flag(i.ephemeral),
                i.mode,
            ]
        ),
    ]


def _gpu_info(g: GpuInfo) -> list[object]:
    memory_mib = _scaled(g.memory_mib, 1, UINT32)
    return _trimmed(
        [g.device, g.uuid, g.name, memory_mib, _flag(g.unified), _flag(g.mig)]
    )


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
            None if m.gpus is None else _gpus(m.gpus),
            [_hole(hole) for hole in m.holes[:ARRAY_ITEMS]] or None,
            _io(m.io) or None,
            _net(m.net) or None,
            _signed(m.clock_offset_ms, -INT32, INT32),
        ]
    )


def _cpu(c: Cpu) -> list[object]:
    return _trimmed(
        [
            _share(c.stall),
            _scaled(c.run_queue, QUEUE_SCALE, UINT16),
            _share(c.steal),
            _share(c.busy),
            _share(c.throttled),
            _share(c.throttled_periods),
            _share(c.irq_stall),
            c.scope,
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
            _scaled(m.refaults_s, RATE_SCALE, UINT32),
            _scaled(m.high_events, 1, UINT16),
            _scaled(m.max_events, 1, UINT16),
            _scaled(m.oom_kills, 1, UINT16),
            m.scope,
        ]
    )


def _io(i: Io) -> list[object]:
    return _trimmed([_share(i.stall_some), _share(i.stall_full)])


def _net(n: Net) -> list[object]:
    return _trimmed(
        [
            _share(n.utilisation),
            _scaled(n.errors_s, RATE_SCALE, UINT16),
            _scaled(n.drops_s, RATE_SCALE, UINT16),
            _scaled(n.softnet_drops_s, RATE_SCALE, UINT16),
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
            _scaled(k.retransmits, 1, UINT16),
            _scaled(k.tcp_rtt_us, 1, UINT32),
            _scaled(k.tcp_rttvar_us, 1, UINT32),
        ]
    )


def _gpus(s: Gpus) -> list[object]:
    return _trimmed(
        [
            s.state,
            _scaled(s.age_ms, 1, UINT32),
            _share(s.stranding),
            _share(s.mig_stranding),
            _scaled(s.restarts, 1, UINT32),
            [_gpu(gpu) for gpu in s.devices] or None,
        ]
    )


def _gpu(g: Gpu) -> list[object]:
    return _trimmed(
        [
            g.device,
            g.health,
            _scaled(g.free_mib, 1, UINT32),
            _scaled(g.used_mib, 1, UINT32),
            _scaled(g.reserved_mib, 1, UINT32),
            _share(g.busy),
            _share(g.effective),
            g.method,
            _flag(g.pseudo_high),
            _share(g.clock),
            _bits(g.throttle),
            _scaled(g.power_mw, 1, UINT32),
            _signed(g.temperature_c, TEMPERATURE_LEAST, TEMPERATURE_MOST),
            _bits(g.reasons),
            _scaled(g.xid, 1, UINT16),
            [_mig(instance) for instance in g.mig] or None,
        ]
    )


def _mig(m: Mig) -> list[object]:
    free_mib = _scaled(m.free_mib, 1, UINT32)
    return _trimmed([m.instance, m.slices, free_mib, _scaled(m.used_mib, 1, UINT32)])


def _hole(h: Hole) -> list[object]:
    age_ms = _scaled(h.age_ms, 1, UINT32)
    return _trimmed([NUMBERS[h.signal], h.state, age_ms, h.peer])


def _echo(m: Echo) -> list[object]:
    return _trimmed([Kind.ECHO, int(m.reply), m.ident, m.stamp_us, m.unix_ms])


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
