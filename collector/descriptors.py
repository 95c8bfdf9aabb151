"""How many connections the process may have open, shared out between its ports.

A server that runs out of descriptors answers nobody and can't open its own
files. So the limit is raised as far as it goes, some are kept back for files,
and each port turns away what is past its share, with a reason.
"""

import resource
from typing import NamedTuple

RESERVE = 64  # database, journals, log, probes of our own host


class Shares(NamedTuple):
    """Connections that each port takes at once."""

    frames: int
    http: int


def raise_limit() -> int:
    """Raise the soft limit to the hard one; return what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # as macOS for an infinite one
            return soft
    return hard


def share_out(limit: int, frames: int, http: int) -> Shares:
    """Return the wanted shares, made smaller together where the limit is low."""
    there = limit - RESERVE
    if limit == resource.RLIM_INFINITY or frames + http <= there:
        return Shares(frames, http)
    kept = max(1, min(http, there // 4))
    return Shares(max(1, min(frames, there - kept)), kept)
