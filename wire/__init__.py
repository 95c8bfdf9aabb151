"""The frame: what agent and collector say to each other, and its codec.

No I/O here, and nothing of trimtab is imported. `docs/wire.md` gives the
layout byte by byte.
"""

from .decode import NODE_NAME, decode
from .encode import encode
from .errors import Malformed, TooLarge, WireError
from .messages import (
    Ack,
    Bye,
    Cpu,
    Echo,
    Farewell,
    Frame,
    Gpu,
    GpuHealth,
    GpuInfo,
    GpuMethod,
    Gpus,
    GpuState,
    Hello,
    Hole,
    Inventory,
    Io,
    Kind,
    Link,
    Memory,
    Message,
    Method,
    Mig,
    Net,
    Reason,
    Refused,
    Scope,
    Welcome,
)
from .signals import GPU_REASONS, NUMBERS, SIGNALS, State
from .stream import Stream, begins_frame, frame_ends
from .version import PROTOCOL, VERSION

__all__ = [
    "GPU_REASONS",
    "NODE_NAME",
    "NUMBERS",
    "PROTOCOL",
    "SIGNALS",
    "VERSION",
    "Ack",
    "Bye",
    "Cpu",
    "Echo",
    "Farewell",
    "Frame",
    "Gpu",
    "GpuHealth",
    "GpuInfo",
    "GpuMethod",
    "GpuState",
    "Gpus",
    "Hello",
    "Hole",
    "Inventory",
    "Io",
    "Kind",
    "Link",
    "Malformed",
    "Memory",
    "Message",
    "Method",
    "Mig",
    "Net",
    "Reason",
    "Refused",
    "Scope",
    "State",
    "Stream",
    "TooLarge",
    "Welcome",
    "WireError",
    "begins_frame",
    "decode",
    "encode",
    "frame_ends",
]
