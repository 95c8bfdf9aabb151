"""Drain, put back, delete, holds: what people want of a node."""

import asyncio

import pytest

from trimtab.collector.states import Admin

from .asking import NODE, bearer, guard, say, serving

DRAIN, HOLDS = f"{NODE}/drain", f"{NODE}/holds"


@pytest.fixture
def one(collector, hello, frame):
    say(collector, hello(1), frame(1))
    collector.tick()
    return collector


def kinds(collector):
    return [
        (str(e.kind), e.details.get("after"), e.reason)
        for e in collector.events.after(0, 100)
        if e.kind in ("admin", "deleted", "holds")
    ]


def test_a_node_is_drained_with_deadline_and_reason_and_put_back(one, clock):
    guard(one, clock, "admin", label="ann")

    async def scenario():
        async with serving(one) as ask:
            body = {"deadline_s": 600, "reason": "new disk"}
            response, node = await ask(
                "PUT",
                "/v1/nodes/node1/drain",
                DRAIN,
                json=body,
                headers=bearer("admin"),
            )
            assert response.status == 200
            assert node["admin"] == "draining"
            assert node["drain"] == {
                "since": clock.unix(),
                "until": clock.unix() + 600,
                "reason": "new disk",
                "by": "ann",
            }
            _, node = await ask(
                "DELETE", "/v1/nodes/node1/drain", DRAIN, headers=bearer("admin")
            )
            assert (node["admin"], node["drain"]) == ("active", None)

    asyncio.run(scenario())


def test_a_drain_asked_for_twice_is_one(one, clock):
    async def scenario():
        async with serving(one) as ask:
            path = "/v1/nodes/node1/drain"
            _, first = await ask("PUT", path, DRAIN)
            assert first["drain"]["until"] is None
            assert first["drain"]["by"] is None
            clock.now += 0.5
            _, again = await ask("PUT", path, DRAIN, json={})
            assert again["drain"] == first["drain"]
            one.tick()  # nothing is open on it
            _, drained = await ask("PUT", path, DRAIN, json={"deadline_s": 5})
            assert drained["admin"] == "drained"
            assert drained["drain"] == first["drain"]
            await ask("DELETE", path, DRAIN)
            await ask("DELETE", path, DRAIN)
        assert [after for _, after, _ in kinds(one)] == [
            "draining",
            "drained",
            "active",
        ]

    asyncio.run(scenario())


def test_another_deadline_or_reason_takes_the_place_of_the_first(one, clock):
    async def scenario():
        async with serving(one) as ask:
            path = "/v1/nodes/node1/drain"
            await ask("PUT", path, DRAIN, json={"reason": "disk"})
            _, node = await ask("PUT", path, DRAIN, json={"deadline_s": 60})
            assert node["drain"]["until"] == clock.unix() + 60
            assert node["drain"]["reason"] == "disk"
            _, node = await ask("PUT", path, DRAIN, json={"reason": "fan"})
            assert node["drain"]["reason"] == "fan"

    asyncio.run(scenario())


def test_a_deleted_node_comes_back_by_its_id_and_not_by_a_drain(one):
    async def scenario():
        async with serving(one) as ask:
            _, node = await ask("DELETE", "/v1/nodes/node1?reason=sold", NODE)
            assert node["admin"] == "tombstoned"
            assert node["drain"]["reason"] == "sold"
            await ask("DELETE", f"/v1/nodes/{node['id']}", NODE)
            response, problem = await ask(
                "PUT", f"/v1/nodes/{node['id']}/drain", DRAIN, json={}
            )
            assert response.status == 409
            assert problem["type"] == "urn:trimtab:deleted"
            _, node = await ask("DELETE", f"/v1/nodes/{node['id']}/drain", DRAIN)
            assert node["admin"] == "active"
        assert kinds(one) == [
            ("deleted", "tombstoned", "sold"),
            ("admin", "active", "put back"),
        ]

    asyncio.run(scenario())


def test_what_a_node_holds_is_anothers_to_tell(one):
    async def scenario():
        async with serving(one) as ask:
            path, body = "/v1/nodes/node1/holds", {"holds": ["b", "a", "b"]}
            response, node = await ask("PUT", path, HOLDS, json=body)
            assert response.status == 200
            assert node["holds"] == ["b", "a"]
            _, node = await ask("GET", "/v1/nodes/node1", NODE)
            assert node["holds"] == ["b", "a"]
            _, node = await ask("PUT", path, HOLDS, json={"holds": []})
            assert node["holds"] == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("drain", "[]", "expected an object with deadline_s, reason"),
        ("drain", '{"deadline": 5}', "unknown field 'deadline'; there are: deadline_s"),
        ("drain", '{"deadline_s": -1}', "deadline_s: expected seconds"),
        ("drain", '{"deadline_s": true}', "deadline_s: expected seconds"),
        ("drain", '{"deadline_s": NaN}', "deadline_s: expected seconds"),
        ("drain", '{"deadline_s": 1e9}', "deadline_s: expected seconds"),
        ("drain", '{"reason": "\\u001b[2J"}', "reason: expected printable"),
        ("drain", '{"reason": 7}', "reason: expected printable"),
        ("holds", "{}", "array of texts"),
        ("holds", '{"holds": "a"}', "array of texts"),
        ("holds", '{"holds": [1]}', "array of texts"),
        ("holds", '{"holds": ["a\\u0000"]}', "holds[0]: expected printable text"),
        ("holds", '{"holds": ["\\ud800"]}', "surrogates"),
        ("holds", f'{{"holds": ["{"x" * 300}"]}}', "at most 255"),
    ],
)
def test_what_can_not_be_wanted_is_refused_and_changes_nothing(one, path, body, said):
    async def scenario():
        async with serving(one) as ask:
            response, problem = await ask(
                "PUT", f"/v1/nodes/node1/{path}", f"{NODE}/{path}", data=body
            )
            assert response.status == 400
            assert said in problem["detail"]
        assert one.fleet.admin[0] == Admin.ACTIVE
        assert kinds(one) == []

    asyncio.run(scenario())


@pytest.mark.parametrize("count", [257, 256])
def test_more_than_a_hello_can_carry_is_more_than_a_node_holds(one, count):
    """Else the registry would hold what it can't read again."""
    long = [f"{n:03}" + "ü" * 252 for n in range(count)]

    async def scenario():
        async with serving(one) as ask:
            response, _ = await ask(
                "PUT", "/v1/nodes/node1/holds", HOLDS, json={"holds": long}
            )
            assert response.status == 400

    asyncio.run(scenario())


def test_each_of_them_asks_for_its_scope(one, clock):
    guard(one, clock, "read", "route", "admin")

    async def scenario():
        async with serving(one) as ask:

            async def status(method, path, scope):
                route = path.replace("node1", "{node}")
                body = '{"holds": []}' if path.endswith("holds") else None
                response, _ = await ask(
                    method, path, route, data=body, headers=bearer(scope)
                )
                return response.status

            for method, path in (
                ("PUT", "/v1/nodes/node1/drain"),
                ("DELETE", "/v1/nodes/node1/drain"),
                ("DELETE", "/v1/nodes/node1"),
            ):
                assert await status(method, path, "read") == 403
                assert await status(method, path, "route") == 403
                assert await status(method, path, "admin") == 200
            assert await status("PUT", "/v1/nodes/node1/holds", "read") == 403
            assert await status("PUT", "/v1/nodes/node1/holds", "route") == 200
            assert await status("PUT", "/v1/nodes/node1/holds", "admin") == 200

    asyncio.run(scenario())
