"""What the tables say, whatever nodes call themselves, at any width."""

import io
from collections.abc import Iterable
from typing import Any

import pytest
from rich.console import Console, RenderableType
from rich.text import Text

from trimtab.client import Decision, Node, NodeSummary
from trimtab.client.decisions import parse_decision
from trimtab.client.fields import Fields
from trimtab.client.nodes import parse_node, parse_summary
from trimtab.console import decision_view, node_view, nodes_view
from trimtab.console.states import state, tally, worst_first
from trimtab.console.terminal import console, roomy
from trimtab.console.why import sentence

EVIL = "[bold red]x[/]\x1b[31m\u202e\n:smile:"
SHOWN = "[bold red]x[/]\\x1b[31m\\u202e\\n:smile:"

SUMMARY: dict[str, Any] = {
    "node": "n1",
    "id": "0" * 32,
    "state": "healthy",
    "admin": "active",
    "score": 0.5,
    "confidence": 0.9,
    "limiting": "cpu",
    "headroom": {"cpu": 0.5, "memory": 1.0, "network": None, "gpu": None},
    "age_ms": 400,
    "signals": {"cpu.stall": 0.02, "path.loss": None},
}
DETAILS: dict[str, Any] = {
    "state_for_s": 100.0,
    "interval_ms": 1000,
    "stale_after_ms": 3000,
    "agent_version": "0.1.0",
    "first_seen": 1.0,
    "last_seen": 2.0,
    "gaps": 0,
    "links": [{"to": "collector", "method": "echo", "rtt_us": 512}],
    "holes": [],
}
CANDIDATE: dict[str, Any] = {
    "node": "n1",
    "state": "healthy",
    "cost_ms": 59.3,
    "rtt_ms": None,
    "slowness": 1.0,
    "stall": 1.0,
    "in_flight": 1,
    "elsewhere": 0.4,
    "slots": 4,
    "speed": 1.0,
    "used": 0.5,
    "headroom": None,
    "limiting": None,
    "age_ms": None,
}


def summary(**given: object) -> NodeSummary:
    return parse_summary(Fields(SUMMARY | given))


def node(**given: object) -> Node:
    return parse_node(Fields(SUMMARY | DETAILS | given))


def decision(why: dict[str, object] | None = None, **given: object) -> Decision:
    answer: dict[str, object] = {
        "decision": "feed",
        "node": "n1",
        "score": None,
        "expires_ms": 30_000,
        "alternatives": [],
        "why": {"mode": "normal", "candidates": [CANDIDATE], "compared": 1}
        | (why or {}),
    }
    return parse_decision(Fields(answer | given))


def drawn(parts: Iterable[RenderableType], width: int | None = None) -> str:
    out = io.StringIO()
    target = console(out)
    if width is not None:
        target = Console(file=out, width=width, markup=False, highlight=False)
    for part in parts:
        target.print(part)
    return out.getvalue()


def test_the_node_to_look_at_first_is_on_top() -> None:
    nodes = [
        summary(node="idle", score=0.9),
        summary(node="drained", state="lost", admin="drained"),
        summary(node="busy", score=0.6),
        summary(node="newer", state="pondering", score=None),
        summary(node="full", state="saturated", score=0.0),
        summary(node="asleep", state="sleeping"),
        summary(node="old", state="stale"),
        summary(node="gone", state="lost", score=None),
    ]
    order = [each.name for each in worst_first(nodes)]
    assert order == [
        "gone",
        "full",
        "old",
        "newer",
        "busy",
        "idle",
        "asleep",
        "drained",
    ]


SILENT: dict[str, Any] = {
    "score": None,
    "confidence": None,
    "limiting": None,
    "headroom": {"cpu": None, "memory": None, "network": None, "gpu": None},
    "signals": {"cpu.stall": None, "path.loss": None},
    "age_ms": 3_600_000,
}


def test_silent_nodes_keep_their_place_and_show_no_reading() -> None:
    nodes = [
        summary(node="well", score=0.1),
        summary(node="asleep", state="sleeping", **SILENT),
        summary(node="gone-b", state="lost", **SILENT),
        summary(node="gone-a", state="lost", **SILENT | {"age_ms": None}),
    ]
    ordered = worst_first(nodes)
    rows = drawn([nodes_view.fleet(ordered, roomy=True)]).splitlines()[1:]
    assert [row.split() for row in rows] == [
        ["gone-a", "lost", *["–"] * 7],
        ["gone-b", "lost", *["–"] * 6, "60", "min"],
        ["well", "healthy", "0.10", "cpu", "0.50", "1.00", "–", "–", "0.4", "s"],
        ["asleep", "sleeping", *["–"] * 6, "60", "min"],
    ]
    assert "lost  score –  limiting –  cpu –" in nodes_view.line(nodes[2])


