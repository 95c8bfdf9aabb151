"""GET /v1/nodes/{node}/forecast: the headroom expected, with its band.

Nothing forecasts yet: the answer has the shape it will keep, with `method`
null and no values.
"""

from aiohttp import web

from ..core import COLLECTOR
from ..health import DIMENSIONS
from .nodes import find
from .parameters import only

STEP_S, STEPS = 300, 12
SERIES = ("score", *DIMENSIONS)


async def forecast(request: web.Request) -> web.Response:
    """Answer the next hour, step by step."""
    collector = request.app[COLLECTOR]
    only(request)
    node = collector.fleet.nodes[find(request)]
    first = int(collector.clock.unix() // STEP_S + 1) * STEP_S
    empty = [None] * STEPS
    return web.json_response(
        {
            "node": node.name,
            "step_s": STEP_S,
            "time": [first + i * STEP_S for i in range(STEPS)],
            "series": {
                name: {"expected": empty, "low": empty, "high": empty}
                for name in SERIES
            },
            "method": None,
        }
    )
