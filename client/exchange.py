"""One request and its answer: JSON out, typed value or ApiError back.

Reads are asked once more when the connection breaks, which is how a kept
connection ends that the collector closed. What changes something never is:
the first may have been heard. Redirects are not followed, so the token goes
where it was meant for and nowhere else.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import urllib3
from urllib3.exceptions import HTTPError, ProtocolError

from .authority import trust
from .base_url import parse_base
from .errors import ApiError, NoCollector, NotFound, WrongServer
from .fields import Fields, Unexpected
from .refusals import refusal
from .unanswered import other_scheme, unanswered

_T = TypeVar("_T")
_NOT_FOUND = ("urn:trimtab:no-node", "urn:trimtab:no-decision")
_CHECK_URL = "Check --url or TRIMTAB_URL; the API is on port 7767 unless set"

Query = Mapping[str, str | float | Iterable[str] | None]


class Answer(NamedTuple):
    """What came back, whatever its status."""

    line: str  # what was asked: method and URL
    status: int
    challenge: str  # the WWW-Authenticate header
    body: object  # of JSON

    @property
    def problem(self) -> dict[str, Any] | None:
        """The problem document (RFC 9457); None if it is none."""
        return _problem(self.body)


class Exchange:
    """Asks one collector."""

    def __init__(
        self,
        url: str,
        token: str | None,
        timeout_s: float,
        ca_file: str | os.PathLike[str] | None,
    ) -> None:
        """Take what Client takes; BadUrl, BadAuthority or ValueError."""
        self.url = parse_base(url)
        headers = {"Accept": "application/json"}
        if token is not None:
            if not re.fullmatch(r"[\x21-\x7e]+", token):
                # Not shown, and not left to the HTTP library, which shows it.
                raise ValueError("a token is printable ASCII without spaces")
            headers["Authorization"] = f"Bearer {token}"
        self._token_given = token is not None
        self._timeout_s = timeout_s
        self._pool = urllib3.PoolManager(
            headers=headers,
            retries=False,
            timeout=urllib3.Timeout(connect=timeout_s, read=timeout_s),
            ssl_context=trust(ca_file),
        )

    def close(self) -> None:
        """Close the connections that are kept."""
        self._pool.clear()

    def get(self, path: str, parse: Callable[[Fields], _T]) -> _T:
        """Return the answer to a GET, parsed."""
        return self.good(self.ask("GET", path), parse)

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        """Return the answer, good or bad; NoCollector or WrongServer if none."""
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
        return self._answer(line, response)

    def stream(
        self, path: str, headers: Mapping[str, str], silence_s: float
    ) -> Iterator[bytes]:
        """Yield the bytes of an answer as they come; NoCollector when it ends.

        It counts as ended after `silence_s` without any.
        """
        url = f"{self.url}{path}"
        line = f"GET {url}"
        try:
            response = self._pool.request(
                "GET",
                url,
                headers={**self._pool.headers, **headers},
                redirect=False,
                preload_content=False,
                timeout=urllib3.Timeout(connect=self._timeout_s, read=silence_s),
            )
        except HTTPError as exc:
            raise NoCollector(unanswered(line, self.url, exc)) from exc
        try:
            if response.status != HTTPStatus.OK:
                self.good(self._answer(line, response), lambda _: None)
            yield from response.stream()
        except HTTPError as exc:
            raise NoCollector(unanswered(line, self.url, exc)) from exc
        finally:
            response.close()
        raise NoCollector(f"{line}: the collector ended the stream")

    def _answer(self, line: str, response: urllib3.BaseHTTPResponse) -> Answer:
        challenge = response.headers.get("WWW-Authenticate", "")
        return Answer(line, response.status, challenge, _json(line, self.url, response))

    def good(self, answer: Answer, parse: Callable[[Fields], _T]) -> _T:
        """Return the answer of a success, parsed; ApiError for anything else."""
        line, status, challenge, body = answer
        if status == HTTPStatus.OK:
            return parsed(line, body, parse)
        problem = answer.problem
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


def part(text: str) -> str:
    """Return a text as one part of a path, whatever is in it."""
    if text in (".", ".."):
        return text.replace(".", "%2E")  # else taken for a way through folders
    return quote(text, safe="")


def query(values: Query) -> str:
    """Return the query of a URL, from its ? on; what is None is left out."""
    given = {k: v for k, v in values.items() if v is not None}
    return f"?{text}" if (text := urlencode(given, doseq=True)) else ""


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


def parsed(line: str, body: object, parse: Callable[[Fields], _T]) -> _T:
    """Return a JSON value as the type that the API says; WrongServer if it isn't."""
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
