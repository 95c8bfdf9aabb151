"""The agent against a real collector, in one process, on loopback.

The collector here is the shipped one on its own port, killed by dropping it
without a last commit, as SIGKILL would. Its event loop turns the agent's.
"""

import asyncio
import io
import json
from contextlib import asynccontextmanager
from itertools import count
from random import Random

import pytest

from trimtab.agent.agent import Agent
from trimtab.agent.clocks import monotonic_ms
from trimtab.agent.emit import Log
from trimtab.agent.host import Host
from trimtab.agent.identity import load_or_make
from trimtab.agent.notify import Manager
from trimtab.agent.settings import Address, Collectors, Settings
from trimtab.agent.starting import Start
from trimtab.balancer import Router
from trimtab.collector.clock import SystemClock
from trimtab.collector.core import Collector
from trimtab.collector.ingest import Ingest
from trimtab.collector.settings import Settings as CollectorSettings
from trimtab.collector.states import State
from trimtab.collector.store import Store
from trimtab.wire import (
    Ack,
    Bye,
    Farewell,
    Frame,
    Hello,
    Stream,
    Welcome,
    encode,
)

INTERVAL_S = 0.05
RATED = {State.HEALTHY, State.STRAINED, State.SATURATED}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Dial again soon: a fleet's back-off would outlast these tests."""
    monkeypatch.setattr("trimtab.agent.backoff.CAP_S", 0.5)


@asynccontextmanager
async def collecting(tmp_path, port, host="127.0.0.1", commits=10**9, **settings):
    """Yield a collector that listens, ticks and commits until it is dropped.

    After so many `commits` it stores nothing any more.
    """
    chosen = CollectorSettings(state_dir=tmp_path / "collector", **settings)
    store = Store(chosen.database)
    collector = Collector(chosen, store, SystemClock(), Router(Random(1)))
    ingest = Ingest(collector.intake, 100)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(ingest.connection, host, port)

    async def turn():
        for turns in count():
            collector.tick()
            if turns < commits:
                ingest.acknowledge(await collector.commit())
            await asyncio.sleep(0.05)

    turning = asyncio.create_task(turn())
    try:
        yield collector
    finally:
        turning.cancel()
        await asyncio.gather(turning, return_exceptions=True)
        server.close()
        for connection in list(ingest.connections):
            if connection._transport is not None:
                connection._transport.abort()
        collector.committer.close()
        store.close()


def make_agent(tmp_path, port, log=None, others=(), host="127.0.0.1", **settings):
    chosen = Settings(
        collector=Collectors(Address((host, p)) for p in (port, *others)),
        name="under-test",
        interval_s=INTERVAL_S,
        state_dir=tmp_path / "agent",
        **settings,
    )
    identity = load_or_make(chosen.state_dir)
    host = Host(chosen.procfs, chosen.sysfs)
    log = log or Log(stream=io.StringIO())
    return Agent(Start(chosen, identity, None, host, log, None), Manager({}))


async def work(agent):
    agent.begin()
    while not agent.ended:
        agent._loop.turn(0.0)
        await asyncio.sleep(0.002)
    agent._loop.close()


@asynccontextmanager
async def running(agent):
    task = asyncio.create_task(work(agent))
    yield task
    agent.stop()
    await asyncio.wait_for(task, 5)


async def until(condition, timeout_s=10):
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)


def stored(collector):
    node_id = collector.fleet.nodes[0].node_id
    return sum(m.sums.samples for m in collector.store.minutes(node_id, 0, 2**40))


def test_a_sample_becomes_a_score(tmp_path, free_port):
    async def scenario():
        port = free_port()
        async with (
            collecting(tmp_path, port) as collector,
            running(make_agent(tmp_path, port, site="here")),
        ):
            await until(lambda: len(collector.fleet) and collector.fleet.frames[0] > 5)
            assert collector.fleet.score[0] >= 0
            node = collector.fleet.nodes[0]
            assert node.name == "under-test"
            assert node.hello.inventory.site == "here"
            assert node.hello.inventory.cpus >= 1
            link = node.links[0]
            assert link.rtt_us is not None
            assert link.loss is None  # TCP hides it

    asyncio.run(scenario())


