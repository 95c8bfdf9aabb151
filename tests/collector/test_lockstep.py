"""Read together or one by one: frames give the same columns and the same refusals."""

import struct
from copy import deepcopy
from typing import NamedTuple

import msgpack
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trimtab.collector import lockstep
from trimtab.collector import waiting as waiting_module
from trimtab.collector.fleet import Fleet
from trimtab.collector.node import Node
from trimtab.collector.readings import row
from trimtab.collector.states import State
from trimtab.collector.waiting import alone
from trimtab.wire import Frame, Hello, WireError, encode, fields, frame_ends


def array(known):
    """Draw an array of these fields, as long as one may be."""
    required = sum(field.required for field in known)
    items = [
        st.integers(field.least, field.most)
        if field.required
        else st.none() | st.integers(field.least, field.most)
        for field in known
    ]
    return st.tuples(st.integers(required, len(known)), *items).map(
        lambda drawn: list(drawn[1 : 1 + drawn[0]])
    )


def field(known):
    return st.none() | st.integers(known.least, known.most)


UINT53 = st.integers(0, 2**53 - 1)
GPUS = st.sampled_from([None] * 4 + [[0], [3, 5, 1, 2, 0, [[0, 1, 500, 20], [1]]]])
# The items of a frame that is valid.
ITEMS = st.tuples(
    st.integers(3, 12),
    st.just(4),
    UINT53,
    UINT53,
    field(fields.GAPS),
    st.none() | array(fields.CPU),
    st.none() | array(fields.MEMORY),
    st.none() | st.lists(array(fields.LINK), max_size=3),
    GPUS,
    st.none() | st.lists(array(fields.HOLE), max_size=2),
    st.none() | array(fields.IO),
    st.none() | array(fields.NET),
    field(fields.CLOCK_OFFSET),
).map(lambda drawn: list(drawn[1 : 1 + drawn[0]]))
# What may stand where something else should.
STRANGE: list[object] = [
    *(None, True, False, -1, -129, 0, 1, 127, 128, 255, 256, 10_000, 10_001, 65_535),
    *(65_536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 - 1, 2**53, 2**63, -(2**31)),
    *(1.0, 0.5, float("nan"), float("inf"), "1", "", b"1", b"", {}, {1: 2}),
    *([], [None], [1], [1, 2], [[]], [0] * 12, [0] * 16, [None] * 12, [[0]], [[1, 1]]),
]


class Place(NamedTuple):
    """Where something is in nested lists."""

    inside: list[object]
    at: int


def places(item):
    """Yield every place inside a list, at any depth."""
    for index, value in enumerate(item):
        yield Place(item, index)
        if isinstance(value, list):
            yield from places(value)


def packed(item, wide):
    """Return MessagePack; wide: every integer in its longest form."""
    if wide and type(item) is int and item >= 0:
        return b"\xcf" + struct.pack(">Q", item)
    if wide and type(item) is int:
        return b"\xd3" + struct.pack(">q", item)
    if isinstance(item, list) and len(item) < 16:
        return bytes([0x90 + len(item)]) + b"".join(packed(i, wide) for i in item)
    return msgpack.packb(item)


@st.composite
def frames_as_bytes(draw):
    """Draw a frame's bytes: valid, or with something strange in it."""
    items = deepcopy(draw(ITEMS))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
        place = draw(st.sampled_from(list(places(items))))
        match draw(st.sampled_from(["put", "put", "add", "cut"])):
            case "put":
                place.inside[place.at] = deepcopy(draw(st.sampled_from(STRANGE)))
            case "add":
                place.inside.append(deepcopy(draw(st.sampled_from(STRANGE))))
            case _:
                del place.inside[place.at :]
        assume(items)
    wide = draw(st.integers(0, 9)) == 0
    # How it begins stays usual: what begins otherwise is not delimited.
    assume(2 < len(items) < 16 and items[0] == 4)
    begin = bytes([0x90 + len(items), 4])
    data = begin + b"".join(packed(item, wide) for item in items[1:])
    assume(frame_ends(data) == [len(data)])
    return data


@settings(max_examples=50, deadline=None)
@given(st.lists(frames_as_bytes(), min_size=1, max_size=8))
def test_read_together_or_alone_a_frame_says_the_same(batch):
    columns = lockstep.read(b"".join(batch), np.cumsum([len(data) for data in batch]))
    for index, data in enumerate(batch):
        if not columns.usual[index]:
            continue
        frame = alone(data)  # no error, or it was not usual
        assert frame.gpus is None
        assert columns.seq[index] == frame.seq
        assert columns.boot_ms[index] == frame.boot_ms
        assert columns.gaps[index] == frame.gaps
        assert np.array_equal(columns.values[index], row(frame), equal_nan=True)


