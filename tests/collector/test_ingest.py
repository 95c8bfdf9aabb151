"""Connections: reads of any size, and what a sender hears of its frames."""

import asyncio
from random import Random

import pytest

from trimtab.balancer import Router
from trimtab.collector import ingest as ingest_module
from trimtab.collector.clock import SystemClock
from trimtab.collector.core import Collector
from trimtab.collector.ingest import TURN_BYTES, Ingest
from trimtab.collector.store import Store
from trimtab.wire import (
    Cpu,
    Echo,
    Frame,
    Hello,
    Message,
    Reason,
    Refused,
    Stream,
    encode,
)

HELLO = Hello(b"i" * 16, b"b" * 16, "n", key=b"k" * 32, boot_ms=5_000_000)


def frame(seq):
    return encode(Frame(seq, 5_000_000 + seq, cpu=Cpu(stall=0.5, busy=0.25)))


@pytest.fixture
def talk(settings, free_port):
    """Say bytes on a connection of their own, and return the answers to the end."""
    store = Store(settings.database)

    def run(*said, end=True, ticks=True):
        async def serve():
            clock, port = SystemClock(), free_port()
            collector = Collector(settings, store, clock, Router(Random(1)))
            ingest = Ingest(collector.intake, 100)
            loop = asyncio.get_running_loop()
            server = await loop.create_server(ingest.connection, "127.0.0.1", port)

            async def turn():
                while True:
                    if ticks:
                        collector.tick()
                    ingest.sweep(clock.monotonic())
                    await asyncio.sleep(0.02)

            turning = asyncio.create_task(turn())
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(encode(HELLO))
            stream = Stream()
            heard: list[Message] = []
            heard += stream.feed(await reader.read(4096))
            for data in said:
                writer.write(data)
                await writer.drain()
                await asyncio.sleep(0.02)
            if end:
                writer.write_eof()
            async with asyncio.timeout(10):
                while data := await reader.read(65536):
                    heard += stream.feed(data)
            writer.close()
            turning.cancel()
            await asyncio.gather(turning, return_exceptions=True)
            server.close()
            collector.committer.close()
            return collector, heard[1:]

        return asyncio.run(serve())

    yield run
    store.close()


def test_a_long_backlog_is_taken_in_turns_and_to_its_end(talk):
    backlog = b"".join(frame(seq) for seq in range(1, 2001))
    assert len(backlog) > 10 * TURN_BYTES
    echo = Echo(reply=False, ident=7, stamp_us=1)
    collector, heard = talk(backlog + encode(echo))
    assert [message.ident for message in heard] == [7]
    assert collector.intake.counts.frames == 2000
    assert collector.fleet.seq[0] == 2000
    assert collector.fleet.repeated == 0


def test_a_sender_that_closes_its_end_still_hears_what_was_wrong(talk):
    _, heard = talk(frame(1) + b"\x93\x04\x02\xa1x", ticks=False)
    (refused,) = heard
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.MALFORMED
    assert refused.text.startswith("frame.boot_ms: expected an integer")


def test_a_wrong_frame_is_refused_on_the_tick_while_the_sender_listens(talk):
    collector, heard = talk(frame(1), b"\x93\x04\x02\xa1x" + frame(3), end=False)
    assert [type(message) for message in heard] == [Refused]
    assert collector.fleet.seq[0] == 1


@pytest.mark.parametrize("size", [1, 10])
def test_a_frame_that_is_never_finished_has_a_deadline(talk, monkeypatch, size):
    monkeypatch.setattr(ingest_module, "MESSAGE_DEADLINE_S", 0.2)
    _, heard = talk(frame(1) + frame(2)[:size], end=False)
    (refused,) = heard
    assert refused.reason is Reason.LIMIT
    assert "the rest of a message" in refused.text


def test_a_message_that_never_ends_is_refused_however_fast_it_comes(talk):
    text = b"\xda\x07\xd0" + b"x" * 2000
    _, heard = talk(b"\x93\x04\x01\xdc\x01\x40" + text * 300, end=False)
    (refused,) = heard
    assert refused.reason is Reason.LIMIT
    assert "65536" in refused.text
