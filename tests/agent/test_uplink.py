"""The conversation with a collector, as one of the test's own hears it."""

import asyncio
import io
import json
import socket
import time
from contextlib import asynccontextmanager

import pytest

from trimtab.agent.agent import Agent
from trimtab.agent.connection import Connection, Lost
from trimtab.agent.emit import Log
from trimtab.agent.host import Host
from trimtab.agent.identity import load_or_make
from trimtab.agent.loop import Loop
from trimtab.agent.notify import Manager
from trimtab.agent.probes.targets import Target
from trimtab.agent.settings import Address, Collectors, Settings
from trimtab.agent.starting import Start
from trimtab.wire import Ack, Echo, Frame, Hello, Stream, Welcome, encode


class Peer:
    """A collector that says what it is told to say, and keeps what it heard."""

    def __init__(self, welcome=True, answers=True):
        self.welcome, self.answers = welcome, answers
        self.heard = []
        self.connections = 0

    async def listen(self, reader, writer):
        self.connections += 1
        stream = Stream()
        while data := await reader.read(4096):
            for message in stream.feed(data):
                self.heard.append(message)
                if isinstance(message, Hello) and self.welcome:
                    writer.write(encode(Welcome("under-test", 1)))
                if isinstance(message, Frame) and self.answers:
                    writer.write(encode(Ack(message.seq)))
                if isinstance(message, Echo) and self.answers:
                    writer.write(encode(message._replace(reply=True, unix_ms=1)))
        writer.close()

    def of(self, kind):
        return [message for message in self.heard if isinstance(message, kind)]


@asynccontextmanager
async def talking(tmp_path, peer, manager=None, mode=None, **settings):
    """Yield an agent that talks to the peer, and its log."""
    server = await asyncio.start_server(peer.listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    chosen = Settings(
        collector=Collectors((Address(("127.0.0.1", port)),)),
        name="under-test",
        state_dir=tmp_path / "agent",
        gpu=False,
        **settings,
    )
    log = io.StringIO()
    start = Start(
        chosen, load_or_make(chosen.state_dir), None, Host(), Log("json", stream=log),
        None,
    )  # fmt: skip
    agent = Agent(start, manager or Manager({}))
    agent._mode = agent._uplink._mode = agent._mode._replace(**(mode or {}))

    async def work():
        agent.begin()
        while not agent.ended:
            agent._loop.turn(0.0)
            await asyncio.sleep(0.002)

    task = asyncio.create_task(work())
    try:
        yield agent, log
    finally:
        agent.stop()
        await asyncio.wait_for(task, 5)
        agent._loop.close()
        server.close()


async def until(condition, timeout_s=10):
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)


def said(log, event):
    lines = map(json.loads, log.getvalue().splitlines())
    return [line for line in lines if line["event"] == event]


def test_a_quiet_collector_is_asked_for_an_echo(tmp_path):
    async def scenario():
        peer = Peer()
        async with talking(
            tmp_path, peer, interval_s=3600, mode={"silence_s": 0.3}
        ) as (_, log):
            await until(lambda: len(peer.of(Echo)) > 8)
            assert peer.connections == 1
            assert said(log, "disconnected") == []
        assert len(peer.of(Frame)) == 1  # of its hour

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("peer", "event", "says"),
    [
        (Peer(answers=False), "disconnected", "nothing heard for 0.3 s"),
        (Peer(welcome=False), "cannot_connect", "no welcome within 0.2 s"),
    ],
)
def test_a_silent_collector_is_given_up_and_dialled_again(tmp_path, peer, event, says):
    async def scenario():
        patience = {"silence_s": 0.3, "welcome_s": 0.2}
        async with talking(tmp_path, peer, interval_s=3600, mode=patience) as (_, log):
            await until(lambda: said(log, event))
            assert says in said(log, event)[0]["error"]
            await until(lambda: peer.connections > 1)

    asyncio.run(scenario())


