"""The child's eyes: every device of NVML, once a tick, each fenced from the rest.

Only one thread may come here: NVML calls serialise on the driver's lock, and a
shutdown during a query has crashed. Handles are cached by UUID and obtained anew
each minute and after an error. Nothing that is slow by design is asked (PCIe
throughput samples 20 ms a direction). Left out: per-process memory, which says
whose memory it is but is not the node's room.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from ctypes import addressof
from pathlib import Path
from typing import Any

import pynvml

from . import clock, codes, memory, partitions
from .asked import Asked, Gone, MustReplace, code_of
from .gpm import GpmPair
from .readings import Cause, Gpm, Instance, Memory, Profile, Reading, Sample

ENUMERATE_S = 60.0
ENUMERATE_AFTER_ERROR_S = 10.0
# What changes seldom and may be slow is asked every so many ticks.
SELDOM = 10
EVENTS = 256  # at most drained in one tick

RECOVERY = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
PAGES_PENDING = pynvml.NVML_FI_DEV_RETIRED_PENDING
PCIE_REPLAYS = pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER
CRC = (
    pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
)
REPLAYS = (
    pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
)
FIELDS = (RECOVERY, PAGES_PENDING, PCIE_REPLAYS, *CRC, *REPLAYS)
# The member of the union that holds a value, by NVML_VALUE_TYPE_*.
MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class Partition:
    """A MIG device: a handle, the GPU instance it is in, and its GPM."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.uuid: str = pynvml.nvmlDeviceGetUUID(handle)
        self.instance: int = pynvml.nvmlDeviceGetGpuInstanceId(handle)
        self.slices: int | None = None
        with suppress(pynvml.NVMLError):
            attributes = pynvml.nvmlDeviceGetAttributes(handle)
            self.slices = attributes.gpuInstanceSliceCount
        self.gpm: GpmPair | None = None


class Device:
    """One GPU and what is kept of it between ticks."""

    def __init__(self, index: int, handle: Any, uuid: str) -> None:
        self.index = index
        self.handle = handle
        self.uuid = uuid
        self.name = ""
        self.fault: int | None = None
        self.mig: bool | None = None
        self.partitions: list[Partition] = []
        self.profiles: tuple[Profile, ...] | None = None
        self.gpm: GpmPair | None = None
        self.seldom: dict[str, Any] = {}
        self.seldom_errors: dict[str, int] = {}
        self.denied: dict[str, int] = {}  # codes of the enumeration's questions
        self.xids: list[int] = []

    @property
    def layout(self) -> tuple[bool | None, frozenset[str]]:
        """What must not change under a process: MIG's mode and devices."""
        return self.mig, frozenset(p.uuid for p in self.partitions)