def test_every_sample_is_counted_once_over_outages_and_kills(tmp_path, free_port):
    """A09: the collector goes away twice, each time without a last commit."""

    async def scenario():
        port = free_port()
        agent = make_agent(tmp_path, port)
        first = agent._seq
        task = asyncio.create_task(work(agent))
        async with collecting(tmp_path, port) as collector:
            await until(lambda: len(collector.fleet) and stored(collector) > 10)
        await asyncio.sleep(2.0)  # 40 samples nobody takes
        async with collecting(tmp_path, port) as collector:
            assert collector.fleet.state[0] == State.UNKNOWN
            await until(lambda: collector.fleet.state[0] in RATED)
        await asyncio.sleep(1.0)
        async with collecting(tmp_path, port) as collector:
            await until(lambda: collector.fleet.heard[0])
            agent.stop()
            await asyncio.wait_for(task, 5)
            assert agent._seq - first > 70
            assert stored(collector) == agent._seq - first
            assert collector.fleet.nodes[0].gaps == 0

    asyncio.run(scenario())


def test_the_ring_bounds_memory_and_the_gap_is_told(tmp_path, free_port):
    """A07, A08: a collector that is long away costs samples, not memory."""

    async def scenario():
        port = free_port()
        agent = make_agent(tmp_path, port, ring_kib=16)
        limit = 16 * 1024
        async with running(agent):
            await until(lambda: agent._ring.dropped > 20, 30)
            assert agent._ring.bytes <= limit
            async with collecting(tmp_path, port) as collector:
                await until(lambda: len(collector.fleet) == 1, 30)
                await until(lambda: collector.fleet.nodes[0].gaps > 20)

    asyncio.run(scenario())


def test_a_refused_agent_says_so_once_and_goes_on_sampling(tmp_path, free_port):
    async def scenario():
        port = free_port()
        out = io.StringIO()
        async with collecting(tmp_path, port) as collector:
            collector.credentials._may_be_open = False
            agent = make_agent(tmp_path, port, Log("json", stream=out))
            async with running(agent):
                await until(lambda: collector.intake.counts.connections > 2, 30)
                await until(lambda: len(agent._ring) > 5)
        events = [json.loads(line) for line in out.getvalue().splitlines()]
        refused = [e for e in events if e["event"] == "cannot_connect"]
        assert len(refused) == 1
        assert "token create" in refused[0]["error"]

    asyncio.run(scenario())


def test_the_collector_sets_cadence_and_peers(tmp_path, free_port):
    async def scenario():
        port = free_port()
        async with (
            collecting(
                tmp_path, port, interval_s=0.1, peers=("127.0.0.1:9", "no good target")
            ) as collector,
            running(make_agent(tmp_path, port)),
        ):
            await until(lambda: len(collector.fleet) == 1)
            await until(lambda: collector.fleet.nodes[0].hello.interval_ms == 100)
            assert collector.fleet.stale_after_s[0] == pytest.approx(0.3)
            node = collector.fleet.nodes[0]
            await until(lambda: node.hello.inventory.targets == ("127.0.0.1:9",))
            await until(
                lambda: len(node.links) == 2 and node.links[1].rtt_us is not None
            )
            assert node.links[1].loss == 0.0

    asyncio.run(scenario())


def test_peers_are_not_pinged_where_the_operator_says_no(tmp_path, free_port):
    """A44: nothing but what this host's own settings name is contacted."""

    async def scenario():
        port = free_port()
        agent = make_agent(tmp_path, port, accept_peers=False)
        async with (
            collecting(tmp_path, port, peers=("127.0.0.1:9",)) as collector,
            running(agent),
        ):
            await until(lambda: len(collector.fleet) and collector.fleet.frames[0] > 3)
            assert agent._pings is None

    asyncio.run(scenario())


