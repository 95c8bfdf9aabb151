"""A17: one id from two boots at once. Real connections, on loopback."""

import asyncio
from random import Random

import pytest

from trimtab.balancer import Router
from trimtab.collector import ingest as ingest_module
from trimtab.collector.clock import SystemClock
from trimtab.collector.core import Collector
from trimtab.collector.ingest import Ingest
from trimtab.collector.session import Session
from trimtab.collector.states import State
from trimtab.collector.store import Store
from trimtab.wire import (
    Bye,
    Cpu,
    Echo,
    Frame,
    Hello,
    Refused,
    Stream,
    Welcome,
    encode,
)

ID, KEY = b"i" * 16, b"k" * 32


def hello(boot, **fields):
    return Hello(ID, boot, "db", key=KEY, boot_ms=5_000_000, **fields)


def frame(seq, stall=0.0):
    return Frame(seq, 5_000_000 + seq, cpu=Cpu(stall=stall))


class Host:
    """One connection, answering echoes or not."""

    def __init__(self, port, boot, *, alive=True):
        self.port, self.boot, self.alive = port, boot, alive
        self.heard = []

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.say(hello(self.boot))
        self._listening = asyncio.create_task(self._listen())
        await until(lambda: any(isinstance(m, Welcome) for m in self.heard))
        return self

    async def __aexit__(self, *_):
        self._listening.cancel()
        self.writer.close()

    def say(self, *messages):
        self.writer.write(b"".join(encode(m) for m in messages))

    async def _listen(self):
        stream = Stream()
        while data := await self.reader.read(4096):
            for message in stream.feed(data):
                self.heard.append(message)
                if isinstance(message, Echo) and self.alive:
                    self.say(message._replace(reply=True))

    @property
    def name(self):
        return next(m.name for m in self.heard if isinstance(m, Welcome))


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
def scenario(settings, free_port, monkeypatch):
    """Run a coroutine function with a serving collector and its port."""
    monkeypatch.setattr(ingest_module, "DOUBT_S", 0.5)
    store = Store(settings.database)

    def run(script):
        async def serve():
            clock, port = SystemClock(), free_port()
            collector = Collector(settings, store, clock, Router(Random(1)))
            ingest = Ingest(collector.intake, 100)
            loop = asyncio.get_running_loop()
            server = await loop.create_server(ingest.connection, "127.0.0.1", port)

            async def turn():
                while True:
                    collector.tick()
                    ingest.sweep(clock.monotonic())
                    ingest.acknowledge(await collector.commit())
                    await asyncio.sleep(0.02)

            turning = asyncio.create_task(turn())
            try:
                wants = script.__code__.co_argcount
                await script(*(collector, port, ingest)[:wants])
                assert not turning.done()
            finally:
                turning.cancel()
                await asyncio.gather(turning, return_exceptions=True)
                server.close()
                for connection in list(ingest.connections):
                    connection.abort()
                collector.committer.close()

        asyncio.run(serve())

    yield run
    store.close()


def nodes(collector):
    return {collector.fleet.nodes[row].name: row for row in collector.fleet.rows()}


def test_a_clone_is_shown_beside_the_original_and_neither_counts_for_the_other(
    scenario, capsys
):
    async def script(collector, port):
        async with Host(port, b"1" * 16) as first, Host(port, b"2" * 16) as second:
            assert (first.name, second.name) == ("db", "db~2")
            for seq in range(1, 4):
                first.say(frame(seq))
                second.say(frame(seq, stall=1.0))
            await until(lambda: len(nodes(collector)) == 2)
            rows = nodes(collector)
            fleet = collector.fleet
            await until(lambda: fleet.frames[rows["db"]] == 3)
            await until(lambda: fleet.frames[rows["db~2"]] == 3)
            assert fleet.score[rows["db"]] == 1.0
            assert fleet.score[rows["db~2"]] < 0.5
            assert fleet.nodes[rows["db~2"]].clone_of == "db"
            ids = {fleet.nodes[row].hex_id for row in rows.values()}
            assert len(ids) == 2
            await until(lambda: "clone_seen" in capsys.readouterr().out)
            assert set(nodes(collector)) == {"db", "db~2"}

    scenario(script)