class Reader:
    """NVML, open. Construct and use in one thread."""

    def __init__(
        self, *, gpm: bool = True, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Open NVML; NVMLError if that fails."""
        self._use_gpm = gpm
        self._now_s = now_s
        self._devices: list[Device] = []
        self._faulty: dict[int, Reading] = {}  # by index: those without a handle
        self._enumerations = 0
        self._enumerated_s = 0.0
        self._trouble = False
        self._ticks = 0
        pynvml.nvmlInit()
        self.driver: str = pynvml.nvmlSystemGetDriverVersion()
        self._events: Any = None
        with suppress(pynvml.NVMLError):
            self._events = pynvml.nvmlEventSetCreate()
        self._enumerate()

    def close(self) -> None:
        """Give everything back. Only when no call is in flight."""
        for device in self._devices:
            for pair in (device.gpm, *(p.gpm for p in device.partitions)):
                if pair is not None:
                    with suppress(pynvml.NVMLError):
                        pair.free()
        if self._events is not None:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlEventSetFree(self._events)
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()

    def sample(self, tick: int) -> Sample:
        """Read every device. MustReplace if only a fresh process can."""
        since_s = self._now_s() - self._enumerated_s
        if since_s >= (ENUMERATE_AFTER_ERROR_S if self._trouble else ENUMERATE_S):
            self._enumerate()
        self._drain_events()
        readings = [self._read(device) for device in self._devices]
        readings += self._faulty.values()
        if readings and all(_unknown(reading) for reading in readings):
            raise MustReplace(
                Cause.UNKNOWN, "every device answers 'Unknown Error' (999)"
            )
        self._ticks += 1
        readings.sort(key=lambda reading: reading.number)
        return Sample(tick, self._enumerations, _rss_kib(), tuple(readings))

    def _enumerate(self) -> None:
        before = {device.uuid: device for device in self._devices}
        layouts = {device.uuid: device.layout for device in self._devices}
        self._devices = []
        self._faulty = {}
        self._trouble = False
        self._enumerations += 1
        self._enumerated_s = self._now_s()
        for index in range(pynvml.nvmlDeviceGetCount()):
            asked = Asked()
            fault = None
            found: tuple[Any, str] | None = None
            try:
                found = asked.ask("handle", _handle_and_uuid, index)
            except Gone as gone:
                fault = gone.code
            if found is None:
                fault = fault or asked.errors["handle"]
                self._faulty[index] = Reading(index, fault=fault)
                self._trouble = True
                continue
            device = self._device(index, *found, before)
            self._devices.append(device)
            if device.uuid in layouts and device.layout != layouts[device.uuid]:
                raise MustReplace(
                    Cause.LAYOUT, f"the MIG layout of GPU {index} changed"
                )

    def _device(
        self, index: int, handle: Any, uuid: str, before: Mapping[str, Device]
    ) -> Device:
        device = before.get(uuid)
        if device is None or _address(device.handle) != _address(handle):
            device = Device(index, handle, uuid)
            self._watch(device)
        device.index = index
        device.fault = None
        asked = Asked()
        try:
            device.name = asked.ask("name", pynvml.nvmlDeviceGetName, handle) or ""
            self._divide(device, asked)
        except Gone as gone:
            device.fault = gone.code
        device.denied = asked.errors
        return device

    def _watch(self, device: Device) -> None:
        """Ask for the Xids of a device that is new to this process."""
        if self._events is not None:
            with suppress(pynvml.NVMLError):  # not supported, or no permission
                pynvml.nvmlDeviceRegisterEvents(
                    device.handle, pynvml.nvmlEventTypeXidCriticalError, self._events
                )
        if self._use_gpm:
            device.gpm = _gpm_pair(device.handle)

    def _divide(self, device: Device, asked: Asked) -> None:
        mode = Asked().ask("mig", pynvml.nvmlDeviceGetMigMode, device.handle)
        device.mig = None if mode is None else bool(mode[0])
        if not device.mig:
            device.partitions, device.profiles = [], None
            return
        kept = {p.uuid: p for p in device.partitions}
        found = [
            kept.get(partition.uuid, partition) for partition in _partitions(device)
        ]
        for partition in found:
            if partition.gpm is None and device.gpm is not None:
                partition.gpm = _mig_pair(device.handle, partition.instance)
        device.partitions = found
        device.profiles = partitions.profiles(asked, device.handle)

    def _drain_events(self) -> None:
        if self._events is None:
            return
        by_address = {_address(d.handle): d for d in self._devices}
        for _ in range(EVENTS):
            try:
                event = pynvml.nvmlEventSetWait(self._events, 0)
            except pynvml.NVMLError as exc:
                self._trouble |= exc.value != codes.TIMEOUT
                return
            device = by_address.get(_address(event.device))
            if device and event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                device.xids.append(event.eventData)

    def _read(self, device: Device) -> Reading:
        asked = Asked()
        xids, device.xids = tuple(device.xids), []
        known = Reading(
            device.index, device.uuid, device.name, mig=device.mig, xids=xids
        )
        if device.fault is not None:
            return known._replace(fault=device.fault)
        try:
            values = self._values(device, asked)
        except Gone as gone:
            device.fault = gone.code
            self._trouble = True
            return known._replace(fault=gone.code, errors=asked.errors)
        self._trouble |= any(c not in codes.UNSUPPORTED for c in asked.errors.values())
        return known._replace(errors=device.denied | asked.errors, **values)

    def _values(self, device: Device, asked: Asked) -> dict[str, Any]:
        handle = device.handle
        if device.mig is not None:
            mode = asked.ask("mig", pynvml.nvmlDeviceGetMigMode, handle)
            if mode is not None and bool(mode[0]) is not device.mig:
                raise MustReplace(
                    Cause.LAYOUT, f"MIG was switched on GPU {device.index}"
                )
        rates = asked.ask("busy", pynvml.nvmlDeviceGetUtilizationRates, handle)
        reasons = asked.ask("clock", _clock_reasons, handle)
        values: dict[str, Any] = {
            "memory": asked.ask("memory", _memory, handle),
            "busy": rates.gpu if rates is not None and rates.gpu <= 100 else None,
            "power_mw": asked.ask("power", pynvml.nvmlDeviceGetPowerUsage, handle),
            "limit_mw": asked.ask(
                "limit", pynvml.nvmlDeviceGetEnforcedPowerLimit, handle
            ),
            "temperature_c": asked.ask(
                "temperature",
                pynvml.nvmlDeviceGetTemperature,
                handle,
                pynvml.NVML_TEMPERATURE_GPU,
            ),
            "clock_reasons": reasons,
            **_fields(asked.ask("fields", _field_values, handle)),
        }
        if clock.throttled(reasons):
            sm = pynvml.NVML_CLOCK_SM
            values["sm_mhz"] = asked.ask(
                "clock", pynvml.nvmlDeviceGetClockInfo, handle, sm
            )
            values["max_sm_mhz"] = asked.ask(
                "clock", pynvml.nvmlDeviceGetMaxClockInfo, handle, sm
            )
        if self._ticks % SELDOM == 0 or not device.seldom:
            seldom = Asked()
            device.seldom = _seldom(device.handle, seldom)
            device.seldom_errors = seldom.errors
        asked.errors |= device.seldom_errors
        values |= device.seldom
        if device.gpm is not None and not device.mig:
            values["gpm"] = asked.ask("gpm", device.gpm.read, self._now_s()) or Gpm()
        values["instances"] = tuple(self._instances(device, asked))
        values["profiles"] = device.profiles
        return values

    def _instances(self, device: Device, asked: Asked) -> Iterator[Instance]:
        seen: set[int] = set()
        for part in device.partitions:
            if part.instance in seen:
                continue  # several compute instances share one GPU instance
            seen.add(part.instance)
            held = asked.ask("mig_memory", _memory, part.handle)
            gpm = None
            if part.gpm is not None:
                gpm = asked.ask("gpm", part.gpm.read, self._now_s()) or Gpm()
            yield Instance(part.instance, part.slices, held, gpm)


def _handle_and_uuid(index: int) -> tuple[Any, str]:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    return handle, pynvml.nvmlDeviceGetUUID(handle)


def _address(handle: Any) -> int:
    """Return what a handle points to: it stands for the device, never read."""
    return addressof(handle.contents) if handle else 0


def _partitions(device: Device) -> Iterator[Partition]:
    most = Asked().ask("mig", pynvml.nvmlDeviceGetMaxMigDeviceCount, device.handle)
    for number in range(most or 0):
        # Not found: fewer than there may be.
        with suppress(pynvml.NVMLError):
            yield Partition(
                pynvml.nvmlDeviceGetMigDeviceHandleByIndex(device.handle, number)
            )


def _gpm_pair(handle: Any) -> GpmPair | None:
    with suppress(pynvml.NVMLError):
        if pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            return GpmPair(lambda sample: pynvml.nvmlGpmSampleGet(handle, sample))
    return None


def _mig_pair(handle: Any, instance: int) -> GpmPair | None:
    with suppress(pynvml.NVMLError):
        return GpmPair(
            lambda sample: pynvml.nvmlGpmMigSampleGet(handle, instance, sample)
        )
    return None


def _memory(handle: Any) -> Memory | None:
    """Return v2 if it adds up, else v1; NVMLError as v1's."""
    with suppress(pynvml.NVMLError):
        m = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        if (held := memory.from_v2(m.total, m.reserved, m.free, m.used)) is not None:
            return held
    m = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return memory.from_v1(m.total, m.free, m.used)


def _clock_reasons(handle: Any) -> int:
    try:
        reasons = pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except pynvml.NVMLError as exc:
        if exc.value != codes.FUNCTION_NOT_FOUND:
            raise
        # The name before driver 535.
        reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return int(reasons)


def _field_values(handle: Any) -> dict[int, int]:
    """Return the fields that this device has, by their number."""
    return {
        v.fieldId: int(getattr(v.value, MEMBERS[v.valueType]))
        for v in pynvml.nvmlDeviceGetFieldValues(handle, FIELDS)
        if v.nvmlReturn == pynvml.NVML_SUCCESS and v.valueType < len(MEMBERS)
    }


def _fields(values: Mapping[int, int] | None) -> dict[str, Any]:
    if values is None:
        return {}
    pending = values.get(PAGES_PENDING)
    return {
        "recovery": values.get(RECOVERY),
        "pages_pending": None if pending is None else bool(pending),
        "pcie_replays": values.get(PCIE_REPLAYS),
        "nvlink_crc": _sum(values, CRC),
        "nvlink_replays": _sum(values, REPLAYS),
    }


def _sum(values: Mapping[int, int], fields: tuple[int, ...]) -> int | None:
    known = [values[field] for field in fields if field in values]
    return sum(known) if known else None


def _seldom(handle: Any, asked: Asked) -> dict[str, Any]:
    rows = asked.ask("remap", pynvml.nvmlDeviceGetRemappedRows, handle)
    held = asked.ask("processes", pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    return {
        "remap_pending": None if rows is None else bool(rows[2]),
        "remap_failed": None if rows is None else bool(rows[3]),
        "processes": None if held is None else len(held),
    }


def _unknown(reading: Reading) -> bool:
    if reading.fault is not None:
        return reading.fault == codes.UNKNOWN
    silent = reading.memory is None and reading.busy is None
    return silent and codes.UNKNOWN in reading.errors.values()


def _rss_kib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def replaced_by(error: BaseException) -> MustReplace | None:
    """Return the replacement that an error outside any device asks for."""
    if code_of(error) in (codes.LIB_RM_VERSION_MISMATCH, codes.UNINITIALIZED):
        return MustReplace(Cause.MISMATCH, codes.text(code_of(error)))
    if code_of(error) == codes.UNKNOWN:
        return MustReplace(Cause.UNKNOWN, codes.text(code_of(error)))
    return None
