"""GET /v1/nodes and /v1/nodes/{node}."""

from typing import Any

from aiohttp import web

from ..core import COLLECTOR
from . import etag, listing
from .node_json import summary, whole
from .parameters import only
from .problems import Problem


async def nodes(request: web.Request) -> web.Response:
    """Answer a page of the fleet."""
    collector = request.app[COLLECTOR]
    only(request, *listing.PARAMETERS)
    shown = listing.page(request, collector.fleet)

    def document() -> dict[str, Any]:
        return {
            "nodes": [summary(collector, row) for row in shown.rows],
            "next": shown.next,
        }

    return etag.answer(request, document)


async def node(request: web.Request) -> web.Response:
    """Answer one node, with all that is known of it."""
    only(request)
    return web.json_response(whole(request.app[COLLECTOR], find(request)))


def find(request: web.Request) -> int:
    """Return the row of the path's {node}; 404 if there is none."""
    wanted = request.match_info["node"]
    row = request.app[COLLECTOR].fleet.find(wanted)
    if row is None:
        raise Problem(404, f"no node has the name or id {wanted[:80]!r}", "no-node")
    return row