def test_a_host_back_from_a_boot_takes_its_own_place(scenario, capsys):
    """Its old connection hangs: nobody answers there any more."""

    async def script(collector, port):
        async with Host(port, b"1" * 16, alive=False) as dead:
            dead.say(frame(1))
            await until(lambda: nodes(collector))
            async with Host(port, b"2" * 16) as back:
                assert back.name == "db~2"  # until it is known to be the same
                await until(lambda: any(isinstance(m, Bye) for m in back.heard))
            async with Host(port, b"2" * 16) as again:
                assert again.name == "db"
                again.say(frame(5))
                row = nodes(collector)["db"]
                await until(lambda: collector.fleet.seq[row] == 5)
                assert set(nodes(collector)) == {"db"}
        assert "clone_seen" not in capsys.readouterr().out

    scenario(script)


def test_a_plain_reboot_is_no_clone(scenario):
    async def script(collector, port):
        async with Host(port, b"1" * 16) as first:
            first.say(frame(1))
            await until(lambda: nodes(collector))
        await until(lambda: not collector.intake.speaking)
        async with Host(port, b"2" * 16) as rebooted:
            assert rebooted.name == "db"
            assert len(nodes(collector)) == 1

    scenario(script)


def test_clones_and_ephemeral_nodes_are_forgotten_when_long_lost(make_collector, clock):
    from trimtab.wire import Inventory

    collector = make_collector()
    session = Session(collector.intake)
    short = Hello(b"e" * 16, b"b" * 16, "short", inventory=Inventory(ephemeral=True))
    session.feed(encode(short) + encode(Frame(1, 0)))
    kept = Session(collector.intake)
    kept.feed(encode(Hello(b"k" * 16, b"b" * 16, "kept")) + encode(Frame(1, 0)))
    asyncio.run(collector.commit())
    for _ in range(340):
        clock.now += 1
        collector.tick()
    assert collector.fleet.state[:2].tolist() == [State.LOST, State.LOST]
    assert [collector.fleet.nodes[row].name for row in collector.expired()] == ["short"]
    for row in collector.expired():
        collector.fleet.retire(row)
    asyncio.run(collector.commit())
    assert set(nodes(collector)) == {"kept"}
    assert [r.name for r in collector.store.registry()] == ["kept"]
    # Its row and its name are free again, and nothing of it is left in them.
    asyncio.run(collector.commit())
    again = Session(collector.intake)
    again.feed(encode(short._replace(node_id=b"f" * 16)))
    assert again.row == 0
    assert collector.fleet.state[0] == State.JOINING
    assert collector.fleet.seq[0] == -1
    assert len(collector.fleet) == 2


def test_rows_are_reused_while_another_node_speaks_each_second(make_collector, clock):
    collector = make_collector()
    live = Session(collector.intake)
    live.feed(encode(Hello(b"l" * 16, b"b" * 16, "live")))
    for n in range(1, 50):
        session = Session(collector.intake)
        ident = n.to_bytes(16, "big")
        session.feed(encode(Hello(ident, b"b" * 16, "short")) + encode(Frame(1, 0)))
        live.feed(encode(Frame(n, n)))
        asyncio.run(collector.commit())
        collector.fleet.retire(session.row)
        live.feed(encode(Frame(1000 + n, n)))
        asyncio.run(collector.commit())
    assert len(collector.fleet) == 1
    assert len(collector.fleet.nodes) <= 3
    assert [r.name for r in collector.store.registry()] == ["live"]


def test_one_key_does_not_fill_the_fleet(scenario):
    async def script(collector, port):
        async with Host(port, b"0" * 16):
            writers = []
            for n in range(1, 8):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writers.append(writer)
                writer.write(encode(hello(bytes([n]) * 16)))
                first = next(iter(Stream().feed(await reader.read(4096))))
                if isinstance(first, Refused):
                    assert "clones already" in first.text
                    break
            assert n == 5
            assert len(collector.fleet) == 5
            for writer in writers:
                writer.close()
                await writer.wait_closed()

    scenario(script)


def test_a_hello_and_a_bye_without_a_frame_end_in_order(scenario):
    async def script(collector, port):
        async with Host(port, b"1" * 16) as host:
            host.say(Bye())
            await until(lambda: host.reader.at_eof())

    scenario(script)


def test_a_clone_in_doubt_that_is_forgotten_is_forgotten_once(scenario):
    async def script(collector, port, ingest):
        async with Host(port, b"1" * 16, alive=False) as first:
            first.say(frame(1))
            await until(lambda: nodes(collector))
            async with Host(port, b"2" * 16):
                await until(lambda: len(nodes(collector)) == 2)
                row = nodes(collector)["db~2"]
                ingest.forget(row)
                await asyncio.sleep(0.7)  # past the doubt
                assert set(nodes(collector)) == {"db"}

    scenario(script)
