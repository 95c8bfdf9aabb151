"""Is there an NVIDIA GPU, a driver for it, and is it awake: files only.

Looked at before NVML is loaded at all, so that a host without a GPU pays
nothing, a laptop's suspended GPU is not woken (opening NVML keeps it awake, at
5 to 7 W), and a driver is not loaded by our asking.

Sources: PCI vendor, class and runtime power status in sysfs; the driver's own
files in procfs and under /dev (containers, WSL); the device tree (Tegra).
"""

from pathlib import Path
from typing import NamedTuple

NVIDIA = "0x10de"
DISPLAY_CLASS = "0x03"  # VGA, 3D and other display controllers


class Presence(NamedTuple):
    """What the files say."""

    gpu: bool = False
    driver: bool = False
    asleep: bool = False  # every GPU on the bus is suspended
    may_sleep: bool = False  # every GPU may be, once nobody holds it open
    control: bool = False  # the node through which a driver is asked


def look(sysfs: Path, procfs: Path, dev: Path) -> Presence:
    """Return what is there now. Raises nothing: what can't be read is absent."""
    found = [path for path in _listed(sysfs / "bus/pci/devices") if _is_gpu(path)]
    powers = [_text(path / "power/runtime_status") for path in found]
    tegra = any(
        b"nvidia,tegra" in _bytes(tree / "compatible")
        for tree in (procfs / "device-tree", sysfs / "firmware/devicetree/base")
    )
    control = _there(dev / "nvidiactl") or _there(dev / "dxg")
    driver = control or tegra or _there(procfs / "driver/nvidia")
    return Presence(
        gpu=bool(found) or driver,
        driver=driver,
        asleep=bool(powers) and all(power == "suspended" for power in powers),
        may_sleep=bool(found) and all(_may_sleep(path, procfs) for path in found),
        control=control or tegra,
    )


def _is_gpu(device: Path) -> bool:
    return _text(device / "vendor") == NVIDIA and _text(device / "class").startswith(
        DISPLAY_CLASS
    )


def _may_sleep(device: Path, procfs: Path) -> bool:
    """Whether the kernel lets it sleep, and the driver does, as far as it says."""
    if _text(device / "power/control") != "auto":
        return False
    says = _text(procfs / "driver/nvidia/gpus" / device.name / "power")
    return (
        not says or "Runtime D3 status:" not in says or ": Enabled" in _squeezed(says)
    )


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""


def _text(path: Path) -> str:
    return _bytes(path).decode("ascii", "replace").strip()
