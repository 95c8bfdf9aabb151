"""The calls: a request line in, a typed value out.

Reads are asked once more when the connection breaks, which is how a kept
connection ends that the collector closed. What changes something never is:
the first may have been heard. Redirects are not followed, so the token goes
where it was meant for and nowhere else.
"""

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypeVar
from urllib.parse import quote, urlencode

import urllib3
from urllib3.exceptions import HTTPError, ProtocolError

from .authority import trust
from .base_url import DEFAULT_URL, parse_base
from .decisions import (
    Closed,
    Decision,
    NoFit,
    Outcome,
    parse_closed,
    parse_decision,
    parse_no_fit,
)
from .errors import ApiError, NoCollector, NotFound, WrongServer
from .fields import Fields, Unexpected
from .history import History, parse_history
from .nodes import Node, NodeSummary, parse_node, parse_summary
from .ready import Ready, parse_ready
from .refusals import refusal
from .unanswered import other_scheme, unanswered

_T = TypeVar("_T")
_NOT_FOUND = ("urn:trimtab:no-node", "urn:trimtab:no-decision")
_NO_FIT = "urn:trimtab:no-fit"
_CHECK_URL = "Check --url or TRIMTAB_URL; the API is on port 7767 unless set"


class _Answer(NamedTuple):
    line: str  # what was asked: method and URL
    status: int
    challenge: str  # the WWW-Authenticate header
    body: object  # of JSON


class Client:
    """A collector, by its URL; a context manager.

    A call waits `timeout_s` to connect and as long again for each read. Of
    https the certificates in the PEM file `ca_file` are trusted, instead of the
    system's. Every call may raise ApiError. BadUrl, BadAuthority or another
    ValueError for arguments that can't be.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | None = None,
        timeout_s: float = 5.0,
        ca_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self.url = parse_base(url)
        headers = {"Accept": "application/json"}
        if token is not None:
            if not re.fullmatch(r"[\x21-\x7e]+", token):
                # Not shown, and not left to the HTTP library, which shows it.
                raise ValueError("a token is printable ASCII without spaces")
            headers["Authorization"] = f"Bearer {token}"
        self._token_given = token is not None
        self._pool = urllib3.PoolManager(
            headers=headers,
            retries=False,
            timeout=urllib3.Timeout(connect=timeout_s, read=timeout_s),
            ssl_context=trust(ca_file),
        )

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept."""
        self._pool.clear()

    def nodes(self) -> tuple[NodeSummary, ...]:
        """Return every node."""
        return self._get(
            "/v1/nodes",
            lambda answer: tuple(parse_summary(n) for n in answer.objects("nodes")),
        )

    def node(self, node: str) -> Node:
        """Return one node, by name or id; NotFound if there is none."""
        return self._get(f"/v1/nodes/{_part(node)}", parse_node)

    def history(
        self,
        node: str,
        since: float | None = None,
        until: float | None = None,
        step: int | None = None,
    ) -> History:
        """Return a node's past between two Unix times, in steps of seconds.

        Left out: an hour before `until`, now, and 60. A step is a multiple
        of 60. NotFound if there is no such node.
        """
        given = {"since": since, "until": until, "step": step}
        query = urlencode({k: v for k, v in given.items() if v is not None})
        path = f"/v1/nodes/{_part(node)}/history"
        return self._get(f"{path}?{query}" if query else path, parse_history)

    def route(self, task: Mapping[str, Any] | None = None) -> Decision | NoFit:
        """Return where a task should go, or why nowhere.

        A decision is a lease on its node: tell how it went with `outcome`.
        """
        answer = self._ask("POST", "/v1/route", dict(task or {}))
        if answer.status == HTTPStatus.CONFLICT:
            problem = _problem(answer.body)
            if problem is not None and problem.get("type") == _NO_FIT:
                return _parsed(answer.line, problem, parse_no_fit)
        return self._good(answer, parse_decision)

    def outcome(
        self,
        decision: str,
        outcome: Literal["ok", "error", "timeout"],
        *,
        latency_ms: float | None = None,
        service_ms: float | None = None,
        node_inflight: int | None = None,
        transfer_mib: float | None = None,
        transfer_ms: float | None = None,
    ) -> Closed:
        """Tell how it went with one decision: its lease ends."""
        return self.outcomes(
            [
                Outcome(
                    decision=decision,
                    outcome=outcome,
                    latency_ms=latency_ms,
                    service_ms=service_ms,
                    node_inflight=node_inflight,
                    transfer_mib=transfer_mib,
                    transfer_ms=transfer_ms,
                )
            ]
        )

    def outcomes(self, outcomes: Iterable[Outcome]) -> Closed:
        """Tell how it went with several, at most 1000."""
        told = [
            {k: v for k, v in dataclasses.asdict(each).items() if v is not None}
            for each in outcomes
        ]
        return self._good(self._ask("POST", "/v1/outcomes", told), parse_closed)

    def decision(self, decision: str) -> Decision:
        """Return a decision again, by its id; NotFound if none is remembered."""
        return self._get(f"/v1/decisions/{_part(decision)}", parse_decision)

    def ready(self) -> Ready:
        """Return how ready the collector is; ApiError 503 if it isn't."""
        return self._get("/readyz", parse_ready)

    def _get(self, path: str, parse: Callable[[Fields], _T]) -> _T:
        return self._good(self._ask("GET", path), parse)

    def _ask(self, method: str, path: str, body: object = None) -> _Answer:
        url = f"{self.url}{path}"
        line = f"{method} {url}"
        headers = dict(self._pool.headers)
        content = None
        if body is not None:
            content = json.dumps(body, allow_nan=False).encode()
            headers["Content-Type"] = "application/json"

        def ask() -> urllib3.BaseHTTPResponse:
            return self._pool.request(
                method, url, body=content, headers=headers, redirect=False
            )

        try:
            try:
                response = ask()
            except ProtocolError:
                if method != "GET":
                    raise
                response = ask()
        except HTTPError as exc:
            raise NoCollector(unanswered(line, self.url, exc)) from exc
        challenge = response.headers.get("WWW-Authenticate", "")
        body = _json(line, self.url, response)
        return _Answer(line, response.status, challenge, body)

    def _good(self, answer: _Answer, parse: Callable[[Fields], _T]) -> _T:
        """Return the answer of a success, parsed; ApiError for anything else."""
        line, status, challenge, body = answer
        if status == HTTPStatus.OK:
            return _parsed(line, body, parse)
        problem = _problem(body)
        if problem is None:
            raise WrongServer(
                f"{line}: no trimtab collector answers there: expected an answer or "
                f"a problem document, got {_status(status)}. {_CHECK_URL}",
                status,
            )
        detail = refusal(
            status, problem["detail"], challenge, token_given=self._token_given
        )
        text = f"{line}: {_status(status)}: {detail}"
        if status == HTTPStatus.NOT_FOUND and problem.get("type") in _NOT_FOUND:
            raise NotFound(text, status, problem)
        raise ApiError(text, status, problem)