def test_of_a_silent_node_what_is_old_is_said_to_be() -> None:
    gone = node(state="lost", holes=[{"signal": "x", "state": "error"}], **SILENT)
    text = drawn(node_view.whole(gone, [0.5], roomy=True))
    assert "score –\nno reading; the last one is 60 min old\n" in text
    assert "\nsignals\n  no reading\n" in text
    assert "\nlinks, as last reported\n" in text
    assert "\nholes, as last reported\n" in text
    assert "confidence" not in text


def test_of_a_node_recalled_after_a_restart_the_last_sign_is_dated() -> None:
    recalled = node(state="lost", **SILENT | {"age_ms": None}, last_seen=60)
    text = drawn(node_view.whole(recalled, [], roomy=True))
    assert "no reading since the collector started; last heard of 1970-01-01 00:01" in (
        text
    )


def test_the_tally_counts_states_worst_first() -> None:
    nodes = [summary(), summary(state="lost"), summary(admin="draining")]
    assert tally(nodes) == ("3 nodes: 1 lost, 2 healthy, 1 taken out by the operator.")
    assert "trimtab-agent run" in tally([])


def test_no_state_is_told_by_colour_alone() -> None:
    for name in ("healthy", "lost", "saturated", "new-fangled"):
        assert state(summary(state=name)).plain == name
    assert state(summary(admin="draining")).plain == "healthy, draining"


def test_no_reading_is_a_dash_and_zero_a_number() -> None:
    text = drawn(
        [
            nodes_view.fleet(
                [summary(score=None, limiting=None, age_ms=None)], roomy=True
            ),
            nodes_view.fleet([summary(score=0.0)], roomy=True),
        ]
    )
    _, unread, _, zero = text.splitlines()
    assert unread.split() == ["n1", "healthy", "–", "–", "0.50", "1.00", "–", "–", "–"]
    assert zero.split()[2] == "0.00"


def test_hostile_names_and_labels_are_shown_and_not_obeyed() -> None:
    evil = {
        "node": EVIL,
        "state": EVIL,
        "limiting": EVIL,
        "site": EVIL,
        "headroom": {EVIL: 0.5},
        "signals": {EVIL: 0.5},
        "labels": {EVIL: EVIL},
        "links": [{"to": EVIL, "method": EVIL}],
        "holes": [{"signal": EVIL, "state": EVIL, "to": EVIL}],
        "groups": [EVIL],
        "agent_version": EVIL,
    }
    candidate = CANDIDATE | {"node": EVIL, "limiting": EVIL, "state": EVIL}
    filtered = {
        "rule": EVIL,
        "limit": EVIL,
        "nodes": 1,
        "fault": EVIL,
        "examples": [{"node": EVIL, "value": EVIL}],
    }
    why: dict[str, object] = {
        "mode": EVIL,
        "candidates": [candidate],
        "task": {EVIL: EVIL, "labels": {EVIL: EVIL}, "avoid": [EVIL]},
        "filtered": [filtered],
        "relaxed": [EVIL],
        "unused": [EVIL],
    }
    picked = decision(why, node=EVIL, decision=EVIL, address=EVIL)
    for wide in (True, False):
        text = drawn(
            [
                nodes_view.fleet([summary(**evil)], roomy=wide),
                nodes_view.line(summary(**evil)),
                *node_view.whole(node(**evil), [0.5], roomy=wide),
                *decision_view.picked(picked, roomy=wide),
            ]
        )
        assert text.count(SHOWN) > 20
        assert all(ch.isprintable() or ch == "\n" for ch in text)


@pytest.mark.parametrize("width", [60, 79, 80, 100])
def test_every_line_fits_the_terminal_and_no_name_is_cut(width: int) -> None:
    name = "a-rather-long-node-name." * 2 + "rack-17.example"
    nodes = [summary(node=name, state="saturated"), summary(site="fra", zone="a")]
    rival = CANDIDATE | {"node": name}
    picked = decision({"candidates": [CANDIDATE, rival], "compared": 2})
    wide = roomy(Console(width=width))
    text = drawn(
        [
            nodes_view.fleet(nodes, roomy=wide),
            *node_view.whole(node(node=name), [0.5] * 30, roomy=wide),
            *decision_view.picked(picked, roomy=wide),
        ],
        width,
    )
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    assert "saturated" in text


