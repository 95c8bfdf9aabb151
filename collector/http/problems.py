"""Errors as application/problem+json (RFC 9457).

`type` is a URN of ours where a program may want to tell cases apart, and
about:blank where the status says it all.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import web

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """An answer that is no success; `extra` are members of the document."""

    def __init__(
        self,
        status: int,
        detail: str,
        kind: str | None = None,
        headers: Mapping[str, str] | None = None,
        **extra: object,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.kind = kind
        self.headers = headers
        self.extra = extra


def answer(problem: Problem) -> web.Response:
    """Return the problem as a response."""
    document = {
        "type": f"urn:trimtab:{problem.kind}" if problem.kind else "about:blank",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
        **problem.extra,
    }
    return web.Response(
        status=problem.status,
        text=json.dumps(document, allow_nan=False) + "\n",
        content_type=MEDIA_TYPE,
        headers=problem.headers,
    )
