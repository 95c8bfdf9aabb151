"""The simulator's own arithmetic, and that a run can be repeated and resumed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench import balancer_sim
from bench.sim import run as running
from bench.sim import world as worlds
from bench.sim.fleet import Server
from bench.sim.ours import Ours
from bench.sim.peers import PEERS, Clairvoyant, LeastConn, made
from bench.sim.ratios import best, paired
from bench.sim.world import Cell, Machine, make


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worlds, "RUN_S", 1.0)
    monkeypatch.setattr(worlds, "WARM_S", 1.0)
    monkeypatch.setattr(running, "WARM_S", 1.0)


def machine(**more: Any) -> Machine:
    return replace(Machine(1, nominal=1.0, hidden=2.0, rtt_s=0.01, groups=()), **more)


def test_a_node_serves_in_order_and_the_second_waits() -> None:
    server = Server(machine())
    first = server.take(0.0, 100.0, horizon=2.0)
    second = server.take(0.0, 100.0, horizon=2.0)
    assert [first.at, first.service_ms] == pytest.approx([0.06, 50])
    assert [second.began, second.at] == pytest.approx([0.055, 0.11])


def test_whose_client_is_gone_is_dropped_and_takes_no_slot() -> None:
    server = Server(machine())
    server.take(0.0, 4000.0, horizon=3.0)  # until 2.005
    assert not server.take(0.0, 100.0, horizon=2.0).ok
    assert server.take(2.0, 100.0, horizon=4.0).began == pytest.approx(2.005)


def test_a_black_hole_answers_nothing() -> None:
    dark = machine(starts=[0.0, 1.0], factors=[1.0, 0.0])
    assert Server(dark).take(0.0, 100.0, horizon=2.0).ok
    assert not Server(dark).take(0.99, 100.0, horizon=2.99).ok  # under way
    assert not Server(dark).take(1.5, 100.0, horizon=3.5).ok


def test_what_a_clairvoyant_expects_is_what_comes() -> None:
    server = Server(machine(slots=2))
    for _ in range(5):
        expected = server.expected(0.1, 30.0)
        assert server.take(0.1, 30.0, horizon=9.0).at == pytest.approx(expected)


def test_every_policy_meets_the_same_world() -> None:
    cell = Cell(nodes=8)
    one, other = make(cell, 7), make(cell, 7)
    assert one.arrivals == other.arrivals
    assert one.machines == other.machines
    assert make(cell, 8).arrivals != one.arrivals


@pytest.mark.parametrize("name", PEERS)
def test_a_run_can_be_repeated(name: str) -> None:
    world = make(Cell(nodes=8, balancers=2), 3)
    results = [running.run(world, made(PEERS[name], 3)) for _ in range(2)]
    assert results[0].mean_ms == results[1].mean_ms
    assert results[0].requests == results[1].requests > 100


@pytest.mark.parametrize("options", [(), ("no labels",), ("no bus",)])
def test_the_router_beats_least_connections_and_not_the_clairvoyant(
    options: tuple[str, ...],
) -> None:
    world = make(Cell(nodes=12, balancers=4, options=options), 5)
    means = [
        running.run(world, made(kind, 5)).mean_ms
        for kind in (Clairvoyant, Ours, LeastConn)
    ]
    assert means[0] < means[1] < means[2]


def test_what_was_run_is_not_run_again(tmp_path: Path) -> None:
    kept = tmp_path / "runs.jsonl"
    args = ["--results", str(kept), "--cells", "S3 n=8", "--seeds", "1"]
    balancer_sim.main([*args, "--only", "random"])
    first = kept.read_text()
    balancer_sim.main([*args, "--only", "random", "C3"])
    assert kept.read_text().startswith(first)
    assert len(kept.read_text().splitlines()) == 2
    assert (
        len({seed for runs in balancer_sim.read(kept).values() for seed in runs}) == 1
    )


def test_ratios_are_paired_by_seed() -> None:
    found = paired([1.0, 2.0, 4.0], [2.0, 4.0, 8.0])
    assert found is not None
    assert list(found) == pytest.approx([0.5, 0.5, 0.5])
    assert paired([0.0, 1.0], [1.0, 1.0]) == (0.5, None, None)
    assert paired([1.0], [0.0]) is None
    assert best({"a": [1.0, 5.0], "b": [2.0, 2.0]}) == "b"