def test_in_a_pipe_a_row_is_one_line_however_long() -> None:
    name = "n" * 300
    text = drawn([nodes_view.fleet([summary(node=name)], roomy=True)])
    assert name in text.splitlines()[1]


def test_holes_come_with_what_to_do() -> None:
    holes = [
        {"signal": "cpu.stall", "state": "unsupported"},
        {"signal": "link.rtt", "state": "stale", "age_ms": 12_000, "to": "10.0.0.1"},
        {"signal": "cpu.steal", "state": "error"},
    ]
    text = drawn(node_view.whole(node(holes=holes), [], roomy=True))
    assert "cpu.stall: unsupported: this host has no such reading; 'trimtab-agent" in (
        text
    )
    assert "link.rtt to 10.0.0.1: stale: the value is 12 s old" in text
    assert "cpu.steal: error" in text
    assert "no reading in this hour" in text


def test_the_only_fit_is_said_to_be_that() -> None:
    assert sentence(decision()) == (
        "n1 is the only node that fits: 59.3 ms expected "
        "(round trip –, 1.4 of 4 slots taken)."
    )


def test_a_pick_is_set_against_the_next_best() -> None:
    rival = CANDIDATE | {"node": "n2", "cost_ms": 120.4}
    why = {"candidates": [CANDIDATE, rival], "looked_at": 40, "compared": 8}
    said = sentence(decision(why))
    assert said.startswith("n1 answers soonest of 8 that fit of 40 looked at: 59.3 ms")
    assert said.endswith("; next is n2 with 120 ms.")


@pytest.mark.parametrize(
    ("mode", "word"),
    [("spill", "stale or ejected"), ("panic", "(panic)")],
)
def test_an_unusual_mode_is_explained(mode: str, word: str) -> None:
    assert word in sentence(decision({"mode": mode}))


def test_what_was_left_out_and_what_is_next_are_told() -> None:
    filtered = {
        "rule": "memory_mib",
        "limit": 2000,
        "nodes": 12,
        "fault": "have less than 2000 MiB of memory free",
        "examples": [{"node": "n2", "value": 1200.5}, {"node": "n3", "value": None}],
    }
    why: dict[str, object] = {
        "filtered": [filtered],
        "relaxed": ["stale: so it is"],
        "unused": ["from"],
        "task": {"class": "batch", "labels": {"a": "b"}, "avoid": ["x", "y"]},
    }
    others = [{"node": "n4", "address": "10.0.0.4:80"}, {"node": "n5", "address": None}]
    text = drawn(decision_view.picked(decision(why, alternatives=others), roomy=True))
    assert (
        "have less than 2000 MiB of memory free: 12 nodes, such as n2 (1,200.5), n3"
    ) in text
    assert "if it fails: n4 at 10.0.0.4:80, n5" in text
    assert "gave way: stale: so it is" in text
    assert "nothing acted on: from" in text
    assert "task class=batch labels.a=b avoid=x,y" in text


def test_text_of_ours_is_no_markup_either() -> None:
    assert drawn([Text("[b]")]) == drawn(["[b]"]) == "[b]\n"


def test_gpus_come_with_what_is_useful_of_their_work() -> None:
    gpu = {
        "device": 0,
        "name": "H200\x1b[31m",
        "health": "lowered",
        "free_mib": 20480,
        "busy": 0.7,
        "effective": 0.31,
        "pseudo_high": True,
        "reasons": ["remap pending"],
    }
    odd = {"device": 1, "free_mib": "much", "busy": None}
    section = {"state": "ok", "stranding": 0.406, "devices": [gpu, odd, 7]}
    shown = drawn(node_view.whole(node(gpus=section), [], roomy=True), 160)
    assert "ok, 40.6 % of the free memory stranded" in shown
    assert "20.0 GiB free, busy 70.0 %, useful at most 31.0 %" in shown
    assert "busy but doing little, remap pending" in shown
    assert "\x1b" not in shown
    assert "1 unnamed, health –, – free, busy –" in shown
    assert "GPUs" not in drawn(node_view.whole(node(), [], roomy=True), 160)
