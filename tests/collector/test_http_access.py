"""Each request has an id, a line in the log and a place in the counts."""

import asyncio
import logging

import pytest
import structlog

from trimtab.collector.http import access
from trimtab.collector.http.app import build

from .asking import NODE, bearer, guard, serving


@pytest.fixture
def lines(monkeypatch):
    """What is logged at level info and above."""
    taken = []

    def take(logger, method, event):
        taken.append(event)
        raise structlog.DropEvent

    log = structlog.wrap_logger(
        None,
        processors=[structlog.processors.add_log_level, take],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    monkeypatch.setattr(access, "log", log)
    return taken


def test_a_request_is_a_line_with_its_route_and_without_secrets(
    collector, clock, lines
):
    guard(collector, clock, "read", label="grafana")

    async def scenario():
        async with serving(collector) as ask:
            response, problem = await ask(
                "GET",
                "/v1/nodes/secret-name?token=secret",
                NODE,
                headers=bearer("read") | {"X-Request-Id": "abc-1"},
            )
            assert response.status == 400
            assert response.headers["X-Request-Id"] == "abc-1"
            assert problem["request_id"] == "abc-1"

    asyncio.run(scenario())
    (line,) = lines
    assert line.pop("duration_ms") > 0
    assert line == {
        "event": "request",
        "level": "info",
        "request": "abc-1",
        "method": "GET",
        "route": "/v1/nodes/{node}",
        "status": 400,
        "peer": "127.0.0.1",
        "by": "grafana",
    }


@pytest.mark.parametrize("brought", ["", "a b", "x" * 65, "a\u00fc", "a=b"])
def test_an_id_that_could_spoil_a_log_is_replaced(collector, lines, brought):
    async def scenario():
        async with serving(collector) as ask:
            response, _ = await ask(
                "GET", "/v1/nodes", headers={"X-Request-Id": brought}
            )
            assert response.headers["X-Request-Id"] not in ("", brought)
            assert lines[0]["request"] == response.headers["X-Request-Id"]

    asyncio.run(scenario())


def test_probes_are_quiet(collector, lines):
    async def scenario():
        async with serving(collector) as ask:
            await ask("GET", "/livez")
            await ask("GET", "/readyz")

    asyncio.run(scenario())
    assert lines == []


def test_a_fault_of_ours_is_a_500_with_the_id_to_look_for(collector, monkeypatch):
    monkeypatch.setattr(collector, "router", None)
    app = build(collector)

    async def scenario():
        from aiohttp.test_utils import TestClient, TestServer

        async with (
            TestClient(TestServer(app)) as client,
            client.post("/v1/route", headers={"X-Request-Id": "r1"}) as response,
        ):
            assert response.status == 500
            assert "its log has request r1" in (await response.json())["detail"]
            assert app[access.TRAFFIC].requests == {("POST", "/v1/route", 500): 1}

    asyncio.run(scenario())


def test_what_is_strange_is_counted_as_one(collector):
    traffic = access.Traffic()
    for n in range(1000):
        traffic.note(f"ODD{n}", "none", 404, 0.5)
    assert traffic.requests == {("other", "none", 404): 1000}
    assert traffic.seconds == {"none": 500.0}
