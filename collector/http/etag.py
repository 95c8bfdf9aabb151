"""ETags of the fleet: whoever polls learns cheaply that nothing changed.

Weak (RFC 9110, 8.8.1), since one thing in the answers is not covered: ages
grow while nothing else changes. Whoever gets 304 adds the time since the
answer it has.
"""

import secrets
from collections.abc import Callable

from aiohttp import ETag, web
from aiohttp.helpers import ETAG_ANY

from ..core import COLLECTOR

# Versions begin anew with each start, so that each has a prefix of its own.
_START = secrets.token_hex(4)


def answer(request: web.Request, document: Callable[[], object]) -> web.Response:
    """Return the document, or 304 if whoever asks has this version of it."""
    value = f"{_START}-{request.app[COLLECTOR].fleet.version}"
    held = request.if_none_match or ()
    if any(each.value in (value, ETAG_ANY) for each in held):
        response = web.Response(status=304)
    else:
        response = web.json_response(document())
    response.etag = ETag(value, is_weak=True)
    response.headers["Cache-Control"] = "private, no-cache"  # ask each time
    return response
