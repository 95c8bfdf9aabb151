"""Frames by POST, from senders that can't hold a stream."""

import asyncio

import pytest

from trimtab.wire import Ack, Stream, Welcome, encode

from .asking import serving

MSGPACK = {"Content-Type": "application/msgpack"}


def test_frames_by_post_are_taken_and_answered_with_messages(collector, hello, frame):
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

    asyncio.run(scenario())


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
def test_frames_by_post_that_are_wrong_are_refused(collector, body, status, says):
    async def scenario():
        async with serving(collector) as ask:
            response, problem = await ask(
                "POST", "/v1/frames", data=body, headers=MSGPACK
            )
            assert response.status == status
            assert says in problem["detail"]
            response, _ = await ask("POST", "/v1/frames", data=body)
            assert response.status == 415

    asyncio.run(scenario())
