"""One unpacked MessagePack object to a typed message, or Malformed.

Appended fields are ignored and missing ones read as their defaults, so a
newer and an older peer understand each other. A message of a kind this
version does not know is None: skip it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, TypeVar

from . import fields
from .encode import (
    MILLI,
    SHARE_SCALE,
    TEMPERATURE_LEAST,
    TEMPERATURE_MOST,
)
from .errors import Malformed
from .fields import CLOCK_OFFSET, GAPS, Field
from .limits import (
    ARRAY_ITEMS,
    GPUS,
    HOLDS,
    LINKS,
    MAP_ITEMS,
    MIGS,
    SAFE_INTEGER,
    UINT16,
    UINT32,
)
from .messages import (
    Ack,
    Bye,
    Cpu,
    Echo,
    Farewell,
    Frame,
    Gpu,
    GpuHealth,
    GpuInfo,
    GpuMethod,
    Gpus,
    GpuState,
    Hello,
    Hole,
    Inventory,
    Io,
    Kind,
    Link,
    Memory,
    Message,
    Method,
    Mig,
    Net,
    Reason,
    Refused,
    Scope,
    Welcome,
)
from .signals import SIGNALS, State
from .version import PROTOCOL

_E = TypeVar("_E", bound=IntEnum)
_N = TypeVar("_N")
_Array = tuple[object, ...]

# What may be shown in a terminal, a log and a URL without harm.
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]*")
NODE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")

ID_BYTES = 16
KEY_BYTES = 32
SHORT_CHARS = 255
INTERVAL_LEAST_MS = 10
INTERVAL_LIMIT_MS = 3_600_000
SILENCE_LIMIT_MS = 86_400_000


def decode(item: object) -> Message | None:
    """Return the message, None for an unknown kind; Malformed otherwise."""
    if type(item) is not tuple:  # an empty ExtType is one, too
        raise Malformed("message", "an array whose first item is its kind", item)
    if not item:
        raise Malformed("message", "at least a kind", item)
    kind = item[0]
    if type(kind) is not int or not 0 < kind < 128:
        raise Malformed("message.kind", "an integer 1..127", kind)
    reader = _READERS.get(kind)
    return None if reader is None else reader(item)


def _padded(item: object, where: str, required: int, total: int) -> _Array:
    """Return exactly `total` fields: absent ones None, appended ones cut."""
    if not isinstance(item, tuple):
        raise Malformed(where, "an array", item)
    if len(item) < required:
        raise Malformed(where, f"at least {required} items", item)
    if len(item) >= total:
        return item[:total]
    return item + (None,) * (total - len(item))


def _uint(value: object, limit: int, where: str) -> int:
    if type(value) is not int or not 0 <= value <= limit:
        raise Malformed(where, f"an integer 0..{limit}", value)
    return value


def _maybe_uint(value: object, limit: int, where: str) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= limit:
        raise Malformed(where, f"an integer 0..{limit} or nil", value)
    return value


def _scaled(value: object, scale: float, limit: int, where: str) -> float | None:
    number = _maybe_uint(value, limit, where)
    return None if number is None else number / scale


def _share(value: object, where: str) -> float | None:
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= SHARE_SCALE:
        raise Malformed(where, f"an integer 0..{SHARE_SCALE} or nil", value)
    return value / SHARE_SCALE


def _maybe_signed(value: object, least: int, most: int, where: str) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not least <= value <= most:
        raise Malformed(where, f"an integer {least}..{most} or nil", value)
    return value


def _numbers(item: object, known: Sequence[Field], where: str) -> list[Any]:
    """Return the values of an array of numbers, unscaled where it says so."""
    if not isinstance(item, tuple):
        raise Malformed(where, "an array", item)
    values: list[Any] = []
    for value, field in zip(item, known, strict=False):
        name, most, scale, least, required = field
        if value is None and not required:
            values.append(None)
        elif type(value) is not int or not least <= value <= most:
            nil = "" if required else " or nil"
            expected = f"an integer {least}..{most}{nil}"
            raise Malformed(f"{where}.{name}", expected, value)
        else:
            values.append(value if scale is None else value / scale)
    missing = known[len(values) :]
    if any(field.required for field in missing):
        least = sum(field.required for field in known)
        raise Malformed(where, f"at least {least} items", item)
    values += [None] * len(missing)
    return values


def _flag(value: object, where: str) -> bool | None:
    return None if value is None else _uint(value, 1, where) == 1


def _enum(kind: type[_E], value: object, newer: _N, where: str) -> _E | _N:
    """Return the member; `newer` for a number that this version doesn't know."""
    number = _uint(value, 127, where)
    try:
        return kind(number)
    except ValueError:
        return newer


