"""Around every route: errors, tokens, bodies, who is answered at all."""

import asyncio
import io

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from trimtab.collector.credentials import new_credential
from trimtab.collector.http.app import build

from .asking import serving


def test_guessing_tokens_is_braked_and_shuts_out_nobody_else(collector, clock):
    collector.credentials.replace(
        [new_credential("tt_read", ["read"], "", clock.unix(), None)]
    )

    async def scenario():
        async with serving(collector) as ask:

            async def answer(token):
                headers = {"Authorization": f"Bearer {token}"}
                response, _ = await ask("GET", "/v1/nodes", headers=headers)
                return response

            guesses = [(await answer(f"tt_{i}")).status for i in range(15)]
            assert guesses == [401] * 10 + [429] * 5
            braked = await answer("tt_again")
            assert int(braked.headers["Retry-After"]) == 5
            assert (await answer("tt_read")).status == 200
            clock.now += 6
            assert (await answer("tt_late")).status == 401

    asyncio.run(scenario())
    (event,) = collector.events.after(0, 99)
    assert "127.0.0.1 fails to prove who it is too often" in event.reason


def test_with_tokens_each_route_asks_for_its_scope(collector, clock):
    collector.credentials.replace(
        [
            new_credential(f"tt_{scope}", [scope], "", clock.unix(), None)
            for scope in ("read", "route", "admin", "agent")
        ]
    )

    async def scenario():
        async with serving(collector) as ask:

            async def status(method, path, token):
                headers = {} if token is None else {"Authorization": f"Bearer {token}"}
                response, _ = await ask(method, path, headers=headers, data=b"{}")
                return response.status

            assert await status("GET", "/v1/nodes", None) == 401
            assert await status("GET", "/v1/nodes", "wrong") == 401
            assert await status("GET", "/v1/nodes", "t\udcff") == 401
            assert await status("GET", "/v1/nodes", "tt_route") == 403
            assert await status("GET", "/v1/nodes", "tt_read") == 200
            assert await status("GET", "/v1/nodes", "tt_admin") == 200
            assert await status("GET", "/metrics", "tt_agent") == 403
            assert await status("POST", "/v1/route", "tt_read") == 403
            assert await status("POST", "/v1/route", "tt_route") == 409
            assert await status("POST", "/v1/outcomes", "tt_read") == 403
            assert await status("GET", "/livez", None) == 200
            assert await status("GET", "/readyz", None) == 200

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("DELETE", "/v1/nodes", 405), ("GET", "/v1/route", 405)],
)
def test_every_error_is_a_problem_document(collector, method, path, status):
    async def scenario():
        async with (
            TestServer(build(collector)) as server,
            aiohttp.request(method, server.make_url(path)) as response,
        ):
            assert response.status == status
            assert response.content_type == "application/problem+json"
            problem = await response.json()
            assert problem["status"] == status
            assert path in problem["detail"]
            assert response.headers["X-Request-Id"]

    asyncio.run(scenario())


def test_a_body_past_the_limit_is_refused(collector):
    async def scenario():
        async with serving(collector) as ask:
            response, _ = await ask(
                "POST", "/v1/route", data=io.BytesIO(b" " * 2_000_000)
            )
            assert response.status == 413

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 409),
        ({"Host": "localhost:7767"}, 409),
        ({"Host": "[::1]"}, 409),
        ({"Origin": "http://127.0.0.1:7767"}, 409),
        ({"Host": "evil.example"}, 403),  # a name rebound to this host
        ({"Host": "localhost.evil.example"}, 403),
        ({"Origin": "https://evil.example"}, 403),  # a form across sites
        ({"Origin": "null"}, 403),
    ],
)
def test_an_open_collector_answers_no_web_page(collector, headers, status):
    async def scenario():
        async with serving(collector) as ask:
            response, _ = await ask("POST", "/v1/route", data="{}", headers=headers)
            assert response.status == status

    asyncio.run(scenario())
