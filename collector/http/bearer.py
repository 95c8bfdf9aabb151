"""Bearer tokens (RFC 6750): who asks, and whether the route is for them."""

import math
from collections.abc import Mapping

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from ..core import COLLECTOR
from ..store import Credential
from .problems import Problem

# The scope that a method of a path needs; None: no token at all.
Scopes = Mapping[tuple[str, str], str | None]


def need_credential(scopes: Scopes) -> Middleware:
    """Return the middleware that checks tokens against the routes' scopes."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        credentials = request.app[COLLECTOR].credentials
        if not credentials.open:
            resource = request.match_info.route.resource
            if resource is None:  # no such path, or method of it
                _demand(request, None)
            else:
                method = "GET" if request.method == "HEAD" else request.method
                scope = scopes[method, resource.canonical]
                if scope is not None:
                    _demand(request, scope)
        return await handler(request)

    return check


def _demand(request: web.Request, scope: str | None) -> None:
    """Raise the Problem of a token that is missing, unknown or too narrow."""
    held = holder(request)
    if held is not None and (scope is None or {scope, "admin"} & held.scopes):
        return
    if held is None and hdrs.AUTHORIZATION in request.headers:
        brake(request)
    wanted = scope or "read"
    error = "" if held is None else ' error="insufficient_scope",'
    raise Problem(
        401 if held is None else 403,  # RFC 6750, 3.1
        f"a bearer token of scope {wanted} is needed: make one with "
        f"'trimtab-collector token create --scope {wanted}'",
        headers={"WWW-Authenticate": f'Bearer{error} scope="{wanted}"'},
    )


def brake(request: web.Request) -> None:
    """Count a wrong credential; Problem 429 once its sender had too many."""
    retry_s = request.app[COLLECTOR].intake.note_failure(request.remote or "?")
    if retry_s is not None:
        raise Problem(
            429,
            "too many wrong credentials came from your network: check yours, and "
            f"try again in {math.ceil(retry_s)} s",
            headers={"Retry-After": str(math.ceil(retry_s))},
        )


def holder(request: web.Request) -> Credential | None:
    """Return the valid credential that a request brings; None without one."""
    kind, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    if kind.lower() != "bearer":
        return None
    collector = request.app[COLLECTOR]
    return collector.credentials.find(token.strip(), collector.clock.unix())


def by(request: web.Request) -> str | None:
    """Return what to call who asks: the credential's label, or else its id."""
    held = holder(request)
    return None if held is None else held.label or held.ident
