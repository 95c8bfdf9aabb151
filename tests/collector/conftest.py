"""A collector in this process, on a clock that the test turns."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from trimtab.balancer import Router
from trimtab.collector.core import Collector
from trimtab.collector.settings import Settings
from trimtab.collector.store import Store
from trimtab.wire import Cpu, Frame, Hello, Link, Memory, Method


class HandClock:
    """Both clocks, moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.unix_offset = 1_800_000_000.0 - 1000.0

    def monotonic(self) -> float:
        return self.now

    def unix(self) -> float:
        return self.now + self.unix_offset


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path / "state")


@pytest.fixture
def make_collector(
    settings: Settings, clock: HandClock
) -> Iterator[Callable[[], Collector]]:
    """Make a collector over the same files, as a restart would."""
    stores: list[Store] = []

    def make() -> Collector:
        stores.append(Store(settings.database))
        return Collector(settings, stores[-1], clock, Router(Random(1)))

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def collector(make_collector: Callable[[], Collector]) -> Collector:
    return make_collector()


@pytest.fixture
def hello() -> Callable[..., Hello]:
    """Return a hello of node number `n`, its boot clock at 5000 s."""

    def make(n: int = 1, **fields: object) -> Hello:
        known: dict[str, object] = {
            "node_id": n.to_bytes(16, "big"),
            "boot_id": b"b" * 16,
            "name": f"node{n}",
            "key": n.to_bytes(32, "big"),
            "boot_ms": 5_000_000,
        }
        return Hello(**(known | fields))  # type: ignore[arg-type]

    return make


@pytest.fixture
def frame() -> Callable[..., Frame]:
    """Return an idle node's frame; `seq` n is sampled n s after the hello."""

    def make(seq: int = 1, **fields: object) -> Frame:
        known: dict[str, object] = {
            "seq": seq,
            "boot_ms": 5_000_000 + seq * 1000,
            "cpu": Cpu(0.0, 0.0, 0.0, 0.01),
            "memory": Memory(0.0, 0.0, 0.9, 0.0, 0.0, 0.0),
            "links": (Link(0, Method.ECHO, 300, 200, 400, 10, None, 0),),
        }
        return Frame(**(known | fields))  # type: ignore[arg-type]

    return make
