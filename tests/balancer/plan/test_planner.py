"""The plan: what it moves, what it refuses, and the bounds it never breaks."""

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer.plan import (
    Fleet,
    Holder,
    Item,
    Plan,
    Settings,
    make,
    parse_fleet,
    shown,
)
from trimtab.balancer.plan.spread import common, spans

SETTINGS = Settings()


def item(name: str, rate: float | None, load_s: float = 12.0) -> Item:
    """An item of 1 s of work a task, four at once; 2.8 tasks/s a replica."""
    rates = None if rate is None else (rate,) * 30
    return Item(name, load_s, 1.0, 4, rates)


def holder(name: str, holds: str = "", groups: str = "", places: int = 2) -> Holder:
    return Holder(name, places, frozenset(holds), groups=frozenset(groups))


def fleet(holders: Iterable[Holder], items: Iterable[Item]) -> Fleet:
    return Fleet(1000.0, 10.0, tuple(holders), tuple(items))


def moved(plan: Plan) -> list[tuple[str, str, str | None]]:
    return [(move.node, move.load, move.evict) for move in plan.moves]


def ruled(plan: Plan) -> list[tuple[str, str]]:
    return [(one.load, one.rule) for one in plan.rejected]


def test_a_fleet_with_what_it_needs_is_left_alone() -> None:
    plan = make(fleet([holder("n", "a"), holder("m", "a")], [item("a", 5.0)]))
    assert plan.moves == ()
    assert plan.rejected == ()
    assert plan.needs[0]._asdict() == {
        "item": "a",
        "replicas": 2,
        "need": 2,
        "rate": 5.0,
    }


def test_an_item_that_is_short_gets_a_free_place_on_the_emptiest_node() -> None:
    holders = [holder("n", "a"), holder("m", "b"), holder("o")]
    plan = make(fleet(holders, [item("a", 8.0), item("b", 1.0)]))
    assert moved(plan) == [("o", "a", None)]
    move = plan.moves[0]
    assert move.because == "8 tasks/s within 72 s need 3 replicas, 1 are there"
    assert move.costs_s == 12.0
    assert move.saves_s > 1.5 * move.costs_s


def test_without_a_free_place_the_item_missed_least_goes() -> None:
    holders = [
        holder("n", "bc"),
        holder("m", "bd"),
        holder("o", "cd"),
        holder("p", "ab"),
    ]
    items = [item("a", 12.0), item("b", 3.0), item("c", 0.1), item("d", 4.0)]
    plan = make(fleet(holders, items))
    assert [(load, evict) for _, load, evict in moved(plan)] == [("a", "c")]


def test_an_item_that_nobody_holds_is_loaded_first() -> None:
    holders = [holder("n", "a"), holder("m", "a")]
    plan = make(fleet(holders, [item("a", 12.0), item("z", 3.0)]))
    assert moved(plan)[0][1] in {"a", "z"}
    alone = make(fleet([holder("n", "a")], [item("a", 1.0), item("z", 1.0)]))
    assert moved(alone) == [("n", "z", None)]


def test_the_last_replica_stays_however_little_it_is_asked_for() -> None:
    holders = [holder("n", "a", places=1), holder("m", "b", places=1)]
    plan = make(fleet(holders, [item("a", 50.0), item("b", 0.0)]))
    assert plan.moves == ()
    assert ruled(plan) == [("a", "last replica")]


def test_a_replica_that_is_still_loading_does_not_let_the_last_one_go() -> None:
    coming = Holder("o", 2, frozenset("c"), loading=frozenset("b"))
    holders = [holder("n", "a", places=1), holder("m", "b", places=1), coming]
    settings = Settings(moving_share=1.0)
    plan = make(fleet(holders, [item("a", 50.0), item("b", 0.0)]), settings)
    assert plan.moves == ()
    assert ruled(plan) == [("a", "last replica")]


def test_a_replica_on_a_node_that_drains_counts_for_nothing() -> None:
    draining = holder("o", "b")._replace(usable=False)
    holders = [holder("n", "a", places=1), holder("m", "b", places=1), draining]
    plan = make(fleet(holders, [item("a", 50.0), item("b", 0.0)]))
    assert plan.moves == ()
    assert all(node != "o" for node, _, _ in moved(plan))


def test_an_item_of_unknown_demand_is_neither_loaded_nor_evicted() -> None:
    holders = [holder("n", "b", places=1), holder("m", "b", places=1), holder("o", "a")]
    items = [item("a", 50.0), item("b", None), item("c", None)]
    plan = make(fleet(holders, items))
    assert plan.moves == ()
    assert ("c", "demand") in ruled(plan)
    assert plan.needs[1].need is None


def test_a_second_replica_goes_where_another_risk_is() -> None:
    holders = [holder("n", "a", "r"), holder("m", "", "r"), holder("o", "bc", "s")]
    items = [item("a", 4.0), item("b", 0.1), item("c", 0.1)]
    holders += [holder("p", "bc", "s")]
    assert moved(make(fleet(holders, items))) in ([("o", "a", "b")], [("o", "a", "c")])


