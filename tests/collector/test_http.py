"""The API over a real socket; every answer is checked against /openapi.json."""

import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import jsonschema
import pytest
from aiohttp.test_utils import TestServer
from openapi_spec_validator import validate

from trimtab.collector.credentials import new_credential
from trimtab.collector.http.app import build
from trimtab.collector.http.openapi import DOCUMENT
from trimtab.collector.session import Session
from trimtab.wire import Ack, Cpu, Stream, Welcome, encode

MSGPACK = {"Content-Type": "application/msgpack"}


def say(collector, *messages):
    Session(collector.intake).feed(b"".join(encode(m) for m in messages))


@asynccontextmanager
async def serving(collector) -> AsyncIterator[Callable[..., Any]]:
    """Yield a function that asks and checks the answer against the document."""
    async with (
        TestServer(build(collector)) as server,
        aiohttp.ClientSession(base_url=server.make_url("/")) as session,
    ):

        async def ask(method, path, route=None, **options):
            async with session.request(method, path, **options) as response:
                body = await response.read()
                check(method, route or path.split("?")[0], response, body)
                return response, parsed(response, body)

        yield ask


def parsed(response, body):
    return json.loads(body) if "json" in response.content_type else body


def check(method, route, response, body):
    operation = DOCUMENT["paths"][route][method.lower()]
    content = operation["responses"][str(response.status)]["content"]
    schema = content[response.content_type].get("schema")
    if schema is not None:
        jsonschema.validate(
            json.loads(body), schema | {"components": DOCUMENT["components"]}
        )


@pytest.fixture
def run():
    import asyncio

    return asyncio.run


def test_the_document_is_valid_openapi():
    validate(DOCUMENT)


def test_nodes_and_a_node(collector, hello, frame, clock, run):
    say(collector, hello(2), frame(1, cpu=Cpu(stall=0.525)))
    say(collector, hello(1))
    collector.tick()
    clock.now += 0.4

    async def scenario():
        async with serving(collector) as ask:
            _, listed = await ask("GET", "/v1/nodes")
            assert [n["node"] for n in listed["nodes"]] == ["node1", "node2"]
            silent, strained = listed["nodes"]
            assert silent["score"] is None
            assert silent["limiting"] is None
            assert silent["age_ms"] is None
            assert set(silent["headroom"].values()) == {None}
            assert strained["score"] == 0.5
            assert strained["limiting"] == "cpu"
            assert strained["headroom"]["gpu"] is None
            assert strained["age_ms"] == 400
            route = "/v1/nodes/{node}"
            _, by_name = await ask("GET", "/v1/nodes/node2", route)
            _, by_id = await ask("GET", f"/v1/nodes/{strained['id']}", route)
            assert by_name == by_id
            assert by_name["links"][0]["to"] == "collector"
            response, problem = await ask("GET", "/v1/nodes/nobody", route)
            assert response.status == 404
            assert "nobody" in problem["detail"]
            response, problem = await ask("GET", "/v1/nodes?sate=lost")
            assert response.status == 400
            assert "sate" in problem["detail"]

    run(scenario())


def test_history_merges_minutes_into_steps(collector, hello, frame, clock, run):
    clock.now += 600
    frames = [frame(seq) for seq in range(1, 600, 10)]
    say(collector, hello(1, boot_ms=5_600_000), *frames)
    run(collector.commit())

    async def scenario():
        route = "/v1/nodes/{node}/history"
        async with serving(collector) as ask:
            path = "/v1/nodes/node1/history"
            _, minutes = await ask("GET", path, route)
            assert sum(minutes["samples"]) == 60
            assert len(minutes["time"]) == len(minutes["samples"]) in (10, 11)
            assert set(minutes["series"]["score"]["mean"]) == {1.0}
            assert set(minutes["series"]["gpu"]["mean"]) == {None}
            _, fives = await ask("GET", f"{path}?step=300", route)
            assert sum(fives["samples"]) == 60
            assert all(time % 300 == 0 for time in fives["time"])
            _, none = await ask("GET", f"{path}?since=0&until=60", route)
            assert none["samples"] == []
            for query in (
                "step=30",
                "step=x",
                "since=5&until=5",
                "since=0&until=9000000",
                "since=-1",
                "until=nan",
                "foo=1",
            ):
                response, _ = await ask("GET", f"{path}?{query}", route)
                assert response.status == 400, query

    run(scenario())


def test_a_task_is_routed_explained_and_closed(collector, hello, frame, run):
    say(collector, hello(1), frame(1))
    collector.tick()

    async def scenario():
        async with serving(collector) as ask:
            response, made = await ask("POST", "/v1/route", data="{}")
            assert response.status == 200
            assert made["node"] == "node1"
            assert made["why"]["candidates"][0]["node"] == "node1"
            route = "/v1/decisions/{decision}"
            _, again = await ask("GET", f"/v1/decisions/{made['decision']}", route)
            assert again == made
            response, _ = await ask("GET", "/v1/decisions/nope", route)
            assert response.status == 404
            outcome = {"decision": made["decision"], "outcome": "ok", "latency_ms": 12}
            _, closed = await ask("POST", "/v1/outcomes", json=outcome)
            assert closed == {"closed": 1, "unknown": []}
            _, closed = await ask("POST", "/v1/outcomes", json=[outcome])
            assert closed == {"closed": 0, "unknown": []}
            stray = {"decision": "stray", "outcome": "error"}
            _, closed = await ask("POST", "/v1/outcomes", json=[stray])
            assert closed == {"closed": 0, "unknown": ["stray"]}

    run(scenario())


