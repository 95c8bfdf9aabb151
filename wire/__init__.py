"""The frame: what agent and collector say to each other, and its codec.

No I/O here, and nothing of trimtab is imported. `docs/wire.md` gives the
layout byte by byte.
"""

from .decode import decode
from .encode import encode
from .errors import Malformed, TooLarge, WireError
from .messages import (
    Ack,
    Bye,
    Cpu,
    Echo,
    Farewell,
    Frame,
    Hello,
    Hole,
    Inventory,
    Kind,
    Link,
    Memory,
    Message,
    Method,
    Reason,
    Refused,
    Welcome,
)
from .signals import NUMBERS, SIGNALS, State
from .stream import Stream
from .version import PROTOCOL, VERSION

__all__ = [
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
    "Hello",
    "Hole",
    "Inventory",
    "Kind",
    "Link",
    "Malformed",
    "Memory",
    "Message",
    "Method",
    "Reason",
    "Refused",
    "State",
    "Stream",
    "TooLarge",
    "Welcome",
    "WireError",
    "decode",
    "encode",
]