@settings(max_examples=50, deadline=None)
@given(st.lists(ITEMS, min_size=1, max_size=8))
def test_what_an_agent_sends_without_gpus_is_read_together(frames):
    batch = [msgpack.packb(items) for items in frames]
    columns = lockstep.read(b"".join(batch), np.cumsum([len(data) for data in batch]))
    gpus = [len(items) > 7 and items[7] is not None for items in frames]
    assert columns.usual.tolist() == [not section for section in gpus]


@pytest.mark.parametrize(
    "data",
    [
        # Lists without the items that they need, the last one of the batch.
        b"\x98\x04\x01\x01\xc0\xc0\xc0\xc0\x90",
        b"\x97\x04\x01\x01\xc0\xc0\xc0\x9f" + b"\x90" * 15,
        b"\x99\x04\x01\x01\xc0\xc0\xc0\xc0\xc0\x9f" + b"\x91\x01" * 15,
        b"\x97\x04\x01\x01\xc0\xc0\xc0\x91\x91\xc0",  # a link to no peer
        b"\x99\x04\x01\x01\xc0\xc0\xc0\xc0\xc0\x91\x92\xc0\x01",  # a hole of no signal
        b"\x9c\x04\x01\x01\xc0\x9f" + b"\xcb\x7f\xf8" * 6 + b"\x00" * 28,
    ],
)
def test_a_frame_that_leads_astray_is_left_alone_and_touches_no_other(data):
    fine = encode(Frame(7, 8))
    columns = lockstep.read(fine + data, np.array([len(fine), len(fine + data)]))
    assert columns.usual.tolist() == [True, False]
    assert columns.seq[0] == 7


@pytest.mark.parametrize("value", [True, 1.0, float("nan"), "1", b"1", 10_001, -1])
@pytest.mark.parametrize("section", [4, 5, 6, 9, 10])
def test_a_wrong_reading_is_never_taken_for_a_number(section, value):
    fine = msgpack.unpackb(encode(Frame(1, 1)))
    items = [*fine, *[None] * (12 - len(fine))]
    items[section] = [[0, 1, 1, 1, 1, 1, value]] if section == 6 else [value]
    data = msgpack.packb(items)
    assert not lockstep.read(data, np.array([len(data)])).usual[0]
    with pytest.raises(WireError):
        alone(data)


def test_frames_past_one_part_are_read_like_those_before(monkeypatch):
    monkeypatch.setattr(lockstep, "TOGETHER", 3)
    batch = [encode(Frame(n, 2 * n, gaps=n % 7)) for n in range(1, 11)]
    columns = lockstep.read(b"".join(batch), np.cumsum([len(data) for data in batch]))
    assert columns.usual.all()
    assert columns.seq.tolist() == list(range(1, 11))
    assert columns.boot_ms.tolist() == list(range(2, 22, 2))
    assert columns.gaps.tolist() == [n % 7 for n in range(1, 11)]


NOW, UNIX = 1000.0, 1_800_000_000.0


class Sender:
    """A conversation that only listens."""

    def __init__(self, live_from_ms):
        self.live_from_ms = live_from_ms
        self.refused = None

    def refuse(self, error):
        assert self.refused is None
        self.refused = str(error)


def outcome(sent, few):
    """Return all that comes of frames, some of them wrong, sent by three nodes."""
    fleet, senders = Fleet(), [Sender(0), Sender(2**40), Sender(2**52)]
    for n, _ in enumerate(senders):
        node = Node(Hello(bytes([n]) * 16, b"b" * 16, f"n{n}"), f"n{n}", None, 0, 0)
        fleet.greet(fleet.add(node, NOW, State.JOINING), 1.0, None)
        fleet.begin(n, NOW, 10_000, 1.0, anew=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting_module, "FEW", few)
        for n, data in sent:
            fleet.waiting.add(n, senders[n], NOW + n, data, [len(data)])
        fleet.score_waiting(NOW + 5, UNIX)
    columns = ("readings", "headroom", "score", "confidence", "limiting", "sampled_at")
    rest = ("arrived_at", "heard", "frames", "seq", "gpu_free_mib")
    return (
        {name: getattr(fleet, name)[:3].tolist() for name in (*columns, *rest)},
        {key: repr(sums) for key, sums in sorted(fleet.rollups.drain().items())},
        [sender.refused for sender in senders],
        [(node.newest, node.gaps) for node in fleet.nodes],
        fleet.repeated,
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), frames_as_bytes()), max_size=10))
def test_a_fleet_is_the_same_however_its_frames_are_read(sent):
    assert repr(outcome(sent, few=0)) == repr(outcome(sent, few=1000))


def test_a_wrong_frame_ends_its_conversation_there_and_no_other():
    good = [encode(Frame(n, 10_000 + n)) for n in range(1, 5)]
    bad = b"\x93\x04\x07\xa1x"
    sent = [(0, good[0]), (2, good[0]), (0, bad), (0, good[1]), (2, good[1])]
    for few in (0, 1000):
        columns, _, refused, _, _ = outcome(sent, few)
        assert columns["seq"] == [1, -1, 2]
        assert refused[0].startswith("frame.boot_ms: expected an integer")
        assert refused[1:] == [None, None]
