"""GET /livez and /readyz: for whatever restarts or routes to the collector."""

from aiohttp import web

from ..core import COLLECTOR
from .parameters import only
from .problems import Problem


async def livez(request: web.Request) -> web.Response:
    """Answer at all: the event loop turns."""
    only(request)
    return web.json_response({"live": True})


async def readyz(request: web.Request) -> web.Response:
    """Answer 200 when the fleet is loaded and scores are being renewed.

    A failing store is told, not a reason to be taken out: scoring and
    routing do not need it.
    """
    only(request)
    collector = request.app[COLLECTOR]
    lag_s = collector.clock.monotonic() - collector.ticked_at
    if lag_s > max(1.0, 5 * collector.settings.tick_s):
        raise Problem(503, f"scores are {lag_s:.1f} s old: the collector is overloaded")
    return web.json_response(
        {
            "ready": True,
            "nodes": len(collector.fleet),
            "store": collector.committer.failure or "ok",
        }
    )
