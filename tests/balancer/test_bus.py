from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer import (
    Board,
    Decision,
    Node,
    Outcome,
    Pick,
    Router,
    Snapshot,
    Task,
)
from trimtab.balancer.bus import GONE_S, Ended, Moved, Outbox, Share


def said(number: int, *moved: Moved, whole: bool = False) -> Share:
    return Share("b", number, whole, moved, ())


def in_flight(board: Board) -> int:
    return board.node("n").tasks


def test_the_board_adds_up_what_balancers_say() -> None:
    board = Board()
    for name in "ab":
        assert board.apply(Share(name, 1, False, (Moved("n", 2, 0.1),), ()), 0.0)
    assert in_flight(board) == 4
    assert board.apply(Share("a", 2, False, (Moved("n", -1, -0.05),), ()), 0.0)
    assert in_flight(board) == 3


def test_b25_a_share_heard_twice_or_late_changes_nothing() -> None:
    board = Board()
    board.apply(said(1, Moved("n", 1, 0.1)), 0.0)
    board.apply(said(2, Moved("n", 1, 0.1)), 0.0)
    assert board.apply(said(1, Moved("n", 1, 0.1)), 0.0)
    assert board.apply(said(2, Moved("n", 1, 0.1)), 0.0)
    assert in_flight(board) == 2


def test_after_a_gap_a_whole_share_is_asked_for_and_mends_it() -> None:
    board = Board()
    board.apply(said(1, Moved("n", 1, 0.1)), 0.0)
    assert not board.apply(said(3, Moved("n", 1, 0.1)), 0.0)
    assert in_flight(board) == 1
    assert board.apply(said(4, Moved("n", 7, 0.7), whole=True), 0.0)
    assert in_flight(board) == 7
    assert board.apply(said(5, Moved("n", -1, -0.1)), 0.0)
    assert in_flight(board) == 6


def test_who_joins_late_asks_for_a_whole_share() -> None:
    assert not Board().apply(said(37, Moved("n", -1, -0.1)), 0.0)


def test_b26_nothing_is_kept_in_flight_of_a_balancer_that_fell_silent() -> None:
    board = Board()
    board.apply(said(1, Moved("n", 5, 0.5)), 0.0)
    board.expire(GONE_S)
    assert in_flight(board) == 5
    board.expire(GONE_S + 0.1)
    assert in_flight(board) == 0
    assert board.node("n").pull == 0


def test_a_balancer_without_news_says_once_a_second_that_it_lives() -> None:
    outbox = Outbox("b")
    assert outbox.flush(0.0) == Share("b", 1, False, (), ())
    assert outbox.flush(0.9) is None
    assert outbox.flush(1.0) == Share("b", 2, False, (), ())


def test_an_outbox_says_the_difference_since_it_last_did() -> None:
    outbox = Outbox("b")
    outbox.move("n", 1, 0.1)
    outbox.move("n", 1, 0.1)
    outbox.move("m", 1, 0.1)
    outbox.move("m", -1, -0.1)
    outbox.ended(Ended("m", True, 1.5))
    share = outbox.flush(0.0)
    assert share == Share(
        "b", 1, False, (Moved("n", 2, 0.2),), (Ended("m", True, 1.5),)
    )
    assert outbox.flush(0.0) is None


FLEET = Snapshot.of([Node(f"{i}", f"n{i}", slots=4) for i in range(5)], at=0.0)


class Cluster:
    """Routers that tell each other all."""

    def __init__(self, size: int) -> None:
        self.routers = [Router(Random(i), name=f"b{i}") for i in range(size)]
        for router in self.routers:
            router.balancers(size, connected=True, now=0.0)
            router.update(FLEET)

    def tell(self, now: float) -> None:
        for one in self.routers:
            share = one.share(now)
            for other in self.routers if share else ():
                assert share is not None
                assert other.hear(share, now)

    def totals(self) -> list[list[int]]:
        return [[r.board.node(i).tasks for i in FLEET.ids] for r in self.routers]


def pick(router: Router, now: float) -> Pick:
    made = router.pick(Task(), now)
    assert isinstance(made, Pick)
    return made


