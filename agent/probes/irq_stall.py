"""Interrupt stall: the share of CPU time that interrupts took from tasks.

Source: the `full` total of pressure on irq (stall.py), Linux 6.1+ where the
kernel accounts for interrupt time; it has no `some`.
"""

from .stall import Stall


class IrqStall(Stall):
    """The probe."""

    resource = "irq"
    signals = ("cpu.irq_stall",)
    lines = ("full",)