def test_a_replica_that_would_share_its_risk_is_refused_and_the_risk_named() -> None:
    holders = [holder("n", "a", "r"), holder("m", "", "r")]
    holders += [Holder("o", 0, groups=frozenset("s"))]
    plan = make(fleet(holders, [item("a", 9.0)]))
    assert ruled(plan) == [("a", "spread")]
    assert "shares r with its replicas" in plan.rejected[0].because


def test_what_goes_does_not_leave_its_item_with_one_risk() -> None:
    # Without o, all that is left of b is in one rack; on m or n, all of a would be.
    holders = [
        holder("m", "b", "r", places=1),
        holder("n", "b", "r", places=1),
        holder("o", "b", "s", places=1),
        holder("p", "a", "r", places=1),
    ]
    plan = make(fleet(holders, [item("a", 9.0), item("b", 0.1)]))
    assert ruled(plan) == [("a", "last replica")]
    holders[0] = holder("m", "b", "t", places=1)
    plan = make(fleet(holders, [item("a", 9.0), item("b", 0.1)]))
    assert moved(plan) == [("m", "a", "b")]


def test_a_second_move_reckons_with_the_first() -> None:
    holders = [holder(f"n{n}", name, places=1) for n, name in enumerate("abbccc")]
    items = [item("a", 9.0), item("b", 0.1), item("c", 0.2)]
    plan = make(fleet(holders, items), Settings(moving_share=1.0))
    # Of three, one of c is missed least; then one of b; then b has one left.
    assert [evict for _, _, evict in moved(plan)] == ["c", "b", "c"]


def test_a_second_move_does_not_take_what_the_first_left_as_the_last() -> None:
    holders = [holder(f"n{n}", name, places=1) for n, name in enumerate("abb")]
    items = [item("a", 9.0), item("b", 0.1)]
    plan = make(fleet(holders, items), Settings(moving_share=1.0))
    assert [evict for _, _, evict in moved(plan)] == ["b"]
    assert ruled(plan) == [("a", "last replica")]


def test_the_margin_is_between_what_is_saved_and_what_it_costs() -> None:
    two = fleet([holder("n", "a"), holder("m")], [item("a", 4.0)])
    move = make(two).moves[0]
    share = move.saves_s / move.costs_s
    assert make(two, Settings(margin=share * 0.99)).moves == (move,)
    assert make(two, Settings(margin=share * 1.01)).moves == ()


def test_a_fleet_in_one_room_is_not_kept_from_having_two_replicas() -> None:
    holders = [holder("n", "a", "r"), holder("m", "", "r")]
    assert moved(make(fleet(holders, [item("a", 4.0)]))) == [("m", "a", None)]


def test_a_move_that_does_not_pay_is_refused_with_both_sums() -> None:
    # 2.9 tasks/s want a second replica, but it would serve the last 20 s only.
    plan = make(fleet([holder("n", "a"), holder("m")], [item("a", 2.9, load_s=280.0)]))
    assert plan.moves == ()
    refused = plan.rejected[0]
    assert refused.rule == "margin"
    assert refused.saves_s is not None
    assert refused.costs_s is not None
    assert refused.saves_s <= 1.5 * refused.costs_s
    assert f"{refused.saves_s:.1f} s" in refused.because


def test_one_node_of_a_small_fleet_may_load_at_a_time() -> None:
    holders = [holder("n", "a"), holder("m"), holder("o")]
    plan = make(fleet(holders, [item("a", 30.0)]))
    assert len(plan.moves) == 1
    assert ruled(plan) == [("a", "moving")]
    loading = Holder("p", 2, loading=frozenset("b"))
    busy = make(fleet([*holders, loading], [item("a", 30.0)]))
    assert busy.moves == ()
    assert ruled(busy) == [("a", "moving")]


