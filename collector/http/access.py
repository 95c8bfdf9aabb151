"""Around every request: its id, its log line, its count.

The line names the route by its template and never holds a query string or a
header, so that no secret gets into it. Probes come every few seconds and say
nothing new: they are told at level debug.
"""

import logging
import time
from collections import Counter, defaultdict

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from . import request_id
from .bearer import by

log = structlog.get_logger()

# What nginx logs when the client has gone before its answer.
GONE = 499
_PROBES = ("/livez", "/readyz")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})
_ELSEWHERE = "none"


class Traffic:
    """What was asked since the start. Bounded: strange paths and methods are one."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()  # method, route
        self.seconds: defaultdict[str, float] = defaultdict(float)  # by route

    def note(self, method: str, route: str, status: int, elapsed_s: float) -> None:
        """Count an answered request."""
        known = method if method in _METHODS else "other"
        self.requests[known, route, status] += 1
        self.seconds[route] += elapsed_s


TRAFFIC: web.AppKey[Traffic] = web.AppKey("traffic", Traffic)


@web.middleware
async def watch(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give the request its id; count and log how it ended."""
    ident = request_id.begin(request.headers.get(request_id.HEADER))
    started_at = time.perf_counter()
    status = GONE
    try:
        response = await handler(request)
        status = response.status
        if not response.prepared:
            response.headers[request_id.HEADER] = ident
        return response
    finally:
        elapsed_s = time.perf_counter() - started_at
        resource = request.match_info.route.resource
        route = _ELSEWHERE if resource is None else resource.canonical
        request.app[TRAFFIC].note(request.method, route, status, elapsed_s)
        level = logging.DEBUG if route in _PROBES else logging.INFO
        if log.is_enabled_for(level):
            log.log(
                level,
                "request",
                request=ident,
                method=request.method[:40],
                route=route,
                status=status,
                duration_ms=round(elapsed_s * 1000, 2),
                peer=request.remote,
                by=by(request),
            )
