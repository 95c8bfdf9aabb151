"""GPU memory, believed only where its parts add up.

Source: nvmlDeviceGetMemoryInfo, v2 and v1. NVIDIA's pages differ on whether v2's
`used` holds what the driver reserves; dumps of real hosts (A100 with driver 535,
Blackwell with 590) give reserved + used + free = total. So the sum decides. In
v1, `used` always holds the reserved part. Structs have changed under bindings
before (driver 535): a sum that does not hold is no reading.
"""

from .readings import Memory

SLACK_BYTES = 2 * 1024 * 1024  # the dumps above miss by up to this


def from_v2(total: int, reserved: int, free: int, used: int) -> Memory | None:
    """Return the memory, reserved apart; None if no way of adding up fits."""
    if not _possible(total, reserved, free, used):
        return None
    if abs(reserved + used + free - total) <= SLACK_BYTES:
        return Memory(total, free, used, reserved)
    if abs(used + free - total) <= SLACK_BYTES and reserved <= used:
        return Memory(total, free, used - reserved, reserved)
    return None


def from_v1(total: int, free: int, used: int) -> Memory | None:
    """Return the memory, reserved unknown and part of used; None if impossible."""
    if not _possible(total, free, used) or used + free > total + SLACK_BYTES:
        return None
    return Memory(total, free, used)


def _possible(total: int, *parts: int) -> bool:
    return total > 0 and all(0 <= part <= total for part in parts)