def _text(value: object, where: str, limit: int = SHORT_CHARS) -> str:
    if (
        not isinstance(value, str)
        or len(value) > limit
        or _PRINTABLE.fullmatch(value) is None
    ):
        raise Malformed(where, f"printable text of at most {limit} characters", value)
    return value


def _maybe_text(value: object, where: str) -> str | None:
    return None if value is None else _text(value, where)


def _bytes(value: object, length: int, where: str) -> bytes:
    if not isinstance(value, bytes) or len(value) != length:
        got = type(value) if isinstance(value, str) else value  # maybe a token
        raise Malformed(where, f"{length} bytes", got)
    return value


def _maybe_bytes(value: object, length: int, where: str) -> bytes | None:
    return None if value is None else _bytes(value, length, where)


def _array(value: object, limit: int, where: str) -> _Array:
    if value is None:
        return ()
    if not isinstance(value, tuple) or len(value) > limit:
        raise Malformed(where, f"an array of at most {limit}", value)
    return value


def _texts(value: object, where: str, limit: int) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, tuple) or len(value) > limit:
        raise Malformed(where, f"an array of at most {limit} texts", value)
    return tuple(_text(item, f"{where}[{i}]") for i, item in enumerate(value))


def _interval(value: object, where: str) -> int:
    limits = range(INTERVAL_LEAST_MS, INTERVAL_LIMIT_MS + 1)
    if type(value) is not int or value not in limits:
        raise Malformed(where, f"an integer {limits[0]}..{limits[-1]}", value)
    return value


def _map(value: object, where: str) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > MAP_ITEMS:
        raise Malformed(where, f"a map of at most {MAP_ITEMS} pairs", value)
    return {_text(k, f"{where} key"): v for k, v in value.items()}


def _hello(item: _Array) -> Hello:
    protocol = _padded(item, "hello", 2, 2)[1]
    if _uint(protocol, UINT32, "hello.protocol") != PROTOCOL:
        # The rest may be laid out in a way this version can't know.
        raise Malformed("hello.protocol", f"protocol {PROTOCOL}", protocol)
    f = _padded(item, "hello", 5, 13)
    name = f[4]
    if not isinstance(name, str) or NODE_NAME.fullmatch(name) is None:
        raise Malformed(
            "hello.name",
            "1 to 63 letters, digits, '.', '_' or '-', first and last no sign",
            name,
        )
    token = f[6]
    if token is not None and not (isinstance(token, str) and len(token) <= SHORT_CHARS):
        raise Malformed("hello.token", "text or nil", type(token))
    return Hello(
        protocol=PROTOCOL,
        node_id=_bytes(f[2], ID_BYTES, "hello.node_id"),
        boot_id=_bytes(f[3], ID_BYTES, "hello.boot_id"),
        name=name,
        key=_maybe_bytes(f[5], KEY_BYTES, "hello.key"),
        token=token,
        machine=_maybe_bytes(f[7], ID_BYTES, "hello.machine"),
        agent_version="" if f[8] is None else _text(f[8], "hello.agent_version"),
        interval_ms=1000 if f[9] is None else _interval(f[9], "hello.interval_ms"),
        silence_ms=_maybe_uint(f[10], SILENCE_LIMIT_MS, "hello.silence_ms"),
        boot_ms=0 if f[11] is None else _uint(f[11], SAFE_INTEGER, "hello.boot_ms"),
        inventory=_inventory(() if f[12] is None else f[12]),
    )


def _inventory(item: object) -> Inventory:
    where = "hello.inventory"
    f = _padded(item, where, 0, 19)
    labels = _map(f[8], f"{where}.labels")
    resources = _map(f[10], f"{where}.resources")
    return Inventory(
        cpus=_maybe_uint(f[0], UINT16, f"{where}.cpus"),
        memory_mib=_maybe_uint(f[1], UINT32, f"{where}.memory_mib"),
        targets=_texts(f[2], f"{where}.targets", LINKS - 1),
        address=_maybe_text(f[3], f"{where}.address"),
        site=_maybe_text(f[4], f"{where}.site"),
        zone=_maybe_text(f[5], f"{where}.zone"),
        operator=_maybe_text(f[6], f"{where}.operator"),
        groups=_texts(f[7], f"{where}.groups", MAP_ITEMS),
        labels={k: _text(v, f"{where}.labels[{k!a}]") for k, v in labels.items()},
        holds=_texts(f[9], f"{where}.holds", HOLDS),
        resources={
            k: _uint(v, UINT32, f"{where}.resources[{k!a}]")
            for k, v in resources.items()
        },
        price=_scaled(f[11], MILLI, UINT32, f"{where}.price"),
        slots=_maybe_uint(f[12], UINT16, f"{where}.slots"),
        speed=_scaled(f[13], MILLI, UINT32, f"{where}.speed"),
        cpu_quota=_scaled(f[14], MILLI, UINT32, f"{where}.cpu_quota"),
        memory_limit_mib=_maybe_uint(f[15], UINT32, f"{where}.memory_limit_mib"),
        gpus=tuple(
            _gpu_info(g, f"{where}.gpus[{i}]")
            for i, g in enumerate(_array(f[16], GPUS, f"{where}.gpus"))
        ),
        ephemeral=_flag(f[17], f"{where}.ephemeral"),
        mode=_maybe_text(f[18], f"{where}.mode"),
    )


