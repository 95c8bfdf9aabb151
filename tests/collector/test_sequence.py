"""What was counted before is not counted again, in whatever order it comes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trimtab.collector.sequence import fresh

nodes = st.lists(
    st.tuples(st.integers(-1, 8), st.lists(st.integers(0, 9), min_size=1, max_size=6)),
    min_size=1,
    max_size=5,
)


@given(nodes)
def test_a_frame_is_new_if_no_later_one_of_its_node_came_before_it(nodes):
    begins = np.cumsum([0, *(len(seqs) for _, seqs in nodes[:-1])])
    seq = np.array([number for _, seqs in nodes for number in seqs])
    found = fresh(begins, seq, np.array([known for known, _ in nodes]))
    expected = []
    for highest, seqs in nodes:
        for number in seqs:
            expected.append(number > highest)
            highest = max(highest, number)
    assert found.tolist() == expected
