"""The ring: bounded, oldest first, nothing lost in silence (A07, A08)."""

from hypothesis import given
from hypothesis import strategies as st

from trimtab.agent.ring import OVERHEAD_BYTES, Ring

LIMIT = 10 * (OVERHEAD_BYTES + 100)


def filled(n):
    ring = Ring(LIMIT)
    for seq in range(1, n + 1):
        ring.push(seq, b"x" * 100)
    return ring


def test_the_oldest_go_first_and_are_counted():
    ring = filled(25)
    assert len(ring) == 10
    assert ring.dropped == 15
    assert [held.seq for held in ring.after(-1, 99)] == list(range(16, 26))
    assert ring.bytes <= LIMIT


def test_one_frame_larger_than_the_ring_is_still_kept():
    ring = Ring(1)
    ring.push(1, b"x" * 100)
    ring.push(2, b"x" * 100)
    assert [held.seq for held in ring.after(-1, 9)] == [2]
    assert ring.dropped == 1


def test_acknowledged_frames_are_forgotten_and_are_no_gap():
    ring = filled(10)
    ring.acknowledge(7)
    assert [held.seq for held in ring.after(-1, 99)] == [8, 9, 10]
    ring.acknowledge(3)  # an old ack changes nothing
    assert len(ring) == 3
    ring.acknowledge(99)
    assert (len(ring), ring.bytes, ring.dropped) == (0, 0, 0)


@given(
    st.lists(st.one_of(st.integers(0, 300), st.just("ack")), max_size=200),
    st.integers(0, 200),
    st.integers(1, 50),
)
def test_bytes_never_pass_the_bound_and_order_is_kept(steps, after, most):
    ring, seq, acknowledged, forgotten = Ring(LIMIT), 0, 0, 0
    for step in steps:
        if step == "ack":
            before = len(ring)
            acknowledged = seq - seq % 3
            ring.acknowledge(acknowledged)
            forgotten += before - len(ring)
        else:
            seq += 1
            ring.push(seq, b"x" * step)
        assert ring.bytes <= max(LIMIT, OVERHEAD_BYTES + 300)
    held = [h.seq for h in ring.after(-1, 999)]
    assert held == sorted(held)
    assert len(held) + ring.dropped + forgotten == seq
    assert [h.seq for h in ring.after(after, most)] == [s for s in held if s > after][
        :most
    ]
