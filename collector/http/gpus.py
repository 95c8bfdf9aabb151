"""A node's GPUs, as its newest frame has them; null where there are none."""

from enum import IntEnum
from typing import Any

from trimtab.wire import GPU_REASONS, Gpu, GpuInfo

from ..node import Node


def gpus(node: Node) -> dict[str, Any] | None:
    """Return the GPU section of a node; None: it has none, or never said so."""
    section = node.gpus
    if section is None:
        return None
    infos = {info.device: info for info in node.hello.inventory.gpus}
    return {
        "state": section.state.name.lower(),
        "age_ms": section.age_ms,
        "stranding": section.stranding,
        "mig_stranding": section.mig_stranding,
        "restarts": section.restarts,
        "devices": [_device(gpu, infos.get(gpu.device)) for gpu in section.devices],
    }


def _device(gpu: Gpu, info: GpuInfo | None) -> dict[str, Any]:
    reasons = gpu.reasons or 0
    return {
        "device": gpu.device,
        "uuid": None if info is None else info.uuid,
        "name": None if info is None else info.name,
        "memory_mib": None if info is None else info.memory_mib,
        "health": _word(gpu.health),
        "reasons": [text for bit, text in GPU_REASONS.items() if reasons >> bit & 1],
        "xid": gpu.xid,
        "free_mib": gpu.free_mib,
        "used_mib": gpu.used_mib,
        "reserved_mib": gpu.reserved_mib,
        "busy": gpu.busy,
        "effective": gpu.effective,
        "method": _word(gpu.method),
        "pseudo_high": gpu.pseudo_high,
        "clock": gpu.clock,
        "throttle": gpu.throttle,
        "power_w": None if gpu.power_mw is None else gpu.power_mw / 1000,
        "temperature_c": gpu.temperature_c,
        "mig": [m._asdict() for m in gpu.mig],
    }


def _word(value: IntEnum | None) -> str | None:
    return None if value is None else value.name.lower()
