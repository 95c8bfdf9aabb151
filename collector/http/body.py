"""The body of a request, whole and decompressed, or a problem that says why."""

import asyncio
import json
from typing import Any

from aiohttp import ClientPayloadError, web
from aiohttp.http_exceptions import HttpProcessingError

from .problems import Problem

# A body is at most 1 MiB: who needs longer is stuck, or means to hold us up.
BODY_S = 20.0
# What JSON comes as. Unless told otherwise curl calls what it posts a form, and
# a browser or aiohttp a text; aiohttp reads the last where nothing is said.
_JSON = (
    "application/json",
    "application/x-www-form-urlencoded",
    "text/plain",
    "application/octet-stream",
)


async def read_body(request: web.Request) -> bytes:
    """Return the body; Problem 400 or 408 if it is not as announced, or slow."""
    try:
        async with asyncio.timeout(BODY_S):
            return await request.read()
    except TimeoutError as exc:
        raise Problem(
            408,
            f"the body did not come within {BODY_S:g} s",
            headers={"Connection": "close"},
        ) from exc
    except (ClientPayloadError, web.RequestPayloadError, HttpProcessingError) as exc:
        raise Problem(
            400, f"the body is not what its headers say: {type(exc).__name__}"
        ) from exc


async def read_json(request: web.Request) -> Any:
    """Return the JSON body, {} for an empty one; Problem 400, 408 or 415."""
    kind = request.content_type
    if kind not in _JSON and not kind.endswith("+json"):
        raise Problem(415, f"expected a body of application/json, got {kind[:80]!r}")
    raw = await read_body(request)
    try:
        return json.loads(raw or b"{}")
    except (ValueError, RecursionError) as exc:
        raise Problem(400, f"the body is not JSON: {exc}"[:300]) from exc
