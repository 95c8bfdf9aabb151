"""Keep web pages out of a collector without tokens.

A page that the operator looks at could otherwise ask through the browser: by
a name of its own that it points at this host (DNS rebinding), or by a form
across sites. Neither can hide its Host or its Origin.
"""

import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from ..credentials import Credentials
from ..settings import Settings
from .problems import Problem


def only_from_here(credentials: Credentials, settings: Settings) -> Middleware:
    """Return the middleware that lets an open collector answer this host alone."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if credentials.open and not settings.insecure:
            origin = request.headers.get(hdrs.ORIGIN)
            asked = [request.host] if origin is None else [request.host, origin]
            for name in asked:
                if not _of_this_host(name):
                    raise Problem(
                        403,
                        "an open collector answers this host alone, not "
                        f"{name[:80]!r}: ask by localhost, or make a token",
                    )
        return await handler(request)

    return check


@lru_cache(256)
def _of_this_host(name: str) -> bool:
    """Whether a Host or an Origin is a loopback one, whatever its port."""
    try:
        host = urlsplit(name if "//" in name else f"//{name}").hostname or ""
    except ValueError:  # brackets that hold no address
        return False
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
