"""What the child tells: NVML's raw answers, one reading a device.

Nothing is judged here, so that what must outlive a child (a GPU that went
missing, a fatal Xid) can be kept by the agent. MessagePack arrays, one message
after the other: `ready`, `sample`, `replace`, `failed`; from the agent come the
numbers of the ticks alone.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from types import UnionType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgpack

from ..errors import Malformed

# 32 GPUs with 16 instances and 18 profiles each are about 200 KiB.
LIMIT_BYTES = 2 * 1024 * 1024


class Cause(Enum):
    """Why a child asks to be replaced by a fresh process."""

    MISMATCH = "mismatch"  # library and driver: a loaded library stays loaded
    LAYOUT = "layout"  # MIG changed: old handles have crashed others' exporters
    UNKNOWN = "unknown"  # every device answers "Unknown Error"


class Memory(NamedTuple):
    """Bytes. `used` is without what the driver reserves, where that is known."""

    total: int
    free: int
    used: int
    reserved: int | None = None


class Gpm(NamedTuple):
    """Percent of the time between two samples; None where a metric failed."""

    sm: float | None = None
    occupancy: float | None = None
    tensor: float | None = None
    dram: float | None = None


class Instance(NamedTuple):
    """One MIG instance, by the handles that anyone may ask."""

    instance: int
    slices: int | None = None  # compute slices
    memory: Memory | None = None
    gpm: Gpm | None = None


class Place(NamedTuple):
    """Memory slices that an instance takes or may take."""

    start: int
    size: int


class Profile(NamedTuple):
    """One kind of MIG instance and what of it fits; only root may ask."""

    ident: int
    slices: int  # compute slices
    most: int  # that fit an empty GPU
    places: tuple[Place, ...]  # legal ones, whether free or not
    used: tuple[Place, ...]  # of the instances of this profile
    remaining: int | None = None  # that still fit, as the driver says


class Reading(NamedTuple):
    """One device at one tick; None is what NVML did not say."""

    number: int  # as the driver counts
    uuid: str = ""  # empty: the device never gave it
    name: str = ""
    fault: int | None = None  # the code that ended all questions to it
    errors: Mapping[str, int] = {}  # by metric: the code of its failure
    memory: Memory | None = None
    busy: int | None = None  # percent
    power_mw: int | None = None
    limit_mw: int | None = None
    temperature_c: int | None = None
    clock_reasons: int | None = None
    sm_mhz: int | None = None  # clocks: asked only while the hardware throttles
    max_sm_mhz: int | None = None
    recovery: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    pages_pending: bool | None = None
    nvlink_crc: int | None = None  # counters since the driver was loaded
    nvlink_replays: int | None = None
    pcie_replays: int | None = None
    processes: int | None = None  # that compute
    xids: tuple[int, ...] = ()  # since the tick before
    gpm: Gpm | None = None  # None: this device has none
    mig: bool | None = None
    instances: tuple[Instance, ...] = ()
    profiles: tuple[Profile, ...] | None = None  # None: not allowed to ask


class Ready(NamedTuple):
    """NVML is open."""

    driver: str


class Sample(NamedTuple):
    """The answer to one tick."""

    tick: int
    enumeration: int  # how often handles were obtained anew, from 1
    rss_kib: int
    devices: tuple[Reading, ...]


class Replace(NamedTuple):
    """This process can't go on, a fresh one may."""

    cause: Cause
    text: str


class Failed(NamedTuple):
    """NVML could not be opened, or the child has a bug (code -1)."""

    code: int
    text: str


Message = Ready | Sample | Replace | Failed


def pack(message: Message) -> bytes:
    """Return the bytes of a message."""
    kind = type(message).__name__.lower()
    fields = [f.value if isinstance(f, Cause) else f for f in message]
    data: bytes = msgpack.packb([kind, *fields])
    return data


def parse(array: object) -> Message:
    """Return the message of an unpacked array; Malformed if it is none."""
    try:
        match array:
            case ["ready", str(driver)]:
                return Ready(driver)
            case ["sample", int(tick), int(enumeration), int(rss_kib), list(devices)]:
                readings = tuple(_reading(d) for d in devices)
                return Sample(tick, enumeration, rss_kib, readings)
            case ["replace", cause, str(text)]:
                return Replace(Cause(cause), text)
            case ["failed", int(code), str(text)]:
                return Failed(code, text)
    except (AttributeError, TypeError, ValueError) as exc:
        raise Malformed(f"a broken message of the GPU child: {exc}") from exc
    raise Malformed(f"not a message of the GPU child: {array!r:.80}")


def _reading(fields: Sequence[Any]) -> Reading:
    r = Reading(*fields)
    if not all(isinstance(code, int) for code in (*r.errors.values(), *r.xids)):
        raise TypeError(f"codes {r.errors!r:.80}, {r.xids!r:.80}")
    return _checked(
        r._replace(
            memory=_memory(r.memory),
            gpm=_gpm(r.gpm),
            xids=tuple(r.xids),
            instances=tuple(_instance(i) for i in r.instances),
            profiles=None
            if r.profiles is None
            else tuple(_profile(p) for p in r.profiles),
        )
    )


def _memory(fields: Sequence[Any] | None) -> Memory | None:
    return None if fields is None else _checked(Memory(*fields))


def _gpm(fields: Sequence[Any] | None) -> Gpm | None:
    return None if fields is None else _checked(Gpm(*fields))


def _instance(fields: Sequence[Any]) -> Instance:
    i = Instance(*fields)
    return _checked(i._replace(memory=_memory(i.memory), gpm=_gpm(i.gpm)))


def _profile(fields: Sequence[Any]) -> Profile:
    p = Profile(*fields)
    return _checked(
        p._replace(
            places=tuple(_checked(Place(*place)) for place in p.places),
            used=tuple(_checked(Place(*place)) for place in p.used),
        )
    )


Part = TypeVar("Part", Reading, Memory, Gpm, Instance, Profile, Place)


def _plain(kind: Any) -> bool:
    """Whether it is a type or a union of them, and no list of anything."""
    return get_origin(kind) in (None, UnionType) and not any(
        get_origin(part) for part in get_args(kind)
    )


_KINDS = {
    part: {name: kind for name, kind in get_type_hints(part).items() if _plain(kind)}
    for part in (Reading, Memory, Gpm, Instance, Profile, Place)
}


def _checked(part: Part) -> Part:
    """Return it; TypeError if a field is not of its kind.

    A driver at fault may leave anything in the child's memory.
    """
    for name, kind in _KINDS[type(part)].items():
        if not isinstance(getattr(part, name), kind):
            raise TypeError(f"{name} = {getattr(part, name)!r:.40}")
    return part