def _part(text: str) -> str:
    """Return a text as one part of a path, whatever is in it."""
    if text in (".", ".."):
        return text.replace(".", "%2E")  # else taken for a way through folders
    return quote(text, safe="")


def _json(line: str, url: str, response: urllib3.BaseHTTPResponse) -> object:
    def refuse(constant: str) -> object:
        raise ValueError(constant)

    try:
        body: object = json.loads(response.data, parse_constant=refuse)
    except (ValueError, RecursionError) as exc:
        kind = response.headers.get("Content-Type", "nothing")
        raise WrongServer(
            f"{line}: no trimtab collector answers there: expected JSON, got "
            f"{_status(response.status)} with {kind[:60]!r}. {_mend(url, response)}",
            response.status,
        ) from exc
    return body


def _mend(url: str, response: urllib3.BaseHTTPResponse) -> str:
    elsewhere = response.headers.get("Location")
    if elsewhere is not None:
        return (
            f"It points to {elsewhere[:80]!r}, which is not followed: if the "
            "collector is there, set --url or TRIMTAB_URL to it"
        )
    # What common servers say to plain HTTP on a port that speaks TLS.
    if response.status == HTTPStatus.BAD_REQUEST and url.startswith("http:"):
        return f"Does it speak TLS? Try {other_scheme(url)}"
    return _CHECK_URL


def _problem(body: object) -> dict[str, Any] | None:
    if isinstance(body, dict) and isinstance(body.get("detail"), str):
        return body
    return None


def _parsed(line: str, body: object, parse: Callable[[Fields], _T]) -> _T:
    try:
        return parse(Fields(body))
    except Unexpected as exc:
        raise WrongServer(
            f"{line}: not what this version of trimtab expects of a collector: {exc}",
            HTTPStatus.OK,
        ) from exc


def _status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
