"""The calls: arguments in, a typed value out."""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Any, Literal, Self

from .base_url import DEFAULT_URL
from .decisions import (
    NO_FIT,
    BadTask,
    Closed,
    Decision,
    NoFit,
    Outcome,
    parse_batch,
    parse_closed,
    parse_decision,
    parse_no_fit,
)
from .events import Event, EventPage, parse_page
from .exchange import Exchange, parsed, part, query
from .follow import follow
from .forecasts import Forecast, parse_forecast
from .history import History, parse_history
from .nodes import Node, NodeSummary, parse_list, parse_node
from .ready import Ready, parse_ready

_PAGE = 1000  # nodes that one answer holds at most


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
        self._exchange = Exchange(url, token, timeout_s, ca_file)
        self.url = self._exchange.url

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
        self._exchange.close()

    def nodes(
        self,
        *,
        state: Iterable[str] = (),
        site: Iterable[str] = (),
        label: Iterable[str] = (),
        limiting: Iterable[str] = (),
        admin: Iterable[str] = (),
        sort: str | None = None,
        limit: int | None = None,
    ) -> tuple[NodeSummary, ...]:
        """Return the nodes that pass, by default all but deleted ones, by name.

        Of each filter any value will do, of `label` (KEY=VALUE, or KEY) all are
        needed. `sort` is name, score, confidence, age, cpu, memory, network or
        gpu, with - before it the other way round. At most `limit` of them.
        """
        filters = {
            "state": ",".join(state) or None,
            "site": list(site),
            "label": list(label),
            "limiting": ",".join(limiting) or None,
            "admin": ",".join(admin) or None,
            "sort": sort,
        }
        found: list[NodeSummary] = []
        cursor = None
        while True:
            left = _PAGE if limit is None else min(_PAGE, limit - len(found))
            asked = query({**filters, "limit": left, "cursor": cursor})
            page, cursor = self._exchange.get(f"/v1/nodes{asked}", parse_list)
            found += page
            if cursor is None or len(found) == limit:
                return tuple(found)

    def node(self, node: str) -> Node:
        """Return one node, by name or id; NotFound if there is none."""
        return self._exchange.get(f"/v1/nodes/{part(node)}", parse_node)

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
        asked = query({"since": since, "until": until, "step": step})
        path = f"/v1/nodes/{part(node)}/history{asked}"
        return self._exchange.get(path, parse_history)

    def forecast(self, node: str) -> Forecast:
        """Return what is expected of a node; NotFound if there is none."""
        return self._exchange.get(f"/v1/nodes/{part(node)}/forecast", parse_forecast)

    def drain(
        self, node: str, *, deadline_s: float | None = None, reason: str | None = None
    ) -> Node:
        """Take a node out: no new tasks, at the deadline no sticky ones either.

        It is drained once its work is done or the deadline has come. Return
        it; NotFound if there is none.
        """
        given = {"deadline_s": deadline_s, "reason": reason}
        body = {k: v for k, v in given.items() if v is not None}
        return self._change("PUT", f"/v1/nodes/{part(node)}/drain", body)

    def undrain(self, node: str) -> Node:
        """Put a node back, a deleted one too; NotFound if there is none."""
        return self._change("DELETE", f"/v1/nodes/{part(node)}/drain")

    def delete(self, node: str, *, reason: str | None = None) -> Node:
        """Delete a node: its agent is refused until it is put back."""
        asked = query({"reason": reason})
        return self._change("DELETE", f"/v1/nodes/{part(node)}{asked}")

    def hold(self, node: str, holds: Iterable[str]) -> Node:
        """Say what data a node holds now, all of it; NotFound if there is none."""
        body = {"holds": list(holds)}
        return self._change("PUT", f"/v1/nodes/{part(node)}/holds", body)

    def events(
        self, after: int | None = None, *, limit: int = 100, wait_s: float = 0.0
    ) -> EventPage:
        """Return what happened past an event's number, or the newest there are.

        Where nothing has, wait for up to `wait_s`, at most 30.
        """
        asked = query({"after": after, "limit": limit, "wait": wait_s})
        return self._exchange.get(f"/v1/events{asked}", parse_page)

    def follow(
        self, after: int | None = None, *, patience_s: float = 60.0
    ) -> Iterator[Event]:
        """Yield what happens as it happens, from now or past an event's number.

        Taken up again by itself while the collector is away, for up to
        `patience_s`.
        """
        if after is None:
            after = self.events(limit=1).next
        yield from follow(self._exchange, after, patience_s)

    def route(self, task: Mapping[str, Any] | None = None) -> Decision | NoFit:
        """Return where a task should go, or why nowhere.

        A decision is a lease on its node: tell how it went with `outcome`.
        """
        answer = self._exchange.ask("POST", "/v1/route", dict(task or {}))
        problem = answer.problem or {}
        if answer.status == HTTPStatus.CONFLICT and problem.get("type") == NO_FIT:
            return parsed(answer.line, problem, parse_no_fit)
        return self._exchange.good(answer, parse_decision)

    def route_all(
        self, tasks: Iterable[Mapping[str, Any]]
    ) -> tuple[Decision | NoFit | BadTask, ...]:
        """Return where each of several tasks should go, at most 1000, in order."""
        body = {"tasks": [dict(task) for task in tasks]}
        return self._exchange.good(
            self._exchange.ask("POST", "/v1/route", body), parse_batch
        )

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
        return self._exchange.good(
            self._exchange.ask("POST", "/v1/outcomes", told), parse_closed
        )

    def decision(self, decision: str) -> Decision:
        """Return a decision again, by its id; NotFound if none is remembered."""
        return self._exchange.get(f"/v1/decisions/{part(decision)}", parse_decision)

    def ready(self) -> Ready:
        """Return how ready the collector is; ApiError 503 if it isn't."""
        return self._exchange.get("/readyz", parse_ready)

    def _change(self, method: str, path: str, body: object = None) -> Node:
        return self._exchange.good(self._exchange.ask(method, path, body), parse_node)
