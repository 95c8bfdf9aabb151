"""Memory stall: the share of time some, and every, task waited for memory.

Source: both totals of pressure on memory (stall.py). `full` is time in which
nothing got done at all.
"""

from .stall import Stall


class MemoryStall(Stall):
    """The probe."""

    resource = "memory"
    signals = ("memory.stall_some", "memory.stall_full")
    lines = ("some", "full")
