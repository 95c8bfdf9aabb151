import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer.affinity import Option, nearest, window

loads = st.floats(0, 1e6)
options = st.lists(st.builds(Option, loads, loads), min_size=1, max_size=30)


def test_b28_a_miss_goes_to_the_least_loaded_and_not_to_the_emptiest() -> None:
    # All miss alike; the third has the least to do.
    assert nearest([Option(50, 9), Option(40, 9), Option(5, 9)], task=1) == 2


def test_b28_load_comes_before_the_cache() -> None:
    # The first has everything cached and far more to do than the rest.
    assert nearest([Option(1000, 0), Option(10, 100), Option(20, 90)], task=1) == 2


def test_b29_a_load_that_is_not_known_is_the_median_and_not_idle() -> None:
    assert nearest([Option(None, 5), Option(1, 5), Option(100, 5)], task=0) == 1
    # Nor is it full: it may be taken for what it has.
    near = [Option(None, 0), Option(40, 5), Option(50, 5), Option(60, 5)]
    assert nearest(near, task=0) == 0
    assert nearest([Option(None, 7), Option(None, 6)], task=0) == 1


def test_b30_within_the_window_what_is_cached_decides() -> None:
    # Load differs, but not by much: the cache is not given up for it.
    assert nearest([Option(100, 50), Option(120, 0), Option(110, 50)], task=1) == 1


def test_b30_a_quiet_fleet_keeps_its_affinity() -> None:
    # One task's work on an idle fleet is no imbalance.
    assert nearest([Option(0, 500), Option(600, 100), Option(0, 500)], task=600) == 1


@given(options, st.floats(0, 1e6))
def test_b30_the_node_taken_is_always_near_the_least(
    nodes: list[Option], task: float
) -> None:
    known = [node.load for node in nodes if node.load is not None]
    taken = nodes[nearest(nodes, task)]
    assert taken.load is not None
    assert taken.load <= window(known, task)


@given(options, st.floats(0, 1e6), st.integers(0, 29), loads)
def test_less_to_load_never_takes_a_node_out(
    nodes: list[Option], task: float, place: int, less: float
) -> None:
    place %= len(nodes)
    if nearest(nodes, task) != place:
        return
    nodes[place] = nodes[place]._replace(missing=min(less, nodes[place].missing))
    assert nearest(nodes, task) == place


def test_no_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one node"):
        nearest([], 0)