def _gpu_info(item: object, where: str) -> GpuInfo:
    f = _padded(item, where, 3, 6)
    return GpuInfo(
        device=_uint(f[0], GPUS - 1, f"{where}.device"),
        uuid=_text(f[1], f"{where}.uuid"),
        name=_text(f[2], f"{where}.name"),
        memory_mib=_maybe_uint(f[3], UINT32, f"{where}.memory_mib"),
        unified=_flag(f[4], f"{where}.unified"),
        mig=_flag(f[5], f"{where}.mig"),
    )


def _welcome(item: _Array) -> Welcome:
    f = _padded(item, "welcome", 4, 7)
    return Welcome(
        protocol=_uint(f[1], UINT32, "welcome.protocol"),
        name=_text(f[2], "welcome.name"),
        server_ms=_uint(f[3], SAFE_INTEGER, "welcome.server_ms"),
        interval_ms=None if f[4] is None else _interval(f[4], "welcome.interval_ms"),
        peers=_texts(f[5], "welcome.peers", LINKS - 1),
        stored_seq=_maybe_uint(f[6], SAFE_INTEGER, "welcome.stored_seq"),
    )


def _refused(item: _Array) -> Refused:
    f = _padded(item, "refused", 3, 4)
    return Refused(
        reason=_enum(Reason, f[1], Reason.OTHER, "refused.reason"),
        text=_text(f[2], "refused.text", 500),
        retry_s=_maybe_uint(f[3], 86_400, "refused.retry_s"),
    )


def _frame(item: _Array) -> Frame:
    f = _padded(item, "frame", 3, 12)
    links = _array(f[6], LINKS, "frame.links")
    holes = _array(f[8], ARRAY_ITEMS, "frame.holes")
    return Frame(
        seq=_uint(f[1], SAFE_INTEGER, "frame.seq"),
        boot_ms=_uint(f[2], SAFE_INTEGER, "frame.boot_ms"),
        gaps=0 if f[3] is None else _uint(f[3], GAPS.most, "frame.gaps"),
        cpu=Cpu() if f[4] is None else _cpu(f[4]),
        memory=Memory() if f[5] is None else _memory(f[5]),
        links=tuple(_link(k, f"frame.links[{i}]") for i, k in enumerate(links)),
        holes=tuple(
            hole
            for i, h in enumerate(holes)
            if (hole := _hole(h, f"frame.holes[{i}]")) is not None
        ),
        gpus=None if f[7] is None else _gpus(f[7]),
        io=Io() if f[9] is None else Io(*_numbers(f[9], fields.IO, "frame.io")),
        net=Net() if f[10] is None else Net(*_numbers(f[10], fields.NET, "frame.net")),
        clock_offset_ms=_maybe_signed(
            f[11], CLOCK_OFFSET.least, CLOCK_OFFSET.most, "frame.clock_offset_ms"
        ),
    )


def _cpu(item: object) -> Cpu:
    values = _numbers(item, fields.CPU, "frame.cpu")
    values[-1] = _scope(values[-1])
    return Cpu(*values)


def _scope(number: int | None) -> Scope | None:
    # Of a newer agent: whatever it is, it is not the whole host.
    return None if number is None else _SCOPES.get(number, Scope.CONTAINER)


def _memory(item: object) -> Memory:
    values = _numbers(item, fields.MEMORY, "frame.memory")
    values[-1] = _scope(values[-1])
    return Memory(*values)


def _link(item: object, where: str) -> Link:
    peer, method, *values = _numbers(item, fields.LINK, where)
    return Link(peer, _METHODS.get(method), *values)


