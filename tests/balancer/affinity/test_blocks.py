import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer.affinity import Blocks


def test_only_what_is_found_without_a_gap_counts() -> None:
    blocks = Blocks(10)
    blocks.touch(["a", "b", "d"])
    assert blocks.leading(["a", "b", "c", "d"]) == 2
    assert blocks.leading(["x", "a"]) == 0
    assert blocks.leading([]) == 0


def test_what_was_used_longest_ago_goes_first_and_a_chain_loses_its_end() -> None:
    blocks = Blocks(4)
    blocks.touch(["a", "b", "c"])
    assert blocks.touch(["x", "y"]) == 1
    assert blocks.leading(["a", "b", "c"]) == 2
    blocks.touch(["a"])
    assert blocks.touch(["z"]) == 1
    assert blocks.leading(["a", "b"]) == 1


@given(st.integers(1, 20), st.lists(st.lists(st.integers(0, 50), max_size=40)))
def test_b31_memory_is_bounded_whatever_is_asked(
    limit: int, requests: list[list[int]]
) -> None:
    blocks = Blocks(limit)
    for keys in requests:
        blocks.touch(keys)
        assert len(blocks) <= limit
        # The head of what was just used is there.
        assert blocks.leading(keys) >= min(len(keys), limit) or len(
            set(keys[:limit])
        ) < len(keys[:limit])


def test_a_node_that_restarts_holds_nothing() -> None:
    blocks = Blocks(4)
    blocks.touch(["a"])
    blocks.forget()
    assert blocks.leading(["a"]) == len(blocks) == 0


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="got 0"):
        Blocks(0)
