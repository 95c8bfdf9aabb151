"""From readings to what a frame says: the memory that outlives any child.

Kept for each GPU by its UUID: the index it was first seen at, its least idle
power, its streak of pseudo-high samples, the growth of its error counters, its
last Xid and whether a fatal one still stands. A GPU that was seen once and is
no longer listed is shown with health zero. Time comes in as `now_s`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from trimtab.wire import Gpu, GpuHealth, GpuInfo, GpuMethod, Hole, Mig, State

from . import clock, codes, effective, health, mig, stranding
from .readings import Instance, Profile, Reading
from .rising import Rising

GPUS = 32  # that a frame can say
MIB = 1024 * 1024
XID_WARNING_S = 600.0  # a warning lowers for so long

# Which signal a failed question leaves a hole in.
SIGNALS = {
    "memory": "gpu.memory",
    "busy": "gpu.busy",
    "gpm": "gpu.effective",
    "power": "gpu.power",
    "clock": "gpu.clock",
    "fields": "gpu.health",
    "remap": "gpu.health",
    "mig": "gpu.mig",
    "mig_memory": "gpu.mig",
}
# One of many sources: without it, what the others say still holds.
NEUTRAL = frozenset({"gpu.health"})


class Epoch(NamedTuple):
    """When a handle was obtained: later ones compare greater."""

    child: int
    enumeration: int


class Judged(NamedTuple):
    """One sample, judged."""

    devices: tuple[Gpu, ...] = ()
    infos: tuple[GpuInfo, ...] = ()
    holes: tuple[Hole, ...] = ()
    stranding: float | None = None
    mig_stranding: float | None = None


class _Known:
    """What is remembered of one GPU."""

    def __init__(self, index: int, uuid: str) -> None:
        self.index = index
        self.uuid = uuid
        self.info: GpuInfo | None = None
        self.idle_mw: int | None = None
        self.streak = 0
        self.nvlink_crc = Rising()
        self.nvlink_replays = Rising()
        self.pcie_replays = Rising()
        self.xid: int | None = None
        self.fatal_at: Epoch | None = None
        self.warned_s: float | None = None


class Judge:
    """Every GPU of this host over time."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def forget(self) -> None:
        """Start anew: an operator has had the GPUs in hand, or the driver is gone."""
        self._known.clear()

    def judge(self, readings: Sequence[Reading], epoch: Epoch, now_s: float) -> Judged:
        """Return what a frame says of these readings."""
        pairs = self._recognised(readings[:GPUS])
        seen = {known.uuid for known, _ in pairs}
        gpus = [_gpu(known, reading, epoch, now_s) for known, reading in pairs]
        for known in self._known.values():
            if known.uuid not in seen:
                gone = health.verdict(health.Facts(missing=True))
                gpus.append(
                    Gpu(
                        known.index,
                        gone.health,
                        reasons=gone.reasons,
                        xid=known.xid,
                    )
                )
        profiles = [r.profiles for _, r in pairs if r.profiles is not None]
        return Judged(
            devices=tuple(sorted(gpus, key=lambda gpu: gpu.device))[:GPUS],
            infos=tuple(
                sorted(
                    (k.info for k in self._known.values() if k.info),
                    key=lambda info: info.device,
                )
            ),
            holes=tuple(_holes(pairs)),
            stranding=_stranding(pairs, gpus),
            mig_stranding=_mig_stranding(profiles),
        )

    def _recognised(self, readings: Iterable[Reading]) -> list[tuple[_Known, Reading]]:
        readings = list(readings)
        named = [(self._by_uuid(r), r) for r in readings if r.uuid]
        taken = {known.index for known, _ in named}
        # Without a UUID it is the GPU that used to be at this index.
        nameless = [
            (self._by_index(r), r)
            for r in readings
            if not r.uuid and r.number not in taken
        ]
        return [*named, *nameless]

    def _by_uuid(self, reading: Reading) -> _Known:
        known = self._known.get(reading.uuid)
        if known is None:
            nameless = self._known.pop(_nameless(reading.number), None)
            index = reading.number
            if nameless is None and any(k.index == index for k in self._known.values()):
                used = {k.index for k in self._known.values()}
                index = next(i for i in range(len(used) + 1) if i not in used)
            known = self._known[reading.uuid] = _Known(index, reading.uuid)
        known.info = GpuInfo(
            known.index,
            known.uuid,
            reading.name,
            None if reading.memory is None else reading.memory.total // MIB,
            _unified(reading),
            reading.mig,
        )
        return known

    def _by_index(self, reading: Reading) -> _Known:
        for known in self._known.values():
            if known.index == reading.number:
                return known
        name = _nameless(reading.number)
        known = self._known[name] = _Known(reading.number, name)
        return known


def _nameless(index: int) -> str:
    return f"index {index}"


def _unified(reading: Reading) -> bool | None:
    """Return whether the GPU's memory is the host's, as far as that shows."""
    if reading.memory is not None:
        return False
    if reading.mig:
        return None  # the parent's memory is closed to most users
    return True if reading.errors.get("memory") == codes.NOT_SUPPORTED else None


