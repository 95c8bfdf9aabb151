"""Drain, put back, delete, holds, filters and events, on a collector of their own."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trimtab.client import ApiError, Client, NoCollector, NotFound, WrongServer
from trimtab.client import follow as following
from trimtab.console.child import Child

from .conftest import (
    Collector,
    Stray,
    free_ports,
    start_agent,
    start_collector,
    until,
)

LAST = "after the restart"
AGAIN = ("healthy", "strained", "saturated", "unknown", "joining", "stale")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    folder = tmp_path_factory.mktemp("own")
    collector, child = start_collector(folder)
    agent = start_agent(folder, collector, "host-two")
    try:
        with Client(collector.url) as client:
            until(lambda: len(client.nodes()) == 1, "a node")
        yield collector
    finally:
        for each in (agent, child):
            each.stop(time.monotonic() + 5)


@pytest.fixture
def client(own: Collector) -> Iterator[Client]:
    with Client(own.url) as client:
        yield client


def test_a_node_is_drained_and_put_back(client: Client) -> None:
    node = client.drain("host-two", deadline_s=600, reason="new disk")
    assert node.admin == "draining"
    assert node.drain is not None
    assert node.drain.reason == "new disk"
    assert node.drain.until == pytest.approx(time.time() + 600, abs=30)
    until(lambda: client.node("host-two").admin == "drained", "its work is done")
    (listed,) = client.nodes(admin=["drained"])
    assert listed.drain == client.node("host-two").drain
    assert client.undrain("host-two").drain is None
    assert client.nodes(admin=["drained", "draining"]) == ()


def test_what_it_holds_can_be_told(client: Client) -> None:
    assert client.hold("host-two", ["model-a", "model-b"]).holds == (
        "model-a",
        "model-b",
    )
    assert client.hold("host-two", []).holds == ()


def test_a_forecast_without_a_model_has_no_values(client: Client) -> None:
    forecast = client.forecast("host-two")
    assert forecast.method is None
    assert set(forecast.series["score"].expected) == {None}
    assert len(forecast.series["cpu"].low) == len(forecast.time)


def test_a_deleted_node_is_listed_on_demand_and_put_back(client: Client) -> None:
    ident = client.node("host-two").id
    assert client.delete("host-two", reason="sold & gone").admin == "tombstoned"
    assert client.nodes() == ()
    (deleted,) = client.nodes(admin=["tombstoned"])
    assert deleted.drain is not None
    assert deleted.drain.reason == "sold & gone"
    assert client.undrain(ident).admin == "active"
    assert [node.name for node in client.nodes()] == ["host-two"]


def test_filters_and_limits_reach_the_collector(client: Client) -> None:
    assert len(client.nodes(state=AGAIN, sort="-score", limit=1)) == 1
    assert client.nodes(site=["nowhere"]) == ()
    assert client.nodes(label=["a=b", "c"]) == ()
    with pytest.raises(ApiError, match="state: expected some of"):
        client.nodes(state=["fine"])


def test_a_node_that_is_not_there_is_not_found(client: Client) -> None:
    for change in (client.drain, client.undrain, client.delete):
        with pytest.raises(NotFound):
            change("nobody")


def test_events_come_page_by_page(client: Client) -> None:
    before = client.events(limit=1).next
    client.hold("host-two", ["x"])
    client.hold("host-two", [])
    page = client.events(before, limit=1)
    (first,) = page.events
    assert (first.kind, first.node, page.next) == ("holds", "host-two", first.id)
    assert first.id == before + 1
    assert client.events(page.next).events[0].kind == "holds"


def test_followed_events_go_on_after_the_collector_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "AGAIN_S", 0.1)
    http, frames = free_ports(2)
    config = tmp_path / "collector.toml"
    config.write_text(
        f'state_dir = "{tmp_path}"\nhttp_listen = "127.0.0.1:{http}"\n'
        f'frames_listen = "127.0.0.1:{frames}"\n'
    )
    command = ["trimtab.collector", "run", "--config", str(config)]
    collector = Collector(f"http://127.0.0.1:{http}", f"127.0.0.1:{frames}", config)

    def start() -> Child:
        child = Child("collector", command, {}, tmp_path / "collector.log")
        until(lambda: child.up, "the collector's start")
        return child

    child = start()
    agent = start_agent(tmp_path, collector, "host-three")
    ids: list[int] = []

    def watch() -> None:
        with Client(collector.url) as client:
            for event in client.follow(0):
                ids.append(event.id)
                if event.reason == LAST:
                    return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        until(lambda: bool(ids), "a first event")
        child.stop(time.monotonic() + 5)
        child = start()
        with Client(collector.url) as client:
            client.drain("host-three", reason=LAST)
        thread.join(20)
        assert not thread.is_alive()
        assert ids == list(range(ids[0], ids[0] + len(ids)))
    finally:
        for each in (agent, child):
            each.stop(time.monotonic() + 5)


def test_a_collector_that_stays_away_is_given_up() -> None:
    (port,) = free_ports(1)
    with Client(f"127.0.0.1:{port}") as client:
        events = client.follow(0, patience_s=0.0)
        with pytest.raises(NoCollector, match="no collector answers at"):
            next(events)


def test_what_is_no_stream_of_events_is_not_asked_for_again(
    stray: Callable[..., Stray],
) -> None:
    for body in ("data: 7\n\n", "data: {\n\n", 'data: {"id": 1}\n\n'):
        server = stray(200, "text/event-stream", body)
        with Client(server.url) as client, pytest.raises(WrongServer):
            next(client.follow(0))
        assert server.asked == ["GET /v1/events"]
