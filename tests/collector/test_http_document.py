"""The document against the server: every route, asked rightly and wrongly."""

import asyncio
import threading
from collections.abc import Iterator

import msgpack
import pytest
import requests
import schemathesis
from aiohttp.test_utils import TestServer
from hypothesis import HealthCheck, given, settings
from openapi_spec_validator import validate
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from trimtab.collector.http.app import SCOPES, build
from trimtab.collector.http.openapi import DOCUMENT

from .asking import say

SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = {
    (method.upper(), path): SCHEMA[path][method]
    for path, methods in DOCUMENT["paths"].items()
    for method in methods
    if method != "parameters"
}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = 20


@schemathesis.serializer("application/msgpack")
def packed(context, value):
    return {"data": msgpack.packb(value)}


def test_the_document_is_valid_openapi():
    validate(DOCUMENT)


def test_every_route_is_described_with_the_scope_it_asks_for():
    described = {
        key: [entry["token"] for entry in op.definition.raw["security"] if entry]
        for key, op in OPERATIONS.items()
    }
    assert described == {
        key: [] if scope is None else [[scope]] for key, scope in SCOPES.items()
    }


@pytest.fixture
def url(collector, hello, frame) -> Iterator[str]:
    """Serve from a thread of its own, as the driver blocks."""
    say(collector, hello(1), frame(1))
    say(collector, hello(2))
    collector.tick()
    loop = asyncio.new_event_loop()
    server = TestServer(build(collector), loop=loop)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start_server(), loop).result(5)
        yield str(server.make_url("/"))
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(5)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def negatable(operation):
    """Whether anything about it is wrong by its schema; frames are just bytes."""
    parts = operation.query or operation.headers or operation.body
    return bool(parts) and operation.path != "/v1/frames"


ASKED = [
    pytest.param(key, mode, known, id=f"{'-'.join(key)}-{mode.value}-{known or 'any'}")
    for key, operation in OPERATIONS.items()
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    if mode is GenerationMode.POSITIVE or negatable(operation)
    for known in ((None, "node1") if "{node}" in key[1] else (None,))
]


@pytest.mark.parametrize(("key", "mode", "known"), ASKED)
def test_whatever_is_asked_is_answered_as_the_document_says(url, key, mode, known):
    statuses = set()
    with requests.Session() as session:

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(OPERATIONS[key].as_strategy(generation_mode=mode))
        def ask(case):
            if known is not None:
                case.path_parameters["node"] = known
            if key[1] == "/v1/events":
                # A stream has no end, and waiting is not what is tested here.
                case.query.pop("wait", None)
            answer = case.call_and_validate(
                base_url=url,
                session=session,
                headers={"Accept": "application/json"},
                checks=CHECKS,
                timeout=10,
            )
            statuses.add(answer.status_code)

        ask()
    if mode is GenerationMode.POSITIVE and known is not None:
        assert 200 in statuses
