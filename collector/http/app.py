"""The routes, joined into one aiohttp application."""

from aiohttp import web

from ..core import COLLECTOR, Collector
from .frames import BODY_LIMIT_BYTES, frames
from .metrics import metrics
from .middleware import need_credential, only_from_here, say_what_went_wrong
from .nodes import history, node, nodes
from .openapi import openapi
from .probes import livez, readyz
from .route import decision, outcomes, route


def build(collector: Collector) -> web.Application:
    """Return the application that answers for this collector."""
    app = web.Application(
        client_max_size=BODY_LIMIT_BYTES,
        middlewares=[
            say_what_went_wrong,
            only_from_here(collector.credentials, collector.settings),
            need_credential(collector.credentials, collector.clock),
        ],
    )
    app[COLLECTOR] = collector
    app.add_routes(
        [
            web.get("/v1/nodes", nodes),
            web.get("/v1/nodes/{node}", node),
            web.get("/v1/nodes/{node}/history", history),
            web.post("/v1/route", route),
            web.post("/v1/outcomes", outcomes),
            web.get("/v1/decisions/{decision}", decision),
            web.post("/v1/frames", frames),
            web.get("/metrics", metrics),
            web.get("/livez", livez),
            web.get("/readyz", readyz),
            web.get("/openapi.json", openapi),
        ]
    )
    return app
