"""Every failure becomes a problem document; OPTIONS says what a path takes."""

import sqlite3

import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from . import request_id
from .problems import Problem, answer

log = structlog.get_logger()


@web.middleware
async def say_what_went_wrong(
    request: web.Request, handler: Handler
) -> web.StreamResponse:
    """Answer with a problem document where a handler could not answer."""
    try:
        return await handler(request)
    except Problem as problem:
        return answer(problem)
    except web.HTTPException as exc:
        return _from_aiohttp(request, exc)
    except ConnectionError:
        raise  # nobody is left to answer
    except sqlite3.Error as exc:
        log.error("store_unread", request=request_id.current(), error=str(exc))
        return answer(
            Problem(
                503,
                "history can't be read from the store now; scores and routing go on, "
                "and /readyz says how the store is",
                headers={"Retry-After": "10"},
            )
        )
    except Exception:
        ident = request_id.current()
        log.exception("request_failed", request=ident, path=request.path)
        return answer(
            Problem(500, f"a fault of the collector; its log has request {ident}")
        )


def _from_aiohttp(request: web.Request, exc: web.HTTPException) -> web.Response:
    allow = exc.headers.get(hdrs.ALLOW)
    if exc.status == 405 and allow and request.method == hdrs.METH_OPTIONS:
        return web.Response(status=204, headers={"Allow": f"{allow},OPTIONS"})
    details = {
        404: f"there is no {request.path[:200]} here; /openapi.json lists what there "
        "is",
        405: f"{request.path[:200]} does not take {request.method[:40]}, but {allow}",
        413: "the body is larger than this route takes",
    }
    detail = details.get(exc.status, exc.text or exc.reason)
    headers = {"Allow": allow} if allow else {}
    return answer(Problem(exc.status, detail, headers=headers))
