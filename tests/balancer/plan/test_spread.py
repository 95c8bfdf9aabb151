"""Replicas span risk groups."""

import pytest

from trimtab.balancer.plan.spread import common, spans


@pytest.mark.parametrize(
    ("replicas", "everywhere", "expected"),
    [
        ([], "", True),
        (["r"], "", True),  # one has nothing to span
        (["r", "r"], "", False),
        (["r", "s"], "", True),
        (["rp", "rq"], "", False),  # another feed, the same rack
        (["rp", "rq", "s"], "", True),
        (["", ""], "", True),  # no known risk
        (["r", "r"], "r", True),  # the whole fleet is in that rack
        (["rp", "rp"], "r", False),
    ],
)
def test_replicas_span_if_they_share_only_what_all_nodes_share(
    replicas: list[str], everywhere: str, expected: bool
) -> None:
    groups = [frozenset(each) for each in replicas]
    assert spans(groups, frozenset(everywhere)) == expected


def test_nothing_has_nothing_in_common() -> None:
    assert common([]) == frozenset()