def test_a_burst_to_come_is_loaded_for_when_its_time_is_near() -> None:
    def ahead(seconds: int) -> Plan:
        rates = (1.0,) * (seconds // 10) + (10.0,) * 9
        rates += (1.0,) * (30 - len(rates))
        burst = Item("a", 12.0, 1.0, 4, rates)
        holders = [holder("n", "a"), holder("m"), holder("o"), holder("p")]
        return make(fleet(holders, [burst]))

    # Loaded by the next plan but one it would be in time; by this one of three
    # loads it must begin now, since one node moves at a time.
    assert moved(ahead(60)) != []
    assert moved(ahead(200)) == []
    assert len(moved(ahead(150))) == 1


def test_a_node_with_no_room_for_anything_takes_nothing() -> None:
    plan = make(fleet([holder("n", places=0)], [item("a", 9.0)]))
    assert plan.moves == ()
    assert ruled(plan) == [("a", "node")]


names = st.sampled_from("abcdef")
holdings = st.frozensets(names, max_size=3)


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    holders = []
    for index in range(draw(st.integers(0, 14))):
        holds = draw(holdings)
        loading = draw(st.frozensets(names, max_size=1)) - holds
        spare = draw(st.integers(0, 2))
        holders.append(
            Holder(
                f"n{index}",
                len(holds | loading) + spare,
                holds,
                loading if draw(st.integers(0, 5)) == 0 else frozenset(),
                draw(st.frozensets(st.sampled_from("rst"), max_size=2)),
                draw(st.integers(0, 6)) > 0,
            )
        )
    rate = st.lists(
        st.floats(0.0, 40.0, allow_subnormal=False), min_size=1, max_size=40
    )
    items = [
        Item(
            name,
            draw(st.floats(0.0, 90.0)),
            draw(st.floats(0.05, 5.0)),
            draw(st.integers(1, 8)),
            draw(st.none() | rate.map(tuple)),
        )
        for name in draw(st.sets(names).map(sorted))
    ]
    return Fleet(0.0, 10.0, tuple(holders), tuple(items))


settings_drawn = st.tuples(
    st.sampled_from([0.1, 0.3, 1.0]), st.sampled_from([0.5, 1.5, 4.0])
).map(lambda drawn: Settings(moving_share=drawn[0], margin=drawn[1]))


@given(fleets(), settings_drawn)
def test_no_plan_breaks_a_bound(before: Fleet, settings: Settings) -> None:
    plan = make(before, settings)
    usable = {h.name: h for h in before.holders if h.usable}
    items = {i.name: i for i in before.items}
    nodes = [move.node for move in plan.moves]
    # One load a node, on usable nodes that load nothing else, and few at once.
    assert len(set(nodes)) == len(nodes)
    assert all(node in usable and not usable[node].loading for node in nodes)
    loading = sum(bool(h.loading) for h in usable.values())
    if nodes:
        most = max(1, settings.moving_share * len(usable))
        assert len(nodes) + loading <= most
    holds = {name: set(h.holds) for name, h in usable.items()}
    coming = {name: set(h.holds | h.loading) for name, h in usable.items()}
    for move in plan.moves:
        # A move is of something known, pays, and has room.
        assert items[move.load].rates is not None
        assert move.saves_s > settings.margin * move.costs_s
        assert move.load not in coming[move.node]
        if move.evict is not None:
            assert items[move.evict].rates is not None
            holds[move.node].remove(move.evict)
            coming[move.node].remove(move.evict)
        coming[move.node].add(move.load)
        assert len(coming[move.node]) <= usable[move.node].places
    everywhere = common(h.groups for h in usable.values())
    for name in "abcdef":
        served = [n for n, h in usable.items() if name in h.holds]
        left = [n for n in usable if name in holds[n]]
        assert bool(left) == bool(served)  # never the last replica

        was = [h.groups for h in usable.values() if name in h.holds | h.loading]
        now = [usable[n].groups for n in usable if name in coming[n]]
        if any(move.load == name for move in plan.moves):
            assert spans(now, everywhere)
        if spans(was, everywhere):
            assert spans(now, everywhere)


@given(fleets())
def test_a_plan_is_the_same_in_any_order_of_nodes_and_items(before: Fleet) -> None:
    turned = before._replace(holders=before.holders[::-1], items=before.items[::-1])
    assert make(turned) == make(before)


@given(fleets())
def test_who_is_short_gets_a_move_or_a_reason(before: Fleet) -> None:
    plan = make(before)
    told = {move.load for move in plan.moves} | {one.load for one in plan.rejected}
    for one in plan.needs:
        if one.need is None or one.need > one.replicas:
            assert one.item in told


def as_document(before: Fleet) -> dict[str, object]:
    return {
        "at_s": before.now,
        "step_s": before.step_s,
        "nodes": [
            {
                "node": h.name,
                "places": h.places,
                "holds": sorted(h.holds),
                "loading": sorted(h.loading),
                "groups": sorted(h.groups),
                "usable": h.usable,
            }
            for h in before.holders
        ],
        "items": [
            {
                "item": i.name,
                "load_s": i.load_s,
                "service_s": i.service_s,
                "slots": i.slots,
                "rates": None if i.rates is None else list(i.rates),
            }
            for i in before.items
        ],
    }


@given(fleets())
def test_json_in_and_json_out_say_the_same(before: Fleet) -> None:
    document = json.loads(json.dumps(as_document(before)))
    read = parse_fleet(document)
    assert read == before
    text = json.dumps(shown(make(read)), allow_nan=False)
    assert json.loads(text) == json.loads(json.dumps(shown(make(before))))


def test_a_plan_for_review_says_that_nothing_is_applied() -> None:
    plan = make(fleet([holder("n", "a"), holder("m")], [item("a", 8.0)]))
    document = shown(plan)
    assert document["applied"] is False
    assert document["version"] == 1
    assert document["moves"] == [
        {
            "node": "m",
            "load": "a",
            "evict": None,
            "because": "8 tasks/s within 72 s need 3 replicas, 1 are there",
            "saves_s": pytest.approx(plan.moves[0].saves_s),
            "costs_s": 12.0,
        }
    ]
