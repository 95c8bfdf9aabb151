"""Is there an NVIDIA GPU, a driver for it, and is it awake: files only.

Looked at before NVML is loaded at all, so that a host without a GPU pays
nothing, a laptop's suspended GPU is not woken (opening NVML keeps it awake, at
5 to 7 W), and a driver is not loaded by our asking.

Sources: PCI vendor, class and runtime power status in sysfs; the driver's own
files in procfs and under /dev (containers, WSL); the device tree (Tegra).
"""

import os
from typing import NamedTuple

from ..paths import StrPath

NVIDIA = "0x10de"
DISPLAY_CLASS = "0x03"  # VGA, 3D and other display controllers


class Presence(NamedTuple):
    """What the files say."""

    gpu: bool = False
    driver: bool = False
    asleep: bool = False  # every GPU on the bus is suspended
    may_sleep: bool = False  # every GPU may be, once nobody holds it open
    control: bool = False  # the node through which a driver is asked


def look(sysfs: StrPath, procfs: StrPath, dev: StrPath) -> Presence:
    """Return what is there now. Raises nothing: what can't be read is absent."""
    sysfs, procfs, dev = os.fspath(sysfs), os.fspath(procfs), os.fspath(dev)
    found = [path for path in _listed(f"{sysfs}/bus/pci/devices") if _is_gpu(path)]
    powers = [_text(f"{path}/power/runtime_status") for path in found]
    tegra = any(
        b"nvidia,tegra" in _bytes(f"{tree}/compatible")
        for tree in (f"{procfs}/device-tree", f"{sysfs}/firmware/devicetree/base")
    )
    control = os.path.exists(f"{dev}/nvidiactl") or os.path.exists(f"{dev}/dxg")
    driver = control or tegra or os.path.exists(f"{procfs}/driver/nvidia")
    return Presence(
        gpu=bool(found) or driver,
        driver=driver,
        asleep=bool(powers) and all(power == "suspended" for power in powers),
        may_sleep=bool(found) and all(_may_sleep(path, procfs) for path in found),
        control=control or tegra,
    )


def _is_gpu(device: str) -> bool:
    return _text(f"{device}/vendor") == NVIDIA and _text(f"{device}/class").startswith(
        DISPLAY_CLASS
    )


def _may_sleep(device: str, procfs: str) -> bool:
    """Whether the kernel lets it sleep, and the driver does, as far as it says."""
    if _text(f"{device}/power/control") != "auto":
        return False
    says = _text(f"{procfs}/driver/nvidia/gpus/{os.path.basename(device)}/power")
    return (
        not says or "Runtime D3 status:" not in says or ": Enabled" in _squeezed(says)
    )


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _listed(folder: str) -> list[str]:
    try:
        return [f"{folder}/{name}" for name in sorted(os.listdir(folder))]
    except OSError:
        return []


def _bytes(path: str) -> bytes:
    try:
        if not os.path.isfile(path):
            return b""
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _text(path: str) -> str:
    return _bytes(path).decode("ascii", "replace").strip()
