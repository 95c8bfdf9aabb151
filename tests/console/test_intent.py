"""Drain, put back, delete and events by the command, on a collector of its own."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from trimtab.client import Client
from trimtab.client.events import parse_event
from trimtab.client.fields import Fields
from trimtab.console import events_view

from ..client.conftest import Collector, start_agent, start_collector, until
from .conftest import Run
from .test_cli import COMMAND

NODE = "host-four"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    folder = tmp_path_factory.mktemp("own")
    collector, child = start_collector(folder)
    agent = start_agent(folder, collector, NODE)
    try:
        with Client(collector.url) as client:
            until(lambda: len(client.nodes()) == 1, "a node")
        yield collector
    finally:
        for each in (agent, child):
            each.stop(time.monotonic() + 5)


@pytest.fixture
def on_own(trimtab: Run, own: Collector, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("TRIMTAB_URL", own.url)
    return trimtab


def test_a_node_is_drained_and_put_back(on_own: Run, own: Collector) -> None:
    ran = on_own("drain", NODE, "--deadline", "10m", "--reason", "new disk")
    assert ran.status == 0
    assert ran.out.startswith(f"{NODE} is draining: no new tasks, and none at all once")
    assert ran.out.endswith("UTC. Reason: new disk.\n")
    with Client(own.url) as client:
        until(lambda: client.node(NODE).admin == "drained", "its work is done")
    assert on_own("drain", NODE).out == (
        f"{NODE} is drained: it takes no tasks. Reason: new disk.\n"
    )
    assert re.search(r"taken out +since .*: new disk", on_own("node", NODE).out)
    assert f"{NODE} takes tasks again; it is " in on_own("undrain", NODE).out
    assert json.loads(on_own("undrain", NODE, "--json").out)["drain"] is None


def test_a_deleted_node_is_shown_on_demand_and_put_back_by_id(on_own: Run) -> None:
    ran = on_own("forget", NODE, "--reason", "sold")
    assert f"{NODE} is deleted, and its agent is refused." in ran.out
    undrain = re.search(r"'trimtab (undrain) ([0-9a-f]{32})'", ran.out)
    assert undrain is not None
    assert "No node has reported yet" in on_own("nodes").out
    assert NODE in on_own("nodes", "--admin", "tombstoned").out
    assert on_own(*undrain.groups()).status == 0
    assert NODE in on_own("nodes").out


def test_filters_and_order_are_the_collectors(on_own: Run) -> None:
    assert NODE in on_own("nodes", "--sort=-score", "--limit", "1").out
    assert on_own("nodes", "--site", "x").out == "No node passes these filters.\n"
    assert on_own("nodes", "--label", "a=b", "--json").out == (
        '{\n  "nodes": [],\n  "next": null\n}\n'
    )
    ran = on_own("nodes", "--state", "fine")
    assert ran.status == 2
    assert "state: expected some of unknown, joining" in ran.err


def test_events_are_lines_and_lines_of_json(on_own: Run) -> None:
    on_own("drain", NODE, "--reason", "one")
    on_own("undrain", NODE)
    told = on_own("events").out
    assert re.search(rf"UTC +\d+  admin +{NODE}: active -> draining: one\n", told)
    told = on_own("events", "--last", "9", "--json").out
    event = [e for e in map(json.loads, told.splitlines()) if e["kind"] == "admin"][-1]
    assert event["reason"] == "put back"
    since = on_own("events", "--after", str(event["id"] - 2), "--json").out
    first, second = (json.loads(line)["id"] for line in since.splitlines()[:2])
    assert (first, second) == (event["id"] - 1, event["id"])


def test_followed_events_come_as_they_happen_until_ctrl_c(
    on_own: Run, own: Collector
) -> None:
    with subprocess.Popen(
        [*COMMAND, "events", "--follow", "--last", "1", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TRIMTAB_URL": own.url},
    ) as ran:
        assert ran.stdout is not None
        before = json.loads(ran.stdout.readline())
        on_own("drain", NODE, "--reason", "seen at once")
        event = json.loads(ran.stdout.readline())
        assert event["id"] > before["id"]
        assert event["reason"] == "seen at once"
        ran.send_signal(signal.SIGINT)
        assert ran.wait(5) == 130
    on_own("undrain", NODE)


@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        (["drain", "nobody"], 1, "no node has the name or id 'nobody'"),
        (["drain", NODE, "--deadline", "soon"], 2, "expected a time such as 90s"),
        (["drain", NODE, "--reason", "\x1b[2J"], 2, "reason: expected printable"),
        (["nodes", "--limit", "0"], 2, "expected 1 to 1000, got '0'"),
        (["events", "--after", "x"], 2, "expected a number, got 'x'"),
        (["events", "--after", "1", "--last", "2"], 2, "not allowed with"),
    ],
)
def test_what_fails_says_so(
    on_own: Run, argv: list[str], status: int, said: str
) -> None:
    ran = on_own(*argv)
    assert (ran.status, ran.out) == (status, "")
    assert said in ran.err


def test_every_new_command_helps_with_examples(trimtab: Run) -> None:
    for command in ("nodes", "drain", "events"):
        assert "examples:" in trimtab(command, "--help").out
    for command in ("undrain", "forget"):
        assert "undrain" in trimtab(command, "--help").out


def test_an_event_of_evil_words_is_a_harmless_line() -> None:
    event = parse_event(
        Fields(
            {
                "id": 1,
                "time": 1e300,
                "kind": "\x1b[2J",
                "node": "n\n",
                "reason": "\u202ex",
                "details": {"before": "a\r", "after": "b", "n": 1, "none": None},
            }
        )
    )
    assert events_view.line(event).isprintable()
