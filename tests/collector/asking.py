"""Ask a collector in this process over a real socket; check every answer."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import jsonschema
from aiohttp.test_utils import TestServer

from trimtab.collector.credentials import new_credential
from trimtab.collector.http.app import build
from trimtab.collector.http.openapi import DOCUMENT
from trimtab.collector.session import Session
from trimtab.wire import encode

NODE = "/v1/nodes/{node}"


def say(collector, *messages):
    """Let an agent say something."""
    Session(collector.intake).feed(b"".join(encode(m) for m in messages))


def guard(collector, clock, *scopes, label=""):
    """Make a token `tt_SCOPE` of each scope."""
    collector.credentials.replace(
        [
            new_credential(f"tt_{scope}", [scope], label, clock.unix(), None)
            for scope in scopes
        ]
    )


def bearer(scope):
    return {"Authorization": f"Bearer tt_{scope}"}


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
    answer = operation["responses"][str(response.status)]
    if "content" not in answer:
        assert body == b""
        return
    schema = answer["content"][response.content_type].get("schema")
    if schema is not None and "json" in response.content_type:
        jsonschema.validate(
            json.loads(body), schema | {"components": DOCUMENT["components"]}
        )
