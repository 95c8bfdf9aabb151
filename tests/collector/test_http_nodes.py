"""A node and its past over HTTP."""

import asyncio

from trimtab.wire import Cpu

from .asking import NODE, say, serving


def test_nodes_and_a_node(collector, hello, frame, clock):
    say(collector, hello(2), frame(1, cpu=Cpu(stall=0.525)))
    say(collector, hello(1))
    collector.tick()
    clock.now += 0.4

    async def scenario():
        async with serving(collector) as ask:
            _, listed = await ask("GET", "/v1/nodes")
            assert [n["node"] for n in listed["nodes"]] == ["node1", "node2"]
            silent, strained = listed["nodes"]
            assert silent["score"] is None
            assert silent["limiting"] is None
            assert silent["age_ms"] is None
            assert set(silent["headroom"].values()) == {None}
            assert 0 < strained["score"] < 1
            assert strained["score"] == strained["headroom"]["cpu"]
            assert strained["limiting"] == "cpu"
            assert strained["headroom"]["gpu"] is None
            assert strained["age_ms"] == 400
            route = "/v1/nodes/{node}"
            _, by_name = await ask("GET", "/v1/nodes/node2", route)
            _, by_id = await ask("GET", f"/v1/nodes/{strained['id']}", route)
            assert by_name == by_id
            assert by_name["links"][0]["to"] == "collector"
            response, problem = await ask("GET", "/v1/nodes/nobody", route)
            assert response.status == 404
            assert "nobody" in problem["detail"]
            response, problem = await ask("GET", "/v1/nodes?sate=lost")
            assert response.status == 400
            assert "sate" in problem["detail"]

    asyncio.run(scenario())


def test_history_merges_minutes_into_steps(collector, hello, frame, clock):
    clock.now += 600
    frames = [frame(seq) for seq in range(1, 600, 10)]
    say(collector, hello(1, boot_ms=5_600_000), *frames)
    asyncio.run(collector.commit())

    async def scenario():
        route = "/v1/nodes/{node}/history"
        async with serving(collector) as ask:
            path = "/v1/nodes/node1/history"
            _, minutes = await ask("GET", path, route)
            assert sum(minutes["samples"]) == 60
            assert len(minutes["time"]) == len(minutes["samples"]) in (10, 11)
            assert min(minutes["series"]["score"]["mean"]) > 0.99
            assert set(minutes["series"]["gpu"]["mean"]) == {None}
            _, fives = await ask("GET", f"{path}?step=300", route)
            assert sum(fives["samples"]) == 60
            assert all(time % 300 == 0 for time in fives["time"])
            _, none = await ask("GET", f"{path}?since=0&until=60", route)
            assert none["samples"] == []
            for query in (
                "step=30",
                "step=x",
                "since=5&until=5",
                "since=0&until=9000000",
                "since=-1",
                "until=nan",
                "foo=1",
            ):
                response, _ = await ask("GET", f"{path}?{query}", route)
                assert response.status == 400, query

    asyncio.run(scenario())


def test_steps_of_hours_come_from_merged_hours_and_the_minutes_since(
    collector, hello, frame, clock
):
    def sample(boot_s):
        clock.now = boot_s - 4000
        collector.tick()
        seq = round(boot_s)
        say(
            collector,
            hello(1, boot_ms=round(boot_s * 1000)),
            frame(seq, boot_ms=round(boot_s * 1000)),
        )
        collector.tick()
        asyncio.run(collector.commit())

    for hour in range(4):
        sample(5000 + 3600 * hour)
    store = collector.store
    merged = store.hours(collector.fleet.nodes[0].shown_id, 0, 10**9)
    assert merged, "no hour is merged: the test shows nothing"

    async def scenario():
        async with serving(collector) as ask:
            until = clock.unix() + 60
            path = f"/v1/nodes/node1/history?since={until - 6 * 3600}&until={until}"
            route = f"{NODE}/history"
            _, minutes = await ask("GET", path, route)
            _, hours = await ask("GET", f"{path}&step=3600", route)
            assert sum(hours["samples"]) == sum(minutes["samples"]) == 4
            assert hours["samples"] == [1, 1, 1, 1]
            assert all(time % 3600 == 0 for time in hours["time"])

    asyncio.run(scenario())


def test_a_forecast_has_its_shape_before_there_is_a_model(collector, hello, clock):
    say(collector, hello(1))

    async def scenario():
        async with serving(collector) as ask:
            route = f"{NODE}/forecast"
            _, forecast = await ask("GET", "/v1/nodes/node1/forecast", route)
            assert forecast["method"] is None
            assert len(forecast["time"]) == 12
            assert forecast["time"][0] > clock.unix()
            assert set(forecast["series"]) == {
                "score",
                "cpu",
                "memory",
                "network",
                "gpu",
            }
            assert forecast["series"]["score"]["low"] == [None] * 12
            response, _ = await ask("GET", "/v1/nodes/nobody/forecast", route)
            assert response.status == 404

    asyncio.run(scenario())
