"""Every call, against a real collector with a real agent."""

import dataclasses
import pickle
import re
import time
from collections.abc import Iterator

import pytest

from trimtab.client import (
    ApiError,
    BadTask,
    Client,
    Decision,
    NoFit,
    NotFound,
    Outcome,
)
from trimtab.client.fields import Fields
from trimtab.client.nodes import parse_node

from .conftest import Collector


@pytest.fixture
def client(collector: Collector) -> Iterator[Client]:
    with Client(collector.url) as client:
        yield client


def decided(client: Client) -> Decision:
    answer = client.route({})
    assert isinstance(answer, Decision)
    return answer


def test_the_list_and_the_node_tell_of_the_same_host(client: Client) -> None:
    (listed,) = client.nodes()
    node = client.node("host-one")
    assert (listed.name, listed.id) == (node.name, node.id) == ("host-one", node.id)
    assert node.state in ("joining", "healthy", "strained", "saturated")
    assert node.score is not None
    assert 0 <= node.score <= 1
    assert node.headroom["gpu"] is None
    assert node.interval_ms == 1000
    assert node.links[0].to == "collector"


def test_a_node_is_found_by_its_id_too(client: Client) -> None:
    assert client.node(client.node("host-one").id).name == "host-one"


def test_values_are_frozen(client: Client) -> None:
    node = client.node("host-one")
    with pytest.raises(dataclasses.FrozenInstanceError):
        node.score = 1.0  # type: ignore[misc]


def test_fields_of_a_newer_collector_are_left_alone_and_kept_raw(
    client: Client,
) -> None:
    node = client.node("host-one")
    newer = {**node.raw, "mood": "fair", "links": [{**node.raw["links"][0], "x": 1}]}
    parsed = parse_node(Fields(newer))
    assert parsed == node
    assert parsed.raw["mood"] == "fair"


def test_history_is_columns_of_equal_steps(client: Client) -> None:
    now = time.time()
    history = client.history("host-one", since=now - 600, until=now + 60, step=60)
    assert history.step_s == 60
    assert len(history.series["score"].mean) == len(history.time)
    assert all(time % 60 == 0 for time in history.time)


def test_a_decision_can_be_asked_for_again_and_closed_once(client: Client) -> None:
    decision = decided(client)
    assert decision.node == "host-one"
    assert decision.why.candidates[0].node == "host-one"
    assert client.decision(decision.id) == decision
    assert client.outcome(decision.id, "ok", service_ms=12.5).closed == 1
    assert client.outcome(decision.id, "ok").closed == 0


def test_several_outcomes_go_at_once_and_unknown_ones_are_named(
    client: Client,
) -> None:
    mine = decided(client).id
    closed = client.outcomes(
        [
            Outcome(decision=mine, outcome="error", latency_ms=3),
            Outcome(decision="feedfeedfeedfeed", outcome="timeout"),
        ]
    )
    assert closed == (1, ("feedfeedfeedfeed",))


def test_no_fit_is_an_answer_with_what_was_missed(client: Client) -> None:
    answer = client.route({"labels": {"gpu": "a100"}, "from": "here"})
    assert isinstance(answer, NoFit)
    assert "not labelled gpu=a100" in answer.detail
    assert answer.filtered[0].rule == "labels.gpu"
    assert answer.filtered[0].examples[0].node == "host-one"
    assert answer.unused == ("from",)


@pytest.mark.parametrize(
    "name", ["nobody", "a/b", "..", ".", "ü ?#%41", "[red]", "x\x1b[31m", "n" * 300]
)
def test_a_name_stays_one_part_of_the_path(client: Client, name: str) -> None:
    with pytest.raises(NotFound, match="404 Not Found: no node has the name or id"):
        client.node(name)
    with pytest.raises(NotFound, match="no decision"):
        client.decision(name)


def test_a_bad_task_brings_every_problem_with_the_request(client: Client) -> None:
    with pytest.raises(ApiError) as caught:
        client.route({"cpu": "many", "gpu": 1})
    text = str(caught.value)
    assert re.match(r"POST http://127.0.0.1:\d+/v1/route: 400 Bad Request: cpu: ", text)
    assert "did you mean 'gpus'" in text
    assert caught.value.status == 400
    assert caught.value.problem is not None


def test_a_bad_step_is_the_collectors_to_refuse(client: Client) -> None:
    with pytest.raises(ApiError, match="multiple of 60"):
        client.history("host-one", step=7)


def test_not_a_number_never_leaves_as_json(client: Client) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        client.route({"cpu": float("nan")})


def test_values_turn_into_plain_ones_and_can_be_kept(client: Client) -> None:
    node = client.node("host-one")
    assert dataclasses.asdict(node)["headroom"] == node.headroom
    assert pickle.loads(pickle.dumps(node)) == node


def test_each_task_of_several_has_its_own_answer(client: Client) -> None:
    tasks: list[dict[str, object]] = [{}, {"labels": {"a": "b"}}, {"cpus": 1}]
    picked, nowhere, misspelt = client.route_all(tasks)
    assert isinstance(picked, Decision)
    assert picked.node == "host-one"
    assert client.decision(picked.id) == picked
    assert isinstance(nowhere, NoFit)
    assert "not labelled a=b" in nowhere.detail
    assert isinstance(misspelt, BadTask)
    assert "did you mean 'cpu'" in misspelt.detail
