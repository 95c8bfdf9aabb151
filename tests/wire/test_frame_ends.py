"""Frames are delimited in what was read, and nothing else is; decoders are shared."""

import tracemalloc
from contextlib import suppress

import msgpack
import pytest

from trimtab.wire import (
    Ack,
    Cpu,
    Echo,
    Frame,
    Stream,
    WireError,
    begins_frame,
    encode,
    frame_ends,
)

FRAME = encode(Frame(90_061_002, 90_061_250, cpu=Cpu(0.5, 1.0)))
ECHO = encode(Echo(reply=False, ident=1, stamp_us=2))
SIZE = len(FRAME)


@pytest.mark.parametrize(
    ("data", "ends"),
    [
        (b"", []),
        (FRAME[:1], []),
        (FRAME, [SIZE]),
        (FRAME * 3, [SIZE, 2 * SIZE, 3 * SIZE]),
        (FRAME + ECHO, [SIZE]),
        (FRAME + ECHO + FRAME, [SIZE]),
        (ECHO + FRAME, []),
        (FRAME * 2 + FRAME[:-1], [SIZE, 2 * SIZE]),
        (FRAME + b"\x9c", [SIZE]),
        (FRAME + b"\xc1", [SIZE]),
        (FRAME + b"\x93\x04\xc1", [SIZE]),
        (FRAME + b"\x93\x04" + b"\x91" * 5000, [SIZE]),  # nested too deep
        (b"\xdc\x00\x03\x04\x01\x01", []),  # an array in another form than usual
        (b"\x90", []),
        (b"\x93\x04\x01\x01", [4]),  # delimited, whatever it holds
        (b"\x93\x04\xa1x\xff", [5]),
    ],
)
def test_whole_frames_at_the_begin_are_delimited(data: bytes, ends: list[int]) -> None:
    assert frame_ends(data) == ends
    # And whatever it met, the next is not disturbed.
    assert frame_ends(FRAME * 2) == [SIZE, 2 * SIZE]


@pytest.mark.parametrize("cut", range(1, SIZE))
def test_an_unfinished_frame_is_known_by_its_begin(cut: int) -> None:
    assert frame_ends(FRAME[:cut]) == []
    assert begins_frame(FRAME[:cut])
    assert not begins_frame(ECHO[: cut + 1])
    assert not begins_frame(b"")


def test_a_frame_larger_than_any_message_is_not_delimited() -> None:
    large = msgpack.packb([4, 1, 1, *["x" * 2000] * 40])
    assert large[:1] == b"\xdc"
    inner = msgpack.packb([4, 1, 1, ["x" * 2000] * 40])
    assert len(inner) > 65_536
    assert frame_ends(inner) == []


def test_streams_in_the_midst_of_messages_do_not_mix() -> None:
    one, other = Stream(), Stream()
    assert list(one.feed(FRAME[:10])) == []
    assert list(other.feed(ECHO[:3])) == []
    frame, ack = one.feed(FRAME[10:] + encode(Ack(7)))
    assert isinstance(frame, Frame)
    assert (frame.seq, ack) == (90_061_002, Ack(7))
    (echo,) = other.feed(ECHO[3:])
    assert echo == Echo(reply=False, ident=1, stamp_us=2)
    assert (one.partial_bytes, other.partial_bytes) == (0, 0)
    assert one.whole_bytes == SIZE + len(encode(Ack(7)))


def test_a_stream_that_failed_leaves_no_trace_in_the_next() -> None:
    for broken in (b"\x92\x06\xc1", b"\x92\x06\x01\xdd\xff\xff\xff\xff", b"\xa1"):
        with suppress(WireError):
            list(Stream().feed(broken))
        assert list(Stream().feed(encode(Ack(5)))) == [Ack(5)]


def test_an_idle_stream_holds_no_decoder() -> None:
    streams = [Stream() for _ in range(1000)]
    for stream in streams:
        list(stream.feed(FRAME))
    tracemalloc.start()
    for stream in streams:
        list(stream.feed(FRAME))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held / len(streams) < 500
