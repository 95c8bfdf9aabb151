"""Around every request: its id, its log line, its errors, its credential."""

import ipaddress
import time
import uuid
from urllib.parse import urlsplit

import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from ..credentials import Credentials
from ..session import Clock
from ..settings import Settings
from .problems import Problem, answer

log = structlog.get_logger()

# Scope that a path needs; the longest prefix decides. None: everyone.
SCOPES: dict[str, str | None] = {
    "/v1/": "read",
    "/v1/frames": None,  # its hello carries the credential
    "/v1/route": "route",
    "/v1/outcomes": "route",
    "/metrics": "read",
    "/": "read",
    "/livez": None,
    "/readyz": None,
    "/openapi.json": None,
}


def _scope(path: str) -> str | None:
    prefix = max((p for p in SCOPES if path.startswith(p)), key=len, default="/")
    return SCOPES[prefix]


@web.middleware
async def say_what_went_wrong(
    request: web.Request, handler: Handler
) -> web.StreamResponse:
    """Turn every failure into a problem document, and log each request."""
    request_id = uuid.uuid4().hex[:16]
    started_at = time.perf_counter()
    try:
        response = await handler(request)
    except Problem as problem:
        response = answer(problem)
    except web.HTTPException as exc:
        response = _from_aiohttp(request, exc)
    except Exception:
        log.exception("request_failed", request=request_id, path=request.path)
        response = answer(
            Problem(500, f"a fault of the collector; its log has request {request_id}")
        )
    response.headers["X-Request-Id"] = request_id
    log.debug(
        "request",
        request=request_id,
        method=request.method,
        path=request.path,
        status=response.status,
        ms=round((time.perf_counter() - started_at) * 1000, 1),
        peer=request.remote,
    )
    return response


def _from_aiohttp(request: web.Request, exc: web.HTTPException) -> web.Response:
    details = {
        404: f"there is no {request.path} here; /openapi.json lists what there is",
        405: f"{request.path} does not take {request.method}",
        413: "the body is larger than this route takes",
    }
    detail = details.get(exc.status, exc.text or exc.reason)
    allow = exc.headers.get(hdrs.ALLOW)
    headers = {"Allow": allow} if allow else {}
    return answer(Problem(exc.status, detail, headers=headers))


def need_credential(credentials: Credentials, clock: Clock) -> Middleware:
    """Return the middleware that checks bearer tokens against SCOPES."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        scope = _scope(request.path)
        if scope is not None:
            kind, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
            given = token.strip() if kind.lower() == "bearer" else None
            if not credentials.allows(given, scope, clock.unix()):
                known = credentials.knows(given, clock.unix())
                error = ' error="insufficient_scope",' if known else ""
                raise Problem(
                    403 if known else 401,  # RFC 6750, 3.1
                    f"a bearer token of scope {scope} is needed: make one with "
                    f"'trimtab-collector token create --scope {scope}'",
                    headers={"WWW-Authenticate": f'Bearer{error} scope="{scope}"'},
                )
        return await handler(request)

    return check


def only_from_here(credentials: Credentials, settings: Settings) -> Middleware:
    """Return the middleware that keeps web pages out of an open collector.

    A page that the operator looks at could otherwise ask through the browser:
    by a name of its own that it points at this host (DNS rebinding), or by a
    form across sites. Neither can hide its Host or its Origin.
    """

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


def _of_this_host(name: str) -> bool:
    """Whether a Host or an Origin is a loopback one, whatever its port."""
    host = urlsplit(name if "//" in name else f"//{name}").hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