def test_b27_balancers_that_share_spread_as_one() -> None:
    cluster = Cluster(4)
    now = 0.0
    for _ in range(5):
        for router in cluster.routers:
            now += 0.001
            pick(router, now)
            cluster.tell(now)
    (totals, *others) = cluster.totals()
    assert others == [totals] * 3
    assert sum(totals) == 20
    assert max(totals) <= 6  # 4 each would be even


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["pick", "close", "tell", "apart", "together"]),
            st.integers(0, 2),
        ),
        max_size=60,
    )
)
def test_leases_balance_over_all_balancers(history: list[tuple[str, int]]) -> None:
    cluster = Cluster(3)
    opened: list[tuple[int, str]] = []
    apart, now = False, 0.0
    for action, which in history:
        now += 0.01
        if action == "pick":
            opened.append((which, pick(cluster.routers[which], now).id))
        elif action == "close" and opened:
            owner, ident = opened.pop(which % len(opened))
            cluster.routers[owner].close(ident, Outcome.OK, now, service_ms=50)
        elif action == "tell" and not apart:
            cluster.tell(now)
        elif action == "apart" and not apart:
            apart = True
            for each in cluster.routers:
                each.balancers(3, connected=False, now=now)
        elif action == "together" and apart:
            apart = False
            for each in cluster.routers:
                each.balancers(3, connected=True, now=now)
            for each in cluster.routers:
                share = each.whole_share(now)
                for other in cluster.routers:
                    assert other.hear(share, now)
    if apart:  # each counts itself right, and the others as they last were
        for number, router in enumerate(cluster.routers):
            own = sum(one == number for one, _ in opened)
            parts = (router.board.node(i).part(f"b{number}") for i in FLEET.ids)
            assert sum(part.tasks for part in parts) == own
        return
    cluster.tell(now)
    totals = cluster.totals()
    assert sum(totals[0]) == len(opened)
    assert totals == [totals[0]] * 3


def test_a_lone_balancer_keeps_its_count_when_the_bus_is_long_gone() -> None:
    router = Cluster(1).routers[0]
    made = pick(router, 0.0)
    share = router.share(0.0)
    assert share is not None
    router.hear(share, 0.0)
    router.balancers(1, connected=False, now=0.0)
    router.update(FLEET.renewed(2, 20.0))
    assert router.board.node(made.node_id).tasks == 1
    router.close(made.id, Outcome.OK, 21.0)
    assert router.board.node(made.node_id).tasks == 0


def test_one_board_for_all_gives_the_picks_that_a_board_each_gives() -> None:
    def picks(*, shared: bool) -> list[str]:
        board = Board() if shared else None
        routers = [Router(Random(i), name=f"b{i}", board=board) for i in range(3)]
        boards = [board] if board else [router.board for router in routers]
        found = []
        for router in routers:
            router.balancers(3, connected=True, now=0.0)
            router.update(FLEET)
        for step in range(30):
            now = step / 100
            made = pick(routers[step % 3], now)
            found.append(made.node_id)
            if step % 2:
                routers[step % 3].close(made.id, Outcome.OK, now, service_ms=80)
            for router in routers:
                share = router.share(now)
                for each in boards if share else ():
                    assert share is not None
                    each.apply(share, now)
        return found

    assert picks(shared=True) == picks(shared=False)


@pytest.mark.parametrize("connected", [True, False])
def test_b27_without_a_bus_the_others_are_counted_like_oneself(
    connected: bool,
) -> None:
    router = Router(Random(1), name="b0")
    router.update(Snapshot.of([Node("0", "n0", slots=8)], at=0.0))
    router.balancers(6, connected=connected, now=0.0)
    router.route(Task(), 0.0)
    made = router.route(Task(), 0.001)
    assert isinstance(made, Decision)
    (candidate,) = made.candidates
    assert candidate.in_flight == 1
    # Half the balancers' worth, or what the others are thought to have sent too.
    assert candidate.elsewhere == pytest.approx(1.5 if connected else 2.0)
