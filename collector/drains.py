"""The operator's intent for a node: drained with a deadline, put back, deleted.

Draining takes out in two phases: first no new tasks but those that stick to
the node, until its work is done or the deadline has come; then none at all.
"""

from typing import NamedTuple

from .states import Admin


class Drain(NamedTuple):
    """Why a node is, or will be, without tasks. Times are Unix seconds."""

    since_unix_s: float
    until_unix_s: float | None  # when draining ends at the latest; None: with its work
    reason: str
    by: str | None  # whose credential


def progress(admin: Admin, drain: Drain, unix_now: float, open_leases: int) -> Admin:
    """Return the intent as of now: draining becomes drained."""
    if admin is not Admin.DRAINING:
        return admin
    over = drain.until_unix_s is not None and unix_now >= drain.until_unix_s
    return Admin.DRAINED if over or open_leases == 0 else Admin.DRAINING
