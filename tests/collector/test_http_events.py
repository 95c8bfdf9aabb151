"""Events as a stream and page by page, with what was missed said."""

import asyncio
import json
from contextlib import asynccontextmanager
from typing import cast

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from trimtab.collector.events import Events, Kind
from trimtab.collector.http import events
from trimtab.collector.http.app import build

from .asking import serving

JSON = {"Accept": "application/json"}


@pytest.fixture
def spoken(collector):
    """A collector that kept events 3 to 5 of five."""
    collector.events = Events(collector.clock.unix, kept=3)
    for n in range(1, 6):
        collector.events.say(Kind.STATE, f"reason {n}", node="n", number=n)
    return collector


@asynccontextmanager
async def followed(collector, query="", **headers):
    async with (
        TestServer(build(collector)) as server,
        aiohttp.ClientSession(base_url=server.make_url("/")) as session,
        session.get(f"/v1/events{query}", headers=headers) as response,
    ):
        yield response, server


async def messages(response, count):
    """Return the next so many messages, each as its fields."""
    found: list[dict[str, str]] = []
    fields: dict[str, str] = {}
    while len(found) < count:
        line = (await asyncio.wait_for(response.content.readline(), 5)).decode()
        assert line, "the stream ended"
        if line != "\n":
            name, _, value = line.rstrip("\n").partition(": ")
            fields[name] = value
        elif fields:
            found.append(fields)
            fields = {}
    return found


def test_a_stream_begins_now_and_tells_what_happens(spoken):
    async def scenario():
        async with followed(spoken) as (response, _):
            assert response.content_type == "text/event-stream"
            assert response.headers["X-Request-Id"]
            (retry,) = await messages(response, 1)
            assert retry == {"retry": "2000"}
            spoken.events.say(Kind.ADMIN, "now", node="n", by="ann")
            (message,) = await messages(response, 1)
            assert (message["id"], message["event"]) == ("6", "admin")
            event = json.loads(message["data"])
            assert event == {
                "id": 6,
                "time": spoken.clock.unix(),
                "kind": "admin",
                "node": "n",
                "node_id": None,
                "reason": "now",
                "by": "ann",
                "details": {},
            }

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["header", "query", "both"])
def test_a_stream_resumes_after_the_last_one_seen(spoken, how):
    query = {"header": "", "query": "?after=4", "both": "?after=1"}[how]
    headers = {} if how == "query" else {"Last-Event-ID": "4"}

    async def scenario():
        async with followed(spoken, query, **headers) as (response, _):
            _, message = await messages(response, 2)
            assert message["id"] == "5"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("after", "said"),
    [(0, "2 events are no longer kept"), (99, "the numbers began anew")],
)
def test_a_gap_is_an_event_of_its_own(spoken, after, said):
    async def scenario():
        async with followed(spoken, f"?after={after}") as (response, _):
            _, gap, third, *_ = await messages(response, 5)
            assert (gap["id"], gap["event"]) == ("2", "gap")
            assert said in json.loads(gap["data"])["reason"]
            assert third["id"] == "3"
        async with serving(spoken) as ask:
            path = f"/v1/events?after={after}&limit=2"
            _, page = await ask("GET", path)
            assert [e["kind"] for e in page["events"]] == ["gap", "state"]
            assert page["next"] == 3

    asyncio.run(scenario())


def test_a_page_has_the_newest_and_says_how_to_go_on(spoken):
    async def scenario():
        async with serving(spoken) as ask:
            _, page = await ask("GET", "/v1/events?limit=2")
            assert [e["id"] for e in page["events"]] == [4, 5]
            _, page = await ask("GET", "/v1/events", headers=JSON)
            assert [e["id"] for e in page["events"]] == [3, 4, 5]
            assert page["events"][0]["details"] == {"number": 3}
            _, page = await ask("GET", f"/v1/events?after={page['next']}&wait=0")
            assert page == {"events": [], "next": 5}
            _, page = await ask("GET", "/v1/events?after=2&limit=2")
            assert [e["id"] for e in page["events"]] == [3, 4]
            assert page["next"] == 4

    asyncio.run(scenario())


def test_a_page_may_wait_for_its_first_event(spoken):
    async def scenario():
        async with serving(spoken) as ask:
            waiting = asyncio.ensure_future(ask("GET", "/v1/events?after=5&wait=20"))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            spoken.events.say(Kind.STATE, "at last", node="n")
            _, page = await asyncio.wait_for(waiting, 5)
            assert [e["reason"] for e in page["events"]] == ["at last"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("query", "headers", "said"),
    [
        ("?after=x", {}, "after: expected a whole number"),
        ("?after=-1", {}, "after: expected"),
        ("?wait=31", {}, "wait: expected seconds, at most 30"),
        ("?limit=0", {}, "limit: expected"),
        ("?since=1", {}, "this route takes: after, limit, wait"),
        ("", {"Last-Event-ID": "x"}, "Last-Event-ID: expected an event's number"),
        ("", {"Last-Event-ID": "9" * 30}, "Last-Event-ID: expected"),
    ],
)
def test_what_can_not_be_meant_is_refused(spoken, query, headers, said):
    async def scenario():
        async with serving(spoken) as ask:
            response, problem = await ask("GET", f"/v1/events{query}", headers=headers)
            assert response.status == 400
            assert said in problem["detail"]

    asyncio.run(scenario())


def test_a_quiet_stream_shows_that_it_lives(spoken, monkeypatch):
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.05)

    async def scenario():
        async with followed(spoken) as (response, _):
            _, first, second = await messages(response, 3)
            assert first == second == {"": "still here"}

    asyncio.run(scenario())


def test_streams_past_the_limit_are_told_to_come_again(spoken, monkeypatch):
    monkeypatch.setattr(events, "MOST_STREAMS", 1)
    monkeypatch.setattr(events, "_LOOK_S", 0.02)

    async def scenario():
        async with followed(spoken) as (response, server):
            await messages(response, 1)
            url = server.make_url("/v1/events")
            async with aiohttp.ClientSession() as other:
                async with other.get(url) as refused:
                    assert refused.status == 503
                    assert refused.headers["Retry-After"] == "5"
                async with other.get(url, headers=JSON) as page:
                    assert page.status == 200  # a page takes no place
                response.close()
                for _ in range(100):  # the place of one who goes is free soon
                    async with other.get(url) as again:
                        if again.status == 200:
                            return
                    await asyncio.sleep(0.02)
                raise AssertionError("the place stays taken")

    asyncio.run(scenario())


def test_a_reader_that_takes_nothing_is_cut_off(spoken, monkeypatch):
    monkeypatch.setattr(events, "SLOW_S", 0.1)
    app = build(spoken)

    async def scenario():
        async with TestServer(app) as server:
            reader, writer = await asyncio.open_connection(
                server.host, server.port, limit=1024
            )
            writer.write(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readuntil(b"retry: 2000")
            transport = cast(asyncio.Transport, writer.transport)
            transport.pause_reading()
            streams = app[events.STREAMS]
            assert streams.open == 1
            for _ in range(2000):
                spoken.events.say(Kind.STATE, "x" * 60_000, node="n")
                await asyncio.sleep(0.001)
                if not streams.open:
                    break
            assert streams.open == 0
            transport.abort()

    asyncio.run(scenario())


def test_shutdown_ends_streams_at_once(spoken):
    async def scenario():
        async with followed(spoken) as (response, server):
            await messages(response, 1)
            async with asyncio.timeout(2):
                await asyncio.gather(server.close(), response.content.read())

    asyncio.run(scenario())
