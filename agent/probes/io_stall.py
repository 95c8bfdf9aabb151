"""I/O stall: the share of time some, and every, task waited for a disk.

Source: both totals of pressure on io (stall.py).
"""

from .stall import Stall


class IoStall(Stall):
    """The probe."""

    resource = "io"
    signals = ("io.stall_some", "io.stall_full")
    lines = ("some", "full")
