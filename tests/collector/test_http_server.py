"""Manners below the routes: slow senders, full houses, methods and types."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from typing import cast

import pytest

from trimtab.collector.address import Address
from trimtab.collector.http import body, server

from .asking import serving

HEAD = b"POST /v1/route HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
def listening(collector, free_port):
    """Return what serves as the service does, and yields a function that dials."""

    @asynccontextmanager
    async def serve(most=100):
        http = server.HttpServer(collector, most)
        address = Address("127.0.0.1", free_port())
        await http.start(address, None)
        try:
            yield lambda: asyncio.open_connection(address.host, address.port)
        finally:
            await http.stop()

    return serve


async def ended(reader):
    """Read to the end, which is to come soon."""
    async with asyncio.timeout(5):
        return await reader.read()


@pytest.mark.parametrize("sent", [b"", HEAD, HEAD + b"Content-Le"])
def test_a_head_that_does_not_come_is_not_waited_for(listening, monkeypatch, sent):
    monkeypatch.setattr(server, "HEAD_S", 0.1)

    async def scenario():
        async with listening() as dial:
            reader, writer = await dial()
            writer.write(sent)
            assert await ended(reader) == b""
            writer.close()

    asyncio.run(scenario())


def test_nor_is_the_next_one_on_a_kept_connection(listening, monkeypatch):
    monkeypatch.setattr(server, "HEAD_S", 0.1)

    async def scenario():
        async with listening() as dial:
            reader, writer = await dial()
            writer.write(HEAD + b"\r\n" + HEAD)
            answers = await ended(reader)
            assert answers.count(b"HTTP/1.1 ") == 1
            writer.close()

    asyncio.run(scenario())


def test_a_body_that_does_not_come_is_not_waited_for(listening, monkeypatch):
    monkeypatch.setattr(body, "BODY_S", 0.1)
    monkeypatch.setattr(server, "LINGER_S", 0.1)

    async def scenario():
        async with listening() as dial:
            reader, writer = await dial()
            writer.write(HEAD + b"Content-Length: 100\r\n\r\n{")
            answer = await ended(reader)
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"did not come within 0.1 s" in answer
            writer.close()

    asyncio.run(scenario())


@pytest.mark.skipif(sys.platform != "linux", reason="TCP_USER_TIMEOUT is Linux's")
def test_an_answer_that_nobody_reads_is_not_kept_for_long(
    listening, collector, monkeypatch
):
    monkeypatch.setattr(server, "UNREAD_S", 0.3)
    ask = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"

    async def scenario():
        async with listening() as dial:
            _, writer = await dial()
            transport = cast(asyncio.Transport, writer.transport)
            transport.pause_reading()

            async def ask_on():
                while True:  # until the answers fill every buffer
                    writer.write(ask * 100)
                    await writer.drain()
                    await asyncio.sleep(0.01)

            with pytest.raises(ConnectionError):
                await asyncio.wait_for(ask_on(), 10)

    asyncio.run(scenario())


def test_past_the_limit_a_connection_is_told_and_closed(listening):
    async def scenario():
        async with listening(most=1) as dial:
            reader, writer = await dial()
            writer.write(HEAD + b"\r\n")
            await reader.readuntil(b"HTTP/1.1 409")
            other, other_writer = await dial()
            answer = await ended(other)
            assert answer.startswith(b"HTTP/1.1 503 ")
            head, _, problem = answer.partition(b"\r\n\r\n")
            assert b"Retry-After: 5" in head
            assert f"Content-Length: {len(problem)}".encode() in head
            assert "max_http_connections" in json.loads(problem)["detail"]
            for each in (writer, other_writer):
                each.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/v1/nodes", {"GET", "HEAD", "OPTIONS"}),
        ("/v1/nodes/x/drain", {"PUT", "DELETE", "OPTIONS"}),
        ("/v1/events", {"GET", "OPTIONS"}),
    ],
)
def test_options_says_what_a_path_takes(collector, path, allow):
    async def scenario():
        from aiohttp.test_utils import TestClient, TestServer

        from trimtab.collector.http.app import build

        async with TestClient(TestServer(build(collector))) as client:
            async with client.options(path) as response:
                assert response.status == 204
                assert set(response.headers["Allow"].split(",")) == allow
            async with client.request("PATCH", path) as response:
                assert response.status == 405
                assert set(response.headers["Allow"].split(",")) == allow - {"OPTIONS"}
            async with client.options("/nowhere") as response:
                assert response.status == 404
            async with client.head(path) as response:
                assert response.status == (200 if path == "/v1/nodes" else 405)
                assert await response.read() == b""

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 409),
        ("application/json; charset=utf-8", 409),
        ("application/vnd.x+json", 409),
        ("application/x-www-form-urlencoded", 409),  # what curl says by itself
        ("application/msgpack", 415),
        ("multipart/form-data", 415),
        ("nonsense", 409),  # read as if nothing was said
    ],
)
def test_a_body_of_another_type_is_refused_as_such(collector, kind, status):
    async def scenario():
        async with serving(collector) as ask:
            response, _ = await ask(
                "POST", "/v1/route", data=b"{}", headers={"Content-Type": kind}
            )
            assert response.status == status

    asyncio.run(scenario())
