"""The id of a request: in its answer, in its log line, in its problem document.

Whoever asks may bring one, so that a chain of programs can be followed; one
that could spoil a log is replaced.
"""

import re
import secrets
from contextvars import ContextVar

HEADER = "X-Request-Id"
_SANE = re.compile(r"[A-Za-z0-9._-]{1,64}")
# aiohttp handles each request in a task of its own.
_current: ContextVar[str] = ContextVar("request_id", default="")


def begin(brought: str | None) -> str:
    """Return the id of the request that begins in this task."""
    if brought is None or _SANE.fullmatch(brought) is None:
        brought = secrets.token_hex(8)
    _current.set(brought)
    return brought


def current() -> str:
    """Return the id of the request that is being answered in this task."""
    return _current.get()