def _gpus(item: object) -> Gpus:
    where = "frame.gpus"
    f = _padded(item, where, 1, 6)
    return Gpus(
        # Of a newer agent: there may be values, but none to rely on.
        state=_enum(GpuState, f[0], GpuState.STALLED, f"{where}.state"),
        age_ms=_maybe_uint(f[1], UINT32, f"{where}.age_ms"),
        stranding=_share(f[2], f"{where}.stranding"),
        mig_stranding=_share(f[3], f"{where}.mig_stranding"),
        restarts=0 if f[4] is None else _uint(f[4], UINT32, f"{where}.restarts"),
        devices=tuple(
            _gpu(g, f"{where}.devices[{i}]")
            for i, g in enumerate(_array(f[5], GPUS, f"{where}.devices"))
        ),
    )


def _gpu(item: object, where: str) -> Gpu:
    f = _padded(item, where, 1, 16)
    celsius = _maybe_signed(
        f[12], TEMPERATURE_LEAST, TEMPERATURE_MOST, f"{where}.temperature_c"
    )
    return Gpu(
        device=_uint(f[0], GPUS - 1, f"{where}.device"),
        # Of a newer agent: some shade between whole and out of use.
        health=None
        if f[1] is None
        else _enum(GpuHealth, f[1], GpuHealth.LOWERED, f"{where}.health"),
        free_mib=_maybe_uint(f[2], UINT32, f"{where}.free_mib"),
        used_mib=_maybe_uint(f[3], UINT32, f"{where}.used_mib"),
        reserved_mib=_maybe_uint(f[4], UINT32, f"{where}.reserved_mib"),
        busy=_share(f[5], f"{where}.busy"),
        effective=_share(f[6], f"{where}.effective"),
        method=None
        if f[7] is None
        else _enum(GpuMethod, f[7], None, f"{where}.method"),
        pseudo_high=_flag(f[8], f"{where}.pseudo_high"),
        clock=_share(f[9], f"{where}.clock"),
        throttle=_maybe_uint(f[10], UINT32, f"{where}.throttle"),
        power_mw=_maybe_uint(f[11], UINT32, f"{where}.power_mw"),
        temperature_c=celsius,
        reasons=_maybe_uint(f[13], UINT32, f"{where}.reasons"),
        xid=_maybe_uint(f[14], UINT16, f"{where}.xid"),
        mig=tuple(
            _mig(m, f"{where}.mig[{i}]")
            for i, m in enumerate(_array(f[15], MIGS, f"{where}.mig"))
        ),
    )


def _mig(item: object, where: str) -> Mig:
    f = _padded(item, where, 2, 4)
    return Mig(
        instance=_uint(f[0], 127, f"{where}.instance"),
        slices=_uint(f[1], 127, f"{where}.slices"),
        free_mib=_maybe_uint(f[2], UINT32, f"{where}.free_mib"),
        used_mib=_maybe_uint(f[3], UINT32, f"{where}.used_mib"),
    )


def _hole(item: object, where: str) -> Hole | None:
    number, code, age_ms, peer = _numbers(item, fields.HOLE, where)
    signal, state = SIGNALS.get(number), _STATES.get(code)
    if signal is None or state is None:
        return None  # of a newer agent
    return Hole(signal, state, age_ms, peer)


def _echo(item: _Array) -> Echo:
    f = _padded(item, "echo", 4, 5)
    return Echo(
        reply=_uint(f[1], 1, "echo.reply") == 1,
        ident=_uint(f[2], SAFE_INTEGER, "echo.ident"),
        stamp_us=_uint(f[3], SAFE_INTEGER, "echo.stamp_us"),
        unix_ms=_maybe_uint(f[4], SAFE_INTEGER, "echo.unix_ms"),
    )


def _ack(item: _Array) -> Ack:
    f = _padded(item, "ack", 2, 2)
    return Ack(seq=_uint(f[1], SAFE_INTEGER, "ack.seq"))


def _bye(item: _Array) -> Bye:
    f = _padded(item, "bye", 1, 3)
    return Bye(
        why=Farewell.STOP
        if f[1] is None
        else _enum(Farewell, f[1], Farewell.STOP, "bye.why"),
        back_s=_maybe_uint(f[2], UINT32, "bye.back_s"),
    )


_SCOPES = {int(scope): scope for scope in Scope}
_METHODS: dict[int | None, Method] = {int(method): method for method in Method}
_STATES = {int(state): state for state in State}
_READERS: dict[int, Callable[[_Array], Message]] = {
    Kind.HELLO: _hello,
    Kind.WELCOME: _welcome,
    Kind.REFUSED: _refused,
    Kind.FRAME: _frame,
    Kind.ECHO: _echo,
    Kind.ACK: _ack,
    Kind.BYE: _bye,
}
