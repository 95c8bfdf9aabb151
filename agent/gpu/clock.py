"""Capability lost to throttling: the SM clock over its highest.

Source: NVML's clocks event reasons. A low clock alone says nothing: an idle GPU
(GpuIdle) and one at its power cap (SwPowerCap) are as they should be. It counts
only while the hardware or heat holds the clock down.
"""

# nvml.h, nvmlClocksEventReason*.
HW_SLOWDOWN = 0x8
SW_THERMAL = 0x20
HW_THERMAL = 0x40
HW_POWER_BRAKE = 0x80
HARDWARE = HW_SLOWDOWN | SW_THERMAL | HW_THERMAL | HW_POWER_BRAKE


def throttled(reasons: int | None) -> bool | None:
    """Return whether hardware or heat holds the clock down; None if unknown."""
    return None if reasons is None else bool(reasons & HARDWARE)


def ratio(sm_mhz: int | None, max_mhz: int | None, reasons: int | None) -> float | None:
    """Return clock / highest, 0..1, while throttled; None otherwise or unknown."""
    if not throttled(reasons) or sm_mhz is None or not max_mhz:
        return None
    return min(1.0, sm_mhz / max_mhz)
