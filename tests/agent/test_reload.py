"""SIGHUP: what a running agent takes up of changed settings, in both modes."""

import io
import json
import signal
from pathlib import Path

import pytest
from tests.processes import Fleet, until

from trimtab.agent.emit import Log
from trimtab.agent.reload import FIXED, UPLINK, merge
from trimtab.agent.ring import OVERHEAD_BYTES, Ring
from trimtab.agent.settings import Settings

RATED = {"healthy", "strained", "saturated"}
MODES = pytest.mark.parametrize("mode", ["standard", "edge"])


@pytest.fixture
def fleets(tmp_path, free_port):
    """Two collectors' worth of processes, the agent with the first."""
    folders = (tmp_path / "first", tmp_path / "second")
    for folder in folders:
        folder.mkdir()
    both = [Fleet(folder, free_port) for folder in folders]
    yield both
    for fleet in both:
        fleet.close()


class Reloading:
    """An agent with a settings file of its own."""

    def __init__(self, fleet, mode, **settings):
        self.fleet = fleet
        self.mode = mode
        self.config = fleet.folder / "agent.toml"
        self.write(**settings)
        environment = {"TRIMTAB_STATE_DIR": str(fleet.folder / "state")}
        argv = ("trimtab.agent", "run", "--config", str(self.config))
        self.process = fleet._start("agent", *argv, **environment)

    def write(self, collector=None, **settings):
        own = {
            "collector": f"127.0.0.1:{(collector or self.fleet).frames_port}",
            "name": "box",
            "mode": self.mode,
            "interval_s": 0.2,
            "heartbeat_s": 1,
        }
        # JSON's texts, numbers, lists and booleans are TOML's as well.
        lines = [f"{k} = {json.dumps(v)}" for k, v in (own | settings).items()]
        self.config.write_text("\n".join(lines))

    def hang_up(self):
        self.process.send_signal(signal.SIGHUP)

    def said(self, text):
        return self.fleet.log("agent").count(text)


def details(fleet):
    return fleet.ask("/v1/nodes/box") if "box" in fleet.nodes() else {}


@MODES
def test_what_the_operator_says_is_taken_up_over_the_same_connection(fleets, mode):
    fleet = fleets[0]
    fleet.collector()
    agent = Reloading(fleet, mode)
    until(lambda: details(fleet).get("links"), 15, "the node reports")
    agent.write(site="attic", targets=["127.0.0.1:9"], interval_s=0.1)
    agent.hang_up()
    until(lambda: agent.said("event=settings_reloaded"), 5, "it reads them")
    until(lambda: "attic" in json.dumps(details(fleet)), 10, "the site is told")
    until(
        lambda: [link["to"] for link in details(fleet)["links"]][1:] == ["127.0.0.1:9"],
        15,
        "the target is measured",
    )
    agent.write(site="attic")
    agent.hang_up()
    until(lambda: len(details(fleet)["links"]) == 1, 10, "the target is dropped")
    assert agent.said("event=connected") == 1
    assert fleet.stop(agent.process) == 0
    assert agent.said("lost=0") == 1
    assert agent.said("Traceback") == 0


@MODES
def test_a_file_with_problems_changes_nothing_and_each_is_named(fleets, mode):
    fleet = fleets[0]
    fleet.collector()
    agent = Reloading(fleet, mode)
    until(lambda: details(fleet).get("links"), 15, "the node reports")
    agent.write(site="attic", interval_s="often", slots=-1)
    agent.hang_up()
    until(lambda: agent.said("event=settings_not_reloaded") == 2, 5, "it complains")
    assert agent.said("interval_s = 'often': expected") == 1
    assert agent.said("slots = -1: expected") == 1
    agent.write(site="cellar")
    agent.hang_up()
    until(lambda: "cellar" in json.dumps(details(fleet)), 10, "the mended one is told")
    assert "attic" not in json.dumps(details(fleet))
    assert fleet.stop(agent.process) == 0


@MODES
def test_another_collector_is_dialled_and_gets_what_the_first_did_not(fleets, mode):
    first, second = fleets
    first.collector()
    agent = Reloading(first, mode)
    until(lambda: details(first).get("links"), 15, "the node reports")
    second.collector()
    until(lambda: second.nodes() == {} and _answers(second), 10, "the other is up")
    agent.write(collector=second)
    agent.hang_up()
    until(lambda: details(second).get("links"), 15, "it reports to the other")
    assert agent.said("event=connected") == 2
    assert first.stop(agent.process) == 0
    assert agent.said("lost=0") == 1
    assert agent.said("Traceback") == 0


def _answers(fleet):
    try:
        return "nodes" in fleet.ask("/v1/nodes")
    except OSError:
        return False


@MODES
def test_what_takes_a_restart_is_said_and_left(fleets, mode, tmp_path):
    fleet = fleets[0]
    fleet.collector()
    agent = Reloading(fleet, mode)
    until(lambda: details(fleet).get("links"), 15, "the node reports")
    other = {"standard": "edge", "edge": "standard"}[mode]
    agent.write(mode=other, gpu=False, site="attic")
    agent.hang_up()
    until(lambda: "attic" in json.dumps(details(fleet)), 10, "the rest is taken up")
    assert agent.said("event=restart_needed setting=mode") == 1
    assert agent.said("event=restart_needed setting=gpu") == 1
    assert fleet.stop(agent.process) == 0


@MODES
def test_a_sleep_of_an_hour_ends_when_the_interval_is_made_short(fleets, mode):
    """The watchdog would end an agent that sleeps on with an interval of before."""
    fleet = fleets[0]
    fleet.collector()
    agent = Reloading(fleet, mode, interval_s=3600, heartbeat_s=3600)
    until(lambda: details(fleet).get("state") == "joining", 15, "the node reports")
    agent.write(interval_s=0.1)
    agent.hang_up()
    until(lambda: details(fleet)["state"] in RATED, 10, "the node is rated")
    assert fleet.stop(agent.process) == 0


def test_every_setting_is_taken_up_or_takes_a_restart():
    """A new setting belongs to one of these, and a shell has to know it."""
    taken_up = {
        *UPLINK,
        *("name", "interval_s", "calm_interval_s", "heartbeat_s", "targets"),
        *("accept_peers", "ring_kib", "log_format", "log_level"),
        *("address", "site", "zone", "operator", "ephemeral", "groups", "labels"),
        *("holds", "resources", "price", "slots", "speed"),
    }
    assert taken_up | set(FIXED) == set(Settings._fields)
    assert not taken_up & set(FIXED)


def test_merging_keeps_what_is_fixed():
    running = Settings(state_dir=Path("/a"), site="s")
    wanted = Settings(state_dir=Path("/b"), site="t", price=1.0)
    merged = merge(running, wanted)
    assert merged.settings == Settings(state_dir=Path("/a"), site="t", price=1.0)
    assert merged.changed == ("site", "price")
    assert merged.fixed == ("state_dir",)
    assert merge(running, running) == (running, (), ())


def test_a_log_takes_another_level_and_form():
    out = io.StringIO()
    log = Log(stream=out)
    log.debug("unseen")
    log.configure("json", "debug")
    log.debug("seen")
    assert json.loads(out.getvalue())["event"] == "seen"


def test_a_smaller_ring_forgets_the_oldest_and_counts_them():
    ring = Ring(10 * (OVERHEAD_BYTES + 1))
    for seq in range(10):
        ring.push(seq, b"x")
    ring.resize(4 * (OVERHEAD_BYTES + 1))
    assert [held.seq for held in ring.after(-1, 10)] == [6, 7, 8, 9]
    assert ring.dropped == 6