def test_each_frame_goes_with_an_echo_and_the_answers_are_figures(tmp_path):
    async def scenario():
        peer = Peer()
        async with talking(tmp_path, peer, interval_s=0.05):
            await until(lambda: len(peer.of(Frame)) > 5)
        kinds = [type(m) for m in peer.heard if isinstance(m, Frame | Echo)]
        assert kinds.count(Frame) - kinds.count(Echo) <= 1  # made before the welcome
        link = peer.of(Frame)[5].links[0]
        assert 0 < link.rtt_min_us <= link.rtt_us <= 10_000_000
        assert link.rtt_min_us <= link.rtt_p95_us
        assert link.loss is None
        assert peer.of(Frame)[5].clock_offset_ms == 2**31 - 1  # from 1970

    asyncio.run(scenario())


def test_a_changed_inventory_is_told_in_another_hello(tmp_path, monkeypatch):
    from trimtab.agent.introduction import Measured

    async def scenario():
        peer = Peer()
        async with talking(
            tmp_path, peer, interval_s=0.05, mode={"inventory_s": 0.0}
        ) as (agent, _):
            await until(lambda: len(peer.of(Frame)) > 3)
            assert len(peer.of(Hello)) == 1  # nothing changed
            more = agent._measured._replace(cpus=agent._measured.cpus + 1)
            monkeypatch.setattr("trimtab.agent.agent.measure", lambda *_: more)
            await until(lambda: len(peer.of(Hello)) == 2)
        before, after = peer.of(Hello)
        assert after.inventory.cpus == before.inventory.cpus + 1
        assert isinstance(more, Measured)

    asyncio.run(scenario())


def test_the_watchdog_is_fed_only_while_samples_come(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        address = str(tmp_path / "notify")
        listening.bind(address)
        listening.setblocking(False)
        told = []

        def hear():
            try:
                while True:
                    told.append(listening.recv(200))
            except BlockingIOError:
                return told

        async def scenario():
            manager = Manager({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "300000"})
            async with talking(tmp_path, Peer(), manager=manager, interval_s=0.05) as (
                agent,
                _,
            ):
                await until(lambda: hear().count(b"WATCHDOG=1") > 2)
                assert told.count(b"READY=1") == 1
                agent._loop.cancel(agent._tick)  # no sample comes any more
                await asyncio.sleep(0.5)
                hear()
                told.clear()
                await asyncio.sleep(0.3)
                assert hear() == []

        asyncio.run(scenario())
        assert hear()[-1] == b"STOPPING=1"


def test_an_acknowledgement_alone_does_not_wake_and_is_read_with_the_next_answer():
    class Owner:
        """Keeps what came."""

        def __init__(self):
            self.messages, self.open = [], False

        def opened(self):
            self.open = True

        def heard(self, messages):
            self.messages.append(messages)

        def lost(self, lost):
            raise AssertionError(lost)

    loop, owner = Loop(), Owner()
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = Target(*server.getsockname())
        connection = Connection(loop, target, None, owner, dial_s=5)
        peer, _ = server.accept()
        with peer:
            while not owner.open:
                loop.turn()
            connection.hear_from(14)
            acknowledged = Ack(2**42)
            peer.sendall(encode(acknowledged))
            loop.turn(time.monotonic() + 0.1)
            assert owner.messages == []
            answer = Echo(reply=True, ident=1, stamp_us=2**40, unix_ms=2**40)
            peer.sendall(encode(answer))
            loop.turn(time.monotonic() + 5)
            assert owner.messages == [[acknowledged, answer]]
            connection.hear_from(1)
            peer.sendall(encode(acknowledged))
            loop.turn(time.monotonic() + 5)
            assert owner.messages[1:] == [[acknowledged]]
            connection.close()
    loop.close()


def test_a_peer_that_takes_nothing_is_given_up():
    class Owner:
        """Notes whether it can send."""

        open = False

        def opened(self):
            self.open = True

        def heard(self, messages):
            raise AssertionError(messages)

        def lost(self, lost):
            raise AssertionError(lost)

    loop, owner = Loop(), Owner()
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = Target(*server.getsockname())
        connection = Connection(loop, target, None, owner, dial_s=5)
        while not owner.open:
            loop.turn()
        while not connection.unsent:
            connection.send(bytes(16 * 1024))
        with pytest.raises(Lost, match="takes nothing"):
            connection.send(bytes(64 * 1024))
        connection.close()
    loop.close()
