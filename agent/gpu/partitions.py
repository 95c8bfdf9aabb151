"""MIG profiles of a device: what could be where, what is, what still fits.

Source: nvmlDeviceGetGpuInstanceProfileInfo, ...PossiblePlacements (the legal
ones, free or not), ...RemainingCapacity, nvmlDeviceGetGpuInstances. All but the
first need root.
"""

from ctypes import byref, c_uint

import pynvml

from . import codes
from .asked import Asked
from .readings import Place, Profile


def profiles(asked: Asked, handle: object) -> tuple[Profile, ...] | None:
    """Return every profile of a device; None where asking is not allowed."""
    found = []
    for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        quiet = Asked()  # most GPUs lack most profiles
        info = quiet.ask("mig", _info, handle, number)
        if info is None:
            continue
        places = asked.ask("mig", _places, handle, info)
        used = asked.ask("mig", _used, handle, info)
        if places is None or used is None:
            return None
        remaining = quiet.ask(
            "mig",
            pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity,
            handle,
            info.id,
        )
        found.append(
            Profile(
                info.id, info.sliceCount, info.instanceCount, places, used, remaining
            )
        )
    return tuple(found)


def _info(handle: object, number: int) -> "pynvml.c_nvmlGpuInstanceProfileInfo_v2_t":
    return pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number)


def _places(
    handle: object, info: "pynvml.c_nvmlGpuInstanceProfileInfo_v2_t"
) -> tuple[Place, ...]:
    count = c_uint()
    get = pynvml.nvmlDeviceGetGpuInstancePossiblePlacements
    get(handle, info.id, None, byref(count))
    places = (pynvml.c_nvmlGpuInstancePlacement_t * max(1, count.value))()
    get(handle, info.id, places, byref(count))
    return tuple(Place(p.start, p.size) for p in places[: count.value])


def _used(
    handle: object, info: "pynvml.c_nvmlGpuInstanceProfileInfo_v2_t"
) -> tuple[Place, ...]:
    count = c_uint(info.instanceCount)
    held = (pynvml.c_nvmlGpuInstance_t * max(1, info.instanceCount))()
    try:
        pynvml.nvmlDeviceGetGpuInstances(handle, info.id, held, byref(count))
    except pynvml.NVMLError as exc:
        if exc.value == codes.NOT_FOUND:
            return ()
        raise
    infos = [pynvml.nvmlGpuInstanceGetInfo(i) for i in held[: count.value]]
    return tuple(Place(i.placement.start, i.placement.size) for i in infos)
