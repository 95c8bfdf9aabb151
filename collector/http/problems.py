"""Errors as application/problem+json (RFC 9457).

`type` is a URN of ours where a program may want to tell cases apart, and
about:blank where the status says it all.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from aiohttp import web

from . import request_id

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

    def document(self) -> dict[str, Any]:
        """Return the problem as a JSON object."""
        return {
            "type": f"urn:trimtab:{self.kind}" if self.kind else "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            **self.extra,
        }


def answer(problem: Problem) -> web.Response:
    """Return the problem as a response."""
    document = problem.document() | {"request_id": request_id.current()}
    return web.Response(
        status=problem.status,
        text=json.dumps(document, allow_nan=False) + "\n",
        content_type=MEDIA_TYPE,
        headers=problem.headers,
    )
