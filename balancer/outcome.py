"""How work ended, and what hearing of it did."""

from enum import StrEnum


class Outcome(StrEnum):
    """How the work of a decision ended."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"


class Closing(StrEnum):
    """What an outcome did."""

    CLOSED = "closed"  # the lease was open
    REPEATED = "repeated"  # an outcome had closed it already
    EXPIRED = "expired"  # its time had closed it already
    UNKNOWN = "unknown"  # no such decision, or one from too long ago
