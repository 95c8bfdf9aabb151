"""The worked decision in docs/routing.md is what the router does."""

import re
from pathlib import Path
from random import Random

import pytest

from trimtab.balancer import Decision, Node, Router, Settings, Snapshot, Task
from trimtab.balancer.cost import UNCLEAR
from trimtab.balancer.task import FIELDS, SERVICE_S

PAGE = Path(__file__).parents[2] / "docs" / "routing.md"
ROW = re.compile(r"^\| ([abc]) \| (.+) \|$", re.MULTILINE)
NOW = 60.0  # long enough for every node to have its full share


def table() -> dict[str, list[float]]:
    found = ROW.findall(PAGE.read_text())
    return {name: [float(cell) for cell in rest.split("|")] for name, rest in found}


def test_the_decision_worked_by_hand_is_what_the_router_makes() -> None:
    rows = table()
    assert list(rows) == ["a", "b", "c"]
    nodes = [
        Node(
            name, name, cpu=room, slots=int(slots), speed=speed, rtt_p95_ms=rtt
        )._replace(sampled_at=NOW - age)
        for name, (slots, speed, room, age, rtt, *_) in rows.items()
    ]
    router = Router(Random(1))
    router.update(Snapshot.of(nodes, at=0.0))
    router.update(Snapshot.of(nodes, at=NOW))
    router.route(Task(avoid=("a", "b")), now=NOW - 0.02)  # the lease on c
    answer = router.route(Task(), now=NOW)
    assert isinstance(answer, Decision)
    assert answer.node == min(rows, key=lambda name: rows[name][-1]) == "b"
    assert {each.node for each in answer.candidates} == set(rows)
    for each in answer.candidates:
        slots, speed, _, _, rtt, in_flight, used, u, cost = rows[each.node]
        assert each.in_flight == in_flight
        assert (each.slots, each.slowness) == (slots, 1 / speed)
        assert each.used == pytest.approx(used, abs=5e-4)
        busy = each.in_flight / slots
        more = max(0.0, each.used - busy - UNCLEAR)
        assert busy + 1 / slots + more == pytest.approx(u, abs=5e-4)
        assert rtt + 50 / speed * (1 + u * u) == pytest.approx(cost, abs=0.1)
        assert each.cost_ms == pytest.approx(cost, abs=0.05)


def test_the_defaults_on_the_page_are_those_of_the_code() -> None:
    text = PAGE.read_text()
    options = Settings()
    assert (
        f"| draws | by weight, with replacement; a fleet of up to "
        f"{options.full_scan} is compared whole | | {options.draws} |" in text
    )
    assert f"less than {options.panic_below} of the capacity" in text
    assert f"≤ {options.path_share} · it" in text
    for name, seconds in SERVICE_S.items():
        assert f"`{name}` {seconds:g}" in text


def test_every_field_of_a_task_is_on_the_page() -> None:
    text = PAGE.read_text()
    assert [field for field in FIELDS if f"`{field}`" not in text] == []
