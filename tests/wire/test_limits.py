"""A peer cannot make us hold more than the limits say."""

import tracemalloc

import msgpack
import pytest

from trimtab.wire import Stream, WireError

MESSAGE_BYTES = 65_536


def outcome(data: bytes, step: int = 1000) -> tuple[str, int, int]:
    """Return what came of the bytes, how many were taken, the peak memory."""
    tracemalloc.start()
    taken = 0
    try:
        stream = Stream()
        for start in range(0, len(data), step):
            piece = data[start : start + step]
            taken += len(piece)
            for _ in stream.feed(piece):
                pass
        end = "waiting" if stream.partial_bytes else "whole"
    except WireError as exc:
        end = type(exc).__name__
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return end, taken, peak


@pytest.mark.parametrize(
    "header",
    [
        pytest.param("dd ffffffff", id="array of 4 Gi items"),
        pytest.param("dd 00000141", id="array of 321"),
        pytest.param("dc 0141", id="array of 321, short form"),
        pytest.param("df ffffffff", id="map of 4 Gi pairs"),
        pytest.param("df 00000041", id="map of 65"),
        pytest.param("de 0041", id="map of 65, short form"),
        pytest.param("c9 ffffffff 04", id="ext of 4 GiB"),
        pytest.param("d4 01 00", id="the smallest ext"),
    ],
)
@pytest.mark.parametrize("before", ["", "99 04", "9d 01 01"])
def test_a_large_claim_is_refused_at_its_header(header: str, before: str) -> None:
    end, _, peak = outcome(bytes.fromhex(before + header))
    assert end == "TooLarge"
    assert peak < 150_000


@pytest.mark.parametrize("header", ["db ffffffff", "c6 ffffffff", "c5 ffff"])
def test_of_a_long_string_only_what_came_is_held(header: str) -> None:
    claim = bytes.fromhex("99 04" + header)
    end, _, peak = outcome(claim)
    assert end == "waiting"
    assert peak < 150_000
    end, taken, peak = outcome(claim + bytes(10 * MESSAGE_BYTES))
    assert end == "TooLarge"
    assert taken <= MESSAGE_BYTES + 1000
    assert peak < 400_000


@pytest.mark.parametrize(
    ("packed", "longest"),
    [("a" * 2048, True), ("a" * 2049, False), (bytes(64), True), (bytes(65), False)],
)
def test_a_string_is_refused_once_past_its_limit(packed: object, longest: bool) -> None:
    # Kind 127 is unknown, so only the limits speak.
    end, _, _ = outcome(msgpack.packb([127, packed]))
    assert end == ("whole" if longest else "TooLarge")


@pytest.mark.parametrize(
    ("level", "most"),
    [
        (b"\x91", 150_000),
        (b"\x81\x01", 150_000),
        # Room for the items of an open array: 8 bytes each, 1024 levels deep.
        (b"\xdc\x01\x40", 1024 * 320 * 8 + 300_000),
    ],
)
def test_nesting_ends_at_the_limit(level: bytes, most: int) -> None:
    end, taken, peak = outcome(level * 100_000)
    assert end == "TooLarge"
    assert taken < 5000
    assert peak < most


@pytest.mark.parametrize("item", [b"\x80", b"\x90", b"\x00", b"\xc0", b"\xa1a"])
def test_many_small_items_take_bounded_memory(item: bytes) -> None:
    row = b"\xdc\x01\x40" + item * 320
    end, taken, peak = outcome(b"\x92\x7f\xdc\x01\x40" + row * 320)
    assert end == "TooLarge"
    assert taken <= MESSAGE_BYTES + 1000
    assert peak < 6_000_000


@pytest.mark.parametrize("step", [1, 7, 4096, 16_384, 65_536, 1_000_000])
def test_a_message_that_never_ends_is_refused_at_the_limit(step: int) -> None:
    row = b"\xdc\x01\x40" + b"\x07" * 320
    data = b"\x92\x7f\xdc\x01\x40" + row * 319
    end, taken, _ = outcome(data, step)
    assert end == "TooLarge"
    assert taken <= MESSAGE_BYTES + step


def of_size(size: int) -> bytes:
    """Return a message of an unknown kind of exactly that many bytes."""
    rest = size - len(msgpack.packb([127, *["x" * 2000] * 32, ""])) - 2
    data: bytes = msgpack.packb([127, *["x" * 2000] * 32, "x" * rest])
    assert len(data) == size
    return data


@pytest.mark.parametrize("step", [1, 1000, 16_384, 60_000, 100_000])
@pytest.mark.parametrize(
    ("size", "end"), [(MESSAGE_BYTES, "whole"), (MESSAGE_BYTES + 1, "TooLarge")]
)
def test_the_limit_of_a_message_does_not_depend_on_the_cut(
    step: int, size: int, end: str
) -> None:
    assert outcome(of_size(size), step)[0] == end
    assert outcome(b"\x92\x06\x01" + of_size(size), step)[0] == end


def test_memory_does_not_grow_with_a_long_conversation() -> None:
    once = outcome(b"\x92\x06\x01" * 1000)[2]
    long = outcome(b"\x92\x06\x01" * 50_000)[2]
    assert long < once + 50_000
