"""Every message survives the wire, to within half a step of its scale."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.wire import (
    PROTOCOL,
    SIGNALS,
    Ack,
    Bye,
    Cpu,
    Echo,
    Farewell,
    Frame,
    Hello,
    Hole,
    Inventory,
    Link,
    Memory,
    Message,
    Method,
    Reason,
    Refused,
    State,
    Stream,
    Welcome,
    encode,
)

UINT16 = 2**16 - 1
UINT32 = 2**32 - 1
UINT53 = 2**53 - 1

Draw = st.SearchStrategy


def uint(limit: int) -> Draw[int]:
    return st.integers(0, limit)


def reading(limit: float) -> Draw[float | None]:
    return st.none() | st.floats(0, limit)


def texts(size: int) -> Draw[tuple[str, ...]]:
    return st.lists(TEXT, max_size=size).map(tuple)


TEXT = st.text(
    st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="\u2028\u2029"),
    max_size=255,
)
NAME = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", fullmatch=True)
INTERVAL_MS = st.integers(10, 3_600_000)
SHARE = reading(1)
MICROSECONDS = st.none() | uint(UINT32)

INVENTORY = st.builds(
    Inventory,
    cpus=st.none() | uint(UINT16),
    memory_mib=st.none() | uint(UINT32),
    targets=texts(4),
    address=st.none() | TEXT,
    site=st.none() | TEXT,
    zone=st.none() | TEXT,
    operator=st.none() | TEXT,
    groups=texts(4),
    labels=st.dictionaries(TEXT, TEXT, max_size=4),
    holds=texts(4),
    resources=st.dictionaries(TEXT, uint(UINT32), max_size=4),
    price=reading(UINT32 / 1000),
    slots=st.none() | uint(UINT16),
    speed=reading(UINT32 / 1000),
)
CPU = st.builds(Cpu, stall=SHARE, run_queue=reading(655.35), steal=SHARE, busy=SHARE)
MEMORY = st.builds(
    Memory,
    stall_some=SHARE,
    stall_full=SHARE,
    available=SHARE,
    swap_in_bytes_s=reading(UINT32 * 1024),
    swap_out_bytes_s=reading(UINT32 * 1024),
    major_faults_s=reading(UINT32 / 10),
)
LINK = st.builds(
    Link,
    peer=uint(64),
    method=st.none() | st.sampled_from(Method),
    rtt_us=MICROSECONDS,
    rtt_min_us=MICROSECONDS,
    rtt_p95_us=MICROSECONDS,
    jitter_us=MICROSECONDS,
    loss=SHARE,
    retransmits=st.none() | uint(UINT32),
)
HOLE = st.builds(
    Hole,
    signal=st.sampled_from(sorted(SIGNALS.values())),
    state=st.sampled_from(State),
    age_ms=st.none() | uint(UINT32),
    peer=st.none() | uint(64),
)

MESSAGES: dict[type, Draw[Message]] = {
    Hello: st.builds(
        Hello,
        node_id=st.binary(min_size=16, max_size=16),
        boot_id=st.binary(min_size=16, max_size=16),
        name=NAME,
        key=st.none() | st.binary(min_size=32, max_size=32),
        token=st.none() | st.text(st.characters(codec="utf-8"), max_size=255),
        machine=st.none() | st.binary(min_size=16, max_size=16),
        agent_version=TEXT,
        interval_ms=INTERVAL_MS,
        silence_ms=st.none() | uint(86_400_000),
        boot_ms=uint(UINT53),
        inventory=INVENTORY,
        protocol=st.just(PROTOCOL),
    ),
    Welcome: st.builds(
        Welcome,
        name=TEXT,
        server_ms=uint(UINT53),
        interval_ms=st.none() | INTERVAL_MS,
        peers=texts(4),
        stored_seq=st.none() | uint(UINT53),
        protocol=uint(UINT32),
    ),
    Refused: st.builds(
        Refused,
        reason=st.sampled_from(Reason),
        text=TEXT,
        retry_s=st.none() | uint(86_400),
    ),
    Frame: st.builds(
        Frame,
        seq=uint(UINT53),
        boot_ms=uint(UINT53),
        gaps=uint(UINT32),
        cpu=CPU,
        memory=MEMORY,
        links=st.lists(LINK, max_size=4).map(tuple),
        holes=st.lists(HOLE, max_size=4).map(tuple),
    ),
    Echo: st.builds(
        Echo, reply=st.booleans(), ident=uint(UINT53), stamp_us=uint(UINT53)
    ),
    Ack: st.builds(Ack, seq=uint(UINT53)),
    Bye: st.builds(Bye, why=st.sampled_from(Farewell), back_s=st.none() | uint(UINT32)),
}

# One unit on the wire, in the unit of the field.
STEPS = {
    "stall": 1e-4,
    "run_queue": 1e-2,
    "steal": 1e-4,
    "busy": 1e-4,
    "stall_some": 1e-4,
    "stall_full": 1e-4,
    "available": 1e-4,
    "swap_in_bytes_s": 1024,
    "swap_out_bytes_s": 1024,
    "major_faults_s": 0.1,
    "loss": 1e-4,
    "price": 1e-3,
    "speed": 1e-3,
}


def over_the_wire(message: Message) -> Message:
    [arrived] = Stream().feed(encode(message))
    return arrived


def assert_close(sent: object, arrived: object, field: str = "") -> None:
    assert type(sent) is type(arrived) or isinstance(sent, float | int), field
    if isinstance(sent, tuple) and isinstance(arrived, tuple):
        names = getattr(sent, "_fields", [field] * len(sent))
        for name, a, b in zip(names, sent, arrived, strict=True):
            assert_close(a, b, name)
    elif sent is not None and field in STEPS:
        assert arrived == pytest.approx(sent, abs=STEPS[field] / 2, rel=1e-12)
    else:
        assert arrived == sent, field


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_message_arrives_within_half_a_step_and_then_stays(kind: type) -> None:
    @given(MESSAGES[kind])
    def check(sent: Message) -> None:
        arrived = over_the_wire(sent)
        assert_close(sent, arrived)
        assert over_the_wire(arrived) == arrived
        assert encode(arrived) == encode(sent)

    check()


@given(
    st.lists(st.one_of(*MESSAGES.values()), max_size=6),
    st.lists(st.integers(0, 2000), max_size=20),
)
def test_where_the_bytes_are_cut_makes_no_difference(
    sent: list[Message], cuts: list[int]
) -> None:
    data = b"".join(map(encode, sent))
    whole = list(Stream().feed(data))
    assert [type(m) for m in whole] == [type(m) for m in sent]
    stream = Stream()
    edges = [0, *sorted(cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(edges)]
    assert [m for piece in pieces for m in stream.feed(piece)] == whole
    assert stream.partial_bytes == 0


@given(st.one_of(*MESSAGES.values()))
def test_a_message_without_its_last_byte_is_only_partial(sent: Message) -> None:
    data = encode(sent)
    stream = Stream()
    assert list(stream.feed(data[:-1])) == []
    assert stream.partial_bytes == len(data) - 1
    assert len(list(stream.feed(data[-1:]))) == 1


BAD_READINGS = [float("nan"), float("inf"), -float("inf"), -1e-9, -1.0]
READINGS: dict[str, Callable[[float], NamedTuple]] = {
    "cpu": lambda x: Frame(1, 1, cpu=Cpu(stall=x)),
    "run queue": lambda x: Frame(1, 1, cpu=Cpu(run_queue=x)),
    "memory": lambda x: Frame(1, 1, memory=Memory(available=x)),
    "swap": lambda x: Frame(1, 1, memory=Memory(swap_in_bytes_s=x)),
    "faults": lambda x: Frame(1, 1, memory=Memory(major_faults_s=x)),
    "loss": lambda x: Frame(1, 1, links=(Link(0, loss=x),)),
    "price": lambda x: Hello(bytes(16), bytes(16), "n", inventory=Inventory(price=x)),
    "speed": lambda x: Hello(bytes(16), bytes(16), "n", inventory=Inventory(speed=x)),
}


@pytest.mark.parametrize("bad", BAD_READINGS)
@pytest.mark.parametrize("field", READINGS)
def test_a_reading_that_is_no_quantity_is_never_sent(field: str, bad: float) -> None:
    with pytest.raises(ValueError, match="finite and at least 0"):
        encode(READINGS[field](bad))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "frame",
    [
        Frame(-1, 1),
        Frame(1, -1),
        Frame(1, 1, gaps=-1),
        Frame(1, 1, links=(Link(0, rtt_us=-1),)),
        Frame(1, 1, links=(Link(0, retransmits=-1),)),
        Frame(1, 1, holes=(Hole("cpu.stall", State.STALE, age_ms=-1),)),
    ],
)
def test_a_negative_count_or_time_is_never_sent(frame: Frame) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        encode(frame)


def test_a_failed_encoding_leaves_nothing_in_the_next() -> None:
    with pytest.raises(OverflowError):
        encode(Ack(2**70))
    assert over_the_wire(Ack(5)) == Ack(5)


def test_a_value_past_its_range_arrives_as_the_end_of_the_range() -> None:
    sent = Frame(
        1,
        1,
        gaps=2**40,
        cpu=Cpu(stall=1.2, run_queue=1e6),
        memory=Memory(swap_in_bytes_s=1e300, swap_out_bytes_s=1e308),
        links=(Link(0, rtt_us=2**40),),
        holes=(Hole("cpu.busy", State.STALE, age_ms=2**40),),
    )
    assert over_the_wire(sent) == Frame(
        1,
        1,
        gaps=UINT32,
        cpu=Cpu(stall=1.0, run_queue=655.35),
        memory=Memory(swap_in_bytes_s=UINT32 * 1024, swap_out_bytes_s=UINT32 * 1024),
        links=(Link(0, rtt_us=UINT32),),
        holes=(Hole("cpu.busy", State.STALE, age_ms=UINT32),),
    )


def test_zero_and_no_reading_stay_apart() -> None:
    sent = Frame(1, 1, cpu=Cpu(stall=0.0, steal=None, busy=0.0), memory=Memory())
    arrived = over_the_wire(sent)
    assert arrived == sent
    assert isinstance(arrived, Frame)
    assert arrived.cpu.stall == 0.0
    assert arrived.cpu.steal is None


ANY_QUANTITY = st.none() | st.floats(min_value=0, allow_infinity=False)


@given(
    cpu=st.builds(Cpu, *[ANY_QUANTITY] * 4),
    memory=st.builds(Memory, *[ANY_QUANTITY] * 6),
    link=st.builds(
        Link,
        uint(64),
        st.none() | st.sampled_from(Method),
        *[st.none() | uint(2**64)] * 4,
        ANY_QUANTITY,
        st.none() | uint(2**64),
    ),
    counts=st.tuples(uint(2**64), uint(2**64), uint(2**64)),
)
def test_a_core_frame_takes_at_most_96_bytes_whatever_it_says(
    cpu: Cpu, memory: Memory, link: Link, counts: tuple[int, int, int]
) -> None:
    assert len(encode(Frame(*counts, cpu, memory, (link,)))) <= 96


def test_the_widest_core_frame_takes_95_bytes() -> None:
    w = 1e300
    n = 2**60
    link = Link(64, Method.TCP_CONNECT, n, n, n, n, w, n)
    frame = Frame(n, n, n, Cpu(w, w, w, w), Memory(w, w, w, w, w, w), (link,))
    assert len(encode(frame)) == 95


def test_a_further_link_takes_at_most_31_bytes_and_a_hole_9() -> None:
    n = 2**60
    link = Link(64, Method.TCP_CONNECT, n, n, n, n, 1e9, n)
    hole = Hole("link.retransmits", State.STALE, n, 64)

    def size(links: int, holes: int) -> int:
        return len(encode(Frame(1, 1, links=(link,) * links, holes=(hole,) * holes)))

    assert size(2, 1) - size(1, 1) == 31
    assert size(1, 2) - size(1, 1) == 9


def test_a_hello_of_full_lists_of_60_character_texts_fits() -> None:
    def names(count: int) -> tuple[str, ...]:
        return tuple(f"{i:060}" for i in range(count))

    hello = Hello(
        bytes(16),
        bytes(16),
        "n" * 63,
        inventory=Inventory(
            targets=names(64),
            groups=names(64),
            labels=dict(zip(names(64), names(64), strict=True)),
            holds=names(256),
            resources=dict.fromkeys(names(64), UINT32),
        ),
    )
    assert over_the_wire(hello) == hello


def test_every_signal_of_every_link_may_be_a_hole() -> None:
    links = [name for name in SIGNALS.values() if name.startswith("link.")]
    host = [name for name in SIGNALS.values() if not name.startswith("link.")]
    holes = [Hole(name, State.ERROR) for name in host]
    holes += [Hole(s, State.ERROR, None, peer) for peer in range(65) for s in links]
    frame = Frame(
        1, 1, links=tuple(Link(peer) for peer in range(65)), holes=tuple(holes)
    )
    assert over_the_wire(frame) == frame