def test_a_host_without_psi_is_scored_on_what_it_has(tmp_path, free_port, fixtures):
    """A10: a container-like tree; what is missing is unsupported, not zero."""
    tree = fixtures / "no-psi"

    async def scenario():
        port = free_port()
        agent = make_agent(tmp_path, port, procfs=tree / "proc", sysfs=tree / "sys")
        async with collecting(tmp_path, port) as collector, running(agent):
            await until(lambda: len(collector.fleet) and collector.fleet.frames[0] > 3)
            holes = {h.signal: h.state.name for h in collector.fleet.nodes[0].holes}
            assert holes["cpu.stall"] == "UNSUPPORTED"
            assert holes["memory.stall_some"] == "UNSUPPORTED"
            readings = collector.fleet.readings[0]
            assert readings[0] != readings[0]  # NaN, no reading
            assert collector.fleet.score[0] > 0
            assert collector.fleet.confidence[0] < 1

    asyncio.run(scenario())


def test_a_second_collector_takes_over_when_the_first_is_gone(tmp_path, free_port):
    async def scenario():
        first, second = free_port(), free_port()
        agent = make_agent(tmp_path, first, others=(second,))
        async with collecting(tmp_path / "b", second) as backup, running(agent):
            async with collecting(tmp_path / "a", first) as main:
                await until(lambda: len(main.fleet) or len(backup.fleet))
                taken = main if len(main.fleet) else backup
                await until(lambda: taken.fleet.frames[0] > 3)
            await until(lambda: len(backup.fleet) and backup.fleet.frames[0] > 3)

    asyncio.run(scenario())


def test_a_host_that_slept_dials_anew(tmp_path, free_port, monkeypatch):
    """A38: boot clock minus monotonic is the time spent asleep."""
    slept_ms = 0
    monkeypatch.setattr(
        "trimtab.agent.clocks.monotonic_ms", lambda: monotonic_ms() - slept_ms
    )
    out = io.StringIO()

    async def scenario():
        nonlocal slept_ms
        port = free_port()
        agent = make_agent(tmp_path, port, Log("json", stream=out))
        async with collecting(tmp_path, port) as collector, running(agent):
            await until(lambda: len(collector.fleet) and collector.fleet.frames[0] > 3)
            connections = collector.intake.counts.connections
            slept_ms = 3_600_000
            await until(lambda: collector.intake.counts.connections > connections)

    asyncio.run(scenario())
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert any(e["event"] == "resumed" and e["slept_s"] == 3600 for e in events)


def test_an_ipv6_only_collector_is_reached(tmp_path, free_port):
    """A46."""

    async def scenario():
        port = free_port()
        agent = make_agent(tmp_path, port, host="::1")
        async with collecting(tmp_path, port, host="::1") as collector, running(agent):
            await until(lambda: len(collector.fleet) and collector.fleet.frames[0] > 3)

    asyncio.run(scenario())


def test_what_a_collector_took_and_never_stored_is_sent_again(tmp_path, free_port):
    """A09: killed with many samples in memory; none was acknowledged."""

    async def scenario():
        port = free_port()
        agent = make_agent(tmp_path, port)
        first = agent._seq
        task = asyncio.create_task(work(agent))
        async with collecting(tmp_path, port, commits=20) as collector:
            await until(lambda: collector.intake.counts.frames > 60)
            assert 0 < stored(collector) < collector.intake.counts.frames - 15
        async with collecting(tmp_path, port) as collector:
            await until(lambda: len(collector.fleet) and collector.fleet.heard[0])
            agent.stop()
            await asyncio.wait_for(task, 5)
            assert stored(collector) == agent._seq - first

    asyncio.run(scenario())


def test_an_orderly_stop_says_bye(tmp_path, free_port):
    heard = []

    async def listen(reader, writer):
        stream = Stream()
        writer.write(encode(Welcome("under-test", 1)))
        while data := await reader.read(4096):
            for message in stream.feed(data):
                heard.append(message)
                if isinstance(message, Frame):
                    writer.write(encode(Ack(message.seq)))
        writer.close()

    async def scenario():
        port = free_port()
        async with await asyncio.start_server(listen, "127.0.0.1", port):
            async with running(make_agent(tmp_path, port)):
                await until(lambda: any(isinstance(m, Frame) for m in heard))
            await until(lambda: isinstance(heard[-1], Bye))

    asyncio.run(scenario())
    assert isinstance(heard[0], Hello)
    assert heard[-1] == Bye(Farewell.STOP)
