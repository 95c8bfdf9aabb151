"""The body of a request, whole and decompressed, or a problem that says why."""

from aiohttp import ClientPayloadError, web
from aiohttp.http_exceptions import HttpProcessingError

from .problems import Problem


async def read_body(request: web.Request) -> bytes:
    """Return the body; Problem 400 if it is not what its headers say."""
    try:
        return await request.read()
    except (ClientPayloadError, web.RequestPayloadError, HttpProcessingError) as exc:
        raise Problem(
            400, f"the body is not what its headers say: {type(exc).__name__}"
        ) from exc
