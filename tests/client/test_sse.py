"""Bytes to messages, wherever the pieces end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.client.sse import LINE_BYTES, Message, NotEvents, messages

STREAM = (
    "retry: 2000\n\n"
    ": still here\n\n"
    'id: 7\nevent: state\ndata: {"n":1}\n\n'
    "data:ü\r\ndata: more\r\n\r\n"
    "event: lost\n\n"
    "data: never ended\n"
).encode()
SAID = [Message("state", '{"n":1}'), Message("message", "ü\nmore")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_messages_are_the_same_in_whatever_pieces_they_come(cuts: list[int]) -> None:
    ends = [*sorted(cuts), len(STREAM)]
    begins = [0, *ends]
    pieces = [STREAM[a:b] for a, b in zip(begins, ends, strict=False)]
    assert list(messages(pieces)) == SAID


@pytest.mark.parametrize("piece", [b"data: \xff\n", b"x" * (LINE_BYTES + 1)])
def test_what_is_no_event_stream_is_said_to_be_none(piece: bytes) -> None:
    with pytest.raises(NotEvents):
        list(messages([piece]))
