"""Tasks, decisions and outcomes over HTTP."""

import asyncio

import pytest

from .asking import say, serving


def test_a_task_is_routed_explained_and_closed(collector, hello, frame):
    say(collector, hello(1), frame(1))
    collector.tick()

    async def scenario():
        async with serving(collector) as ask:
            response, made = await ask("POST", "/v1/route", data="{}")
            assert response.status == 200
            assert made["node"] == "node1"
            assert made["why"]["candidates"][0]["node"] == "node1"
            route = "/v1/decisions/{decision}"
            _, again = await ask("GET", f"/v1/decisions/{made['decision']}", route)
            assert again == made
            response, _ = await ask("GET", "/v1/decisions/nope", route)
            assert response.status == 404
            outcome = {"decision": made["decision"], "outcome": "ok", "latency_ms": 12}
            _, closed = await ask("POST", "/v1/outcomes", json=outcome)
            assert closed == {"closed": 1, "unknown": []}
            _, closed = await ask("POST", "/v1/outcomes", json=[outcome])
            assert closed == {"closed": 0, "unknown": []}
            stray = {"decision": "stray", "outcome": "error"}
            _, closed = await ask("POST", "/v1/outcomes", json=[stray])
            assert closed == {"closed": 0, "unknown": ["stray"]}

    asyncio.run(scenario())


def test_no_fit_says_how_many_nodes_failed_which_need(collector, hello, frame):
    say(collector, hello(1), frame(1))
    collector.tick()

    async def scenario():
        async with serving(collector) as ask:
            task = {"labels": {"gpu": "a100"}}
            response, problem = await ask("POST", "/v1/route", json=task)
            assert response.status == 409
            assert problem["type"] == "urn:trimtab:no-fit"
            (entry,) = problem["why"]["filtered"]
            assert entry["nodes"] == 1
            assert "1 of 1" in problem["detail"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "7",
        "nonsense",
        '{"cpu": -1}',
        '{"cpus": 1}',
        '{"memory_mib": NaN}',
        '{"memory_mib": 1e999}',
        '{"class": "fast"}',
        "[" * 100_000,
        '{"latency_budget_ms": "5"}',
        "\ud800".encode("utf-8", "surrogatepass"),
    ],
)
def test_a_bad_task_is_refused_with_what_was_expected(collector, body):
    async def scenario():
        async with serving(collector) as ask:
            response, problem = await ask("POST", "/v1/route", data=body)
            # An empty body asks for nothing in particular: that is a task.
            assert response.status == (409 if body == "" else 400)
            assert len(problem["detail"]) > 10

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "body",
    [
        "7",
        "[7]",
        "[[]]",
        "{",
        "{}",
        '{"decision": 1, "outcome": "ok"}',
        '{"decision": "a", "outcome": "fine"}',
        '{"decision": "a", "outcome": "ok", "latency_ms": -1}',
        '{"decision": "a", "outcome": "ok", "latency": 1}',
    ],
)
def test_a_bad_outcome_is_refused(collector, body):
    async def scenario():
        async with serving(collector) as ask:
            response, _ = await ask("POST", "/v1/outcomes", data=body)
            assert response.status == 400

    asyncio.run(scenario())


def test_each_task_of_a_batch_has_its_own_answer_in_order(collector, hello, frame):
    say(collector, hello(1), frame(1))
    collector.tick()

    async def scenario():
        async with serving(collector) as ask:
            tasks = [{}, {"cpus": 1}, 7, {"labels": {"a": "b"}}, {"class": "batch"}]
            response, answer = await ask("POST", "/v1/route", json={"tasks": tasks})
            assert response.status == 200
            first, misspelt, none, nowhere, last = answer["decisions"]
            assert first["node"] == last["node"] == "node1"
            assert last["why"]["task"]["class"] == "batch"
            assert misspelt["problem"]["status"] == 400
            assert misspelt["problem"]["problems"][0]["field"] == "cpus"
            assert none["problem"]["type"] == "urn:trimtab:bad-task"
            assert nowhere["problem"]["type"] == "urn:trimtab:no-fit"
            assert nowhere["problem"]["why"]["filtered"][0]["rule"] == "labels.a"
            assert collector.router.open_leases == 2
            assert collector.decided.counts == {"normal": 2, "none": 1}
            _, answer = await ask("POST", "/v1/route", json={"tasks": []})
            assert answer == {"decisions": []}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ({"tasks": {}}, "and nothing beside"),
        ({"tasks": [], "cpu": 1}, "and nothing beside"),
        ({"tasks": [{}] * 1001}, "at most 1000 tasks, got 1001"),
    ],
)
def test_what_is_no_batch_is_refused_whole(collector, batch, said):
    async def scenario():
        async with serving(collector) as ask:
            response, problem = await ask("POST", "/v1/route", json=batch)
            assert response.status == 400
            assert said in problem["detail"]

    asyncio.run(scenario())


def test_a_decision_is_explained_after_a_restart(make_collector, hello, frame):
    collector = make_collector()
    say(collector, hello(1), frame(1))
    collector.tick()

    async def asked(collector, method, path, route):
        async with serving(collector) as ask:
            return (await ask(method, path, route))[1]

    made = asyncio.run(asked(collector, "POST", "/v1/route", "/v1/route"))
    asyncio.run(collector.commit())
    path, route = f"/v1/decisions/{made['decision']}", "/v1/decisions/{decision}"
    assert asyncio.run(asked(make_collector(), "GET", path, route)) == made
