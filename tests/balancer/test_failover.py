import pytest

from trimtab.balancer.failover import alternatives


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (["", "", ""], [1, 2]),
        (["r", "r", "", "s"], [2, 3]),  # dearer, but not in the same rack
        (["r", "s", "s", "t"], [1, 3]),  # nor in that of the second
        (["rp", "rp", "r"], [2, 1]),  # all share: the fewest first
        (["r"], []),
    ],
)
def test_the_next_nodes_share_the_fewest_risk_groups(
    groups: list[str], expected: list[int]
) -> None:
    order = range(len(groups))
    assert alternatives(order, [tuple(each) for each in groups]) == expected
