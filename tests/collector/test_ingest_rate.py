"""A sender past its rate is read no faster; nothing that it sent is thrown away."""

import asyncio

import pytest

from trimtab.collector.ingest import BURST_BYTES, BYTES_PER_S, Ingest
from trimtab.wire import encode


class Pipe(asyncio.Transport):
    """A transport that remembers whether it is read."""

    def __init__(self):
        super().__init__()
        self.reading = True

    def get_extra_info(self, name, default=None):
        return ("192.0.2.1", 5) if name == "peername" else default

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def is_closing(self):
        return False

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def write(self, data):
        pass


@pytest.fixture
def connection(collector, hello):
    ingest = Ingest(collector.intake, 10)
    made = ingest.connection()
    made.connection_made(Pipe())
    give(made, encode(hello(1)))
    return made


def give(connection, data):
    buffer = connection.get_buffer(-1)
    buffer[: len(data)] = data
    connection.buffer_updated(len(data))


def test_past_a_burst_nothing_is_read_until_it_may_again(
    connection, collector, frame, clock
):
    async def scenario():
        pipe, seq, sent = connection._transport, 0, 0
        while pipe.reading:
            batch = [encode(frame(seq + i)) for i in range(1, 51)]
            seq += 50
            data = b"".join(batch)
            sent += len(data)
            give(connection, data)
        assert BURST_BYTES - 10_000 < sent < BURST_BYTES + 10_000
        connection.check(clock.now)
        assert not pipe.reading
        clock.now += 10_000 / BYTES_PER_S
        connection.check(clock.now)
        assert pipe.reading
        collector.tick()
        assert collector.fleet.seq[0] == seq  # all that was sent is there

    asyncio.run(scenario())


def test_an_agents_usual_cadence_is_never_held(connection, frame, clock):
    async def scenario():
        for seq in range(1, 5_000):
            clock.now += 0.05
            give(connection, encode(frame(seq)) * 2)
            assert connection._transport.reading

    asyncio.run(scenario())
