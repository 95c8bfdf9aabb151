"""The routes, joined into one aiohttp application."""

from typing import NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from ..core import COLLECTOR, Collector
from . import events, forecast, history, intent, nodes, probes, route
from .access import TRAFFIC, Traffic, watch
from .bearer import need_credential
from .events import STREAMS, Streams
from .failures import say_what_went_wrong
from .frames import BODY_LIMIT_BYTES, frames
from .metrics import metrics
from .openapi import openapi
from .rebinding import only_from_here


class Route(NamedTuple):
    """What answers a method of a path."""

    method: str
    path: str
    handler: Handler
    scope: str | None  # that a token must have; None: no token is needed


ROUTES = (
    Route("GET", "/v1/nodes", nodes.nodes, "read"),
    Route("GET", "/v1/nodes/{node}", nodes.node, "read"),
    Route("DELETE", "/v1/nodes/{node}", intent.delete, "admin"),
    Route("GET", "/v1/nodes/{node}/history", history.history, "read"),
    Route("GET", "/v1/nodes/{node}/forecast", forecast.forecast, "read"),
    Route("PUT", "/v1/nodes/{node}/drain", intent.drain, "admin"),
    Route("DELETE", "/v1/nodes/{node}/drain", intent.undrain, "admin"),
    # Who routes tasks knows what they left behind; it moves no node's standing.
    Route("PUT", "/v1/nodes/{node}/holds", intent.holds, "route"),
    Route("POST", "/v1/route", route.route, "route"),
    Route("POST", "/v1/outcomes", route.outcomes, "route"),
    Route("GET", "/v1/decisions/{decision}", route.decision, "read"),
    Route("GET", "/v1/events", events.events, "read"),
    # Its hello carries the credential.
    Route("POST", "/v1/frames", frames, None),
    Route("GET", "/metrics", metrics, "read"),
    Route("GET", "/livez", probes.livez, None),
    Route("GET", "/readyz", probes.readyz, None),
    Route("GET", "/openapi.json", openapi, None),
)
SCOPES = {(each.method, each.path): each.scope for each in ROUTES}


def build(collector: Collector) -> web.Application:
    """Return the application that answers for this collector."""
    app = web.Application(
        client_max_size=BODY_LIMIT_BYTES,
        middlewares=[
            watch,
            say_what_went_wrong,
            only_from_here(collector.credentials, collector.settings),
            need_credential(SCOPES),
        ],
    )
    app[COLLECTOR] = collector
    app[TRAFFIC] = Traffic()
    app[STREAMS] = streams = Streams()
    app.on_shutdown.append(streams.end)
    for each in ROUTES:
        app.router.add_route(each.method, each.path, each.handler)
        # A stream has no end, and so no head that could be told of it.
        if each.method == "GET" and each.handler is not events.events:
            app.router.add_route("HEAD", each.path, each.handler)
    return app