def _gpu(known: _Known, reading: Reading, epoch: Epoch, now_s: float) -> Gpu:
    verdict = _verdict(known, reading, epoch, now_s)
    busy = None if reading.busy is None else reading.busy / 100
    known.idle_mw = effective.idle_power(known.idle_mw, busy, reading.power_mw)
    work = _effective(known, reading, busy)
    streak = effective.streak(known.streak, busy, work.share)
    known.streak = streak or 0
    memory = reading.memory
    return Gpu(
        device=known.index,
        health=verdict.health,
        free_mib=None if memory is None else memory.free // MIB,
        used_mib=None if memory is None else memory.used // MIB,
        reserved_mib=None
        if memory is None or memory.reserved is None
        else memory.reserved // MIB,
        busy=busy,
        effective=work.share,
        method=work.method,
        pseudo_high=None if streak is None else streak >= effective.SAMPLES,
        clock=clock.ratio(reading.sm_mhz, reading.max_sm_mhz, reading.clock_reasons),
        throttle=None
        if reading.clock_reasons is None
        else reading.clock_reasons & 0xFFFFFFFF,
        power_mw=reading.power_mw,
        temperature_c=reading.temperature_c,
        reasons=verdict.reasons or None,
        xid=known.xid,
        mig=tuple(_mig(instance) for instance in reading.instances),
    )


def _effective(
    known: _Known, reading: Reading, busy: float | None
) -> effective.Effective:
    if not reading.mig:
        return effective.effective(
            busy, reading.gpm, reading.power_mw, known.idle_mw, reading.limit_mw
        )
    parts = [(i.slices or 1, i.gpm) for i in reading.instances if i.gpm is not None]
    if not parts:
        return effective.Effective(None, None)
    return effective.Effective(effective.of_instances(parts), GpuMethod.GPM)


def _verdict(
    known: _Known, reading: Reading, epoch: Epoch, now_s: float
) -> health.Verdict:
    facts = health.Facts(
        fault=reading.fault,
        recovery=reading.recovery,
        remap_pending=reading.remap_pending,
        remap_failed=reading.remap_failed,
        pages_pending=reading.pages_pending,
        nvlink_crc=known.nvlink_crc.add(now_s, reading.nvlink_crc),
        nvlink_replays=known.nvlink_replays.add(now_s, reading.nvlink_replays),
        pcie_replays=known.pcie_replays.add(now_s, reading.pcie_replays),
        throttled=clock.throttled(reading.clock_reasons),
        query_error=any(c not in codes.UNSUPPORTED for c in reading.errors.values()),
    )
    for xid in reading.xids:
        known.xid = xid
        if xid in health.FATAL_XIDS:
            known.fatal_at = epoch
        elif xid in health.WARNING_XIDS:
            known.warned_s = now_s
    if known.fatal_at is not None and _recovered(known.fatal_at, facts, epoch):
        known.fatal_at = None
    warned_s = known.warned_s
    return health.verdict(
        facts._replace(
            xid_fatal=known.fatal_at is not None,
            xid_warning=warned_s is not None and now_s - warned_s < XID_WARNING_S,
        )
    )


def _recovered(fatal_at: Epoch, facts: health.Facts, epoch: Epoch) -> bool:
    """Whether a fatal Xid is over: the driver says so, of a handle obtained since.

    A driver too old to say leaves it standing until a pause or a new driver.
    """
    return (
        epoch > fatal_at
        and facts.recovery == health.RECOVERY_NONE
        and facts.fault is None
        and not facts.query_error
    )


def _mig(instance: Instance) -> Mig:
    memory = instance.memory
    return Mig(
        instance.instance,
        instance.slices or 0,
        None if memory is None else memory.free // MIB,
        None if memory is None else memory.used // MIB,
    )


def _stranding(
    pairs: Iterable[tuple[_Known, Reading]], gpus: Iterable[Gpu]
) -> float | None:
    """Return S over the GPUs that one task may have whole."""
    usable = {gpu.device for gpu in gpus if gpu.health is not GpuHealth.ZERO}
    held = [
        reading.memory
        for known, reading in pairs
        if reading.memory is not None and not reading.mig and known.index in usable
    ]
    return stranding.stranding(
        [memory.free for memory in held],
        [memory.total - (memory.reserved or 0) for memory in held],
    )


def _mig_stranding(profiles: Sequence[Sequence[Profile]]) -> float | None:
    return max(
        (m for p in profiles if (m := mig.stranding(p)) is not None), default=None
    )


def _holes(pairs: Iterable[tuple[_Known, Reading]]) -> Iterator[Hole]:
    for known, reading in pairs:
        states: dict[str, State] = {}
        for metric, code in reading.errors.items():
            signal = SIGNALS.get(metric)
            state = State.UNSUPPORTED if code in codes.UNSUPPORTED else State.ERROR
            if signal is None or (signal in NEUTRAL and state is State.UNSUPPORTED):
                continue
            states[signal] = max(state, states.get(signal, state))
        for signal, state in states.items():
            yield Hole(signal, state, peer=known.index + 1)
