"""CPU stall: the share of time some runnable task waited for a CPU.

Source: the `some` total of pressure on cpu (stall.py). It nears 1 at two
busy loops a CPU, where run_queue.py goes on ranking; use both.
"""

from .stall import Stall


class CpuStall(Stall):
    """The probe."""

    resource = "cpu"
    signals = ("cpu.stall",)
    lines = ("some",)
