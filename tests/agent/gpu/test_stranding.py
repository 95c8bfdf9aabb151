import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.agent.gpu.stranding import stranding

GIB = 2**30


@pytest.mark.parametrize(
    ("free", "size", "expected"),
    [
        ([9, 19, 4], [79, 79, 79], 0.406),
        ([79] * 8, [79] * 8, 0.0),  # empty: nothing is stranded
        ([40] * 8, [79] * 8, 0.494),
        ([60], [140], 0.0),  # one GPU: its room is one task's
        ([0, 10], [79, 79], 0.0),
        ([0, 0], [79, 79], None),  # full is not stranded
        ([], [], None),
    ],
)
def test_stranding_is_the_room_that_no_single_task_can_have(free, size, expected):
    found = stranding([f * GIB for f in free], [c * GIB for c in size])
    assert found == (
        expected if expected is None else pytest.approx(expected, abs=5e-4)
    )


gpus = st.lists(
    st.integers(1, 200).flatmap(lambda c: st.tuples(st.integers(0, c), st.just(c))),
    min_size=1,
    max_size=16,
)


@given(gpus)
def test_stranding_is_a_share_whatever_the_gpus(node):
    found = stranding([f for f, _ in node], [c for _, c in node])
    assert found is None or 0 <= found <= 1


@given(gpus, st.integers(0, 15))
def test_a_whole_free_gpu_of_the_largest_kind_strands_nothing(node, place):
    most = max(c for _, c in node)
    node.insert(place, (most, most))
    assert stranding([f for f, _ in node], [c for _, c in node]) == 0


@given(gpus)
def test_stranding_does_not_depend_on_the_order(node):
    backwards = node[::-1]
    assert stranding([f for f, _ in node], [c for _, c in node]) == stranding(
        [f for f, _ in backwards], [c for _, c in backwards]
    )