def test_no_fit_says_how_many_nodes_failed_which_need(collector, hello, frame, run):
    say(collector, hello(1), frame(1))
    collector.tick()

    async def scenario():
        async with serving(collector) as ask:
            task = {"labels": {"gpu": "a100"}}
            response, problem = await ask("POST", "/v1/route", json=task)
            assert response.status == 409
            assert problem["type"] == "urn:trimtab:no-fit"
            (entry,) = problem["why"]["filtered"]
            assert entry["nodes"] == 1
            assert "1 of 1" in problem["detail"]

    run(scenario())


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "7",
        "nonsense",
        '{"cpu": -1}',
        '{"cpus": 1}',
        '{"memory_mib": NaN}',
        '{"memory_mib": 1e999}',
        '{"class": "fast"}',
        "[" * 100_000,
        '{"latency_budget_ms": "5"}',
        "\ud800".encode("utf-8", "surrogatepass"),
    ],
)
def test_a_bad_task_is_refused_with_what_was_expected(collector, body, run):
    async def scenario():
        async with serving(collector) as ask:
            response, problem = await ask("POST", "/v1/route", data=body)
            # An empty body asks for nothing in particular: that is a task.
            assert response.status == (409 if body == "" else 400)
            assert len(problem["detail"]) > 10

    run(scenario())


@pytest.mark.parametrize(
    "body",
    [
        "7",
        "[7]",
        "[[]]",
        "{",
        "{}",
        '{"decision": 1, "outcome": "ok"}',
        '{"decision": "a", "outcome": "fine"}',
        '{"decision": "a", "outcome": "ok", "latency_ms": -1}',
        '{"decision": "a", "outcome": "ok", "latency": 1}',
    ],
)
def test_a_bad_outcome_is_refused(collector, body, run):
    async def scenario():
        async with serving(collector) as ask:
            response, _ = await ask("POST", "/v1/outcomes", data=body)
            assert response.status == 400

    run(scenario())


def test_frames_by_post_are_taken_and_answered_with_messages(
    collector, hello, frame, run
):
    async def scenario():
        async with serving(collector) as ask:

            async def post(*messages):
                body = b"".join(encode(m) for m in messages)
                return await ask("POST", "/v1/frames", data=body, headers=MSGPACK)

            response, answer = await post(hello(1), frame(1), frame(2))
            assert response.status == 200
            (welcome,) = Stream().feed(answer)
            assert isinstance(welcome, Welcome)
            await collector.commit()
            _, answer = await post(hello(1), frame(3))
            welcome, ack = Stream().feed(answer)
            assert isinstance(welcome, Welcome)
            assert welcome.stored_seq == 2
            assert ack == Ack(2)  # of what is committed so far

    run(scenario())


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 400, "empty"),
        (b"\x05", 400, "array"),
        (b"\x93\x04\x01\x02", 400, "hello first"),
        (b"\x9d\x01", 400, "within a message"),
        (b"\xc1", 400, "MessagePack"),
        (b"\xdd\xff\xff\xff\xff", 413, "max_array_len"),
        (b"\x92\x01\x63", 400, "protocol"),
    ],
)
def test_frames_by_post_that_are_wrong_are_refused(collector, body, status, says, run):
    async def scenario():
        async with serving(collector) as ask:
            response, problem = await ask(
                "POST", "/v1/frames", data=body, headers=MSGPACK
            )
            assert response.status == status
            assert says in problem["detail"]
            response, _ = await ask("POST", "/v1/frames", data=body)
            assert response.status == 415

    run(scenario())


def test_probes_and_metrics(collector, hello, frame, clock, run):
    say(collector, hello(1), frame(1))
    collector.tick()

    async def scenario():
        async with serving(collector) as ask:
            await ask("GET", "/livez")
            _, ready = await ask("GET", "/readyz")
            assert ready == {"ready": True, "nodes": 1, "store": "ok"}
            _, text = await ask("GET", "/metrics")
            assert b'trimtab_node_score{node="node1"} 1.0\n' in text
            assert b'trimtab_nodes{state="joining"} 1.0\n' in text
            assert b'dimension="gpu"' not in text  # no reading is no series
            clock.now += 10
            response, _ = await ask("GET", "/readyz")
            assert response.status == 503

    run(scenario())


def test_with_tokens_each_route_asks_for_its_scope(collector, clock, run):
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

    run(scenario())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("DELETE", "/v1/nodes", 405), ("GET", "/v1/route", 405)],
)
def test_every_error_is_a_problem_document(collector, method, path, status, run):
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

    run(scenario())


def test_a_body_past_the_limit_is_refused(collector, run):
    async def scenario():
        async with serving(collector) as ask:
            response, _ = await ask(
                "POST", "/v1/route", data=io.BytesIO(b" " * 2_000_000)
            )
            assert response.status == 413

    run(scenario())


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
def test_an_open_collector_answers_no_web_page(collector, headers, status, run):
    async def scenario():
        async with serving(collector) as ask:
            response, _ = await ask("POST", "/v1/route", data="{}", headers=headers)
            assert response.status == status

    run(scenario())
