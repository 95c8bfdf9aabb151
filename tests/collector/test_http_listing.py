"""Lists of nodes: filters, orders, and pages that hold under change."""

import asyncio
from urllib.parse import quote

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st

from trimtab.collector.fleet import Fleet
from trimtab.collector.http import listing
from trimtab.collector.http.problems import Problem
from trimtab.collector.node import Node
from trimtab.collector.states import State
from trimtab.wire import Hello, Inventory

from .asking import say, serving

PLACES = (
    Inventory(site="a", labels={"gpu": "a100", "rack": "1"}),
    Inventory(site="b", labels={"gpu": "h100"}),
    Inventory(site="a"),
    Inventory(),
)


@pytest.fixture
def four(collector, hello):
    """node1 idle, node2 strained, node3 saturated, node4 silent so far."""
    for n, place in enumerate(PLACES, 1):
        say(collector, hello(n, inventory=place))
    collector.tick()
    fleet = collector.fleet
    shown = ((State.HEALTHY, 1.0), (State.STRAINED, 0.3), (State.SATURATED, 0.0))
    for row, (state, score) in enumerate(shown):
        fleet.state[row], fleet.score[row] = state, score
        fleet.headroom[row, 0], fleet.limiting[row] = score, 0
    return collector


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "1234"),
        ("state=healthy", "1"),
        ("state=healthy,strained", "12"),
        ("state=healthy&state=joining", "14"),
        ("site=a", "13"),
        ("site=a&site=b", "123"),
        ("label=gpu", "12"),
        ("label=gpu=a100", "1"),
        ("label=gpu&label=rack=1", "1"),
        ("label=gpu=a100&label=rack=2", ""),
        ("limiting=cpu", "123"),
        ("limiting=network", ""),
        ("admin=active", "1234"),
        ("admin=drained,draining", ""),
        ("sort=-name", "4321"),
        ("sort=score", "3214"),  # null comes last
        ("sort=-score", "1234"),  # either way
        ("sort=-cpu&site=a", "13"),
    ],
)
def test_a_list_has_what_was_asked_for_in_the_order_asked_for(four, query, expected):
    async def scenario():
        async with serving(four) as ask:
            _, listed = await ask("GET", f"/v1/nodes?{query}")
            assert "".join(n["node"][-1] for n in listed["nodes"]) == expected
            assert listed["next"] is None

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("sate=lost", "this route takes: admin, cursor, label, limit, limiting, sit"),
        ("state=fine", "state: expected some of unknown, joining"),
        ("limiting=disk", "expected some of cpu, memory, network, gpu"),
        ("admin=", "expected some of active, draining"),
        ("label==x", "expected KEY=VALUE"),
        ("sort=mood", "sort: expected one of name, score"),
        ("sort=name&sort=score", "expected once, got 2 times"),
        ("limit=0", "limit: expected a whole number, 1 to 1000"),
        ("limit=1001", "limit: expected"),
        ("limit=%C2%B2", "limit: expected"),  # a digit of another kind
        ("cursor=", "cursor: expected"),
        ("cursor=W10", "cursor: expected"),
        ("cursor=%F0%9F%98%80", "cursor: expected"),
    ],
)
def test_what_a_list_can_not_mean_is_refused(four, query, said):
    async def scenario():
        async with serving(four) as ask:
            response, problem = await ask("GET", f"/v1/nodes?{query}")
            assert response.status == 400
            assert said in problem["detail"]

    asyncio.run(scenario())


def test_a_cursor_of_another_order_is_refused(four):
    async def scenario():
        async with serving(four) as ask:
            _, first = await ask("GET", "/v1/nodes?limit=2&sort=score")
            query = f"limit=2&cursor={first['next']}"
            response, _ = await ask("GET", f"/v1/nodes?sort=score&{query}")
            assert response.status == 200
            response, problem = await ask("GET", f"/v1/nodes?sort=-score&{query}")
            assert response.status == 400
            assert "sort=-score" in problem["detail"]

    asyncio.run(scenario())


def test_a_deleted_node_is_listed_for_who_asks_for_it(four):
    four.delete(four.fleet.find("node2"), reason="gone", by=None)

    async def scenario():
        async with serving(four) as ask:
            _, usual = await ask("GET", "/v1/nodes")
            assert [n["node"] for n in usual["nodes"]] == ["node1", "node3", "node4"]
            _, deleted = await ask("GET", "/v1/nodes?admin=tombstoned")
            (node,) = deleted["nodes"]
            assert node["drain"]["reason"] == "gone"

    asyncio.run(scenario())


def test_whoever_has_the_newest_list_is_told_that_it_is(four, clock):
    async def scenario():
        async with serving(four) as ask:
            first, _ = await ask("GET", "/v1/nodes")
            tag = first.headers["ETag"]
            clock.now += 0.1  # ages are not covered
            for held in (tag, f'"x", {tag}', "*"):
                again, body = await ask(
                    "GET", "/v1/nodes", headers={"If-None-Match": held}
                )
                assert again.status == 304, held
                assert body == b""
                assert again.headers["ETag"] == tag
            four.drain(four.fleet.find("node1"), until_unix_s=None, reason="x", by=None)
            newer, _ = await ask("GET", "/v1/nodes", headers={"If-None-Match": tag})
            assert newer.status == 200
            assert newer.headers["ETag"] != tag

    asyncio.run(scenario())


def made(scores):
    """Return a fleet of healthy nodes with these scores."""
    fleet = Fleet()
    for score in scores:
        add(fleet, score)
    return fleet


def add(fleet, score):
    n = len(fleet.nodes)
    hello = Hello((n * 7919 % 997).to_bytes(16, "big"), b"b" * 16, f"n{n}")
    row = fleet.add(Node(hello, f"n{n}", None, 0.0, 0.0), 0.0, State.HEALTHY)
    if score is not None:
        fleet.score[row] = score
        fleet.sampled_at[row] = score


def paged(fleet, query, cursor=None):
    query += "" if cursor is None else f"&cursor={cursor}"
    return listing.page(make_mocked_request("GET", f"/v1/nodes?{query}"), fleet)


scores = st.lists(st.sampled_from([None, 0.0, 0.25, 0.5, 1.0]), max_size=30)
sorts = st.sampled_from(["name", "-name", "score", "-score", "age", "-age"])


@given(before=scores, come=scores, sort=sorts, limit=st.integers(1, 7))
def test_pages_skip_and_repeat_nobody_who_stays_whoever_comes(
    before, come, sort, limit
):
    fleet = made(before)
    stayed = set(fleet.rows())
    query = f"sort={sort}&limit={limit}"
    shown, arriving = [], list(come)
    page = paged(fleet, query)
    shown += page.rows
    while page.next is not None:
        assert len(page.rows) == limit
        if arriving:
            add(fleet, arriving.pop())
        page = paged(fleet, query, page.next)
        shown += page.rows
    assert len(set(shown)) == len(shown)
    assert stayed <= set(shown)
    whole = paged(made(before), f"sort={sort}&limit=1000").rows
    assert [row for row in shown if row in stayed] == whole


@given(st.text(max_size=60))
def test_no_cursor_of_somebody_elses_making_is_a_fault_of_ours(text):
    with pytest.raises(Problem):
        paged(made([0.5]), "limit=1", quote(text))


def test_no_node_that_fell_silent_is_limited_by_anything(four):
    four.fleet.state[:4] = State.LOST
    assert paged(four.fleet, "limiting=cpu").rows == []
    order = paged(four.fleet, "sort=-score").rows
    assert order == paged(four.fleet, "sort=score").rows  # by id: nothing is read
