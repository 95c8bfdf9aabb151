"""Every message survives the wire, to within half a step of its scale."""

import itertools
from collections.abc import Callable
from typing import NamedTuple, TypeVar

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
    Gpu,
    GpuHealth,
    GpuInfo,
    GpuMethod,
    Gpus,
    GpuState,
    Hello,
    Hole,
    Inventory,
    Io,
    Link,
    Memory,
    Message,
    Method,
    Mig,
    Net,
    Reason,
    Refused,
    Scope,
    State,
    Stream,
    Welcome,
    encode,
)

UINT16 = 2**16 - 1
UINT32 = 2**32 - 1
INT32 = 2**31 - 1
UINT53 = 2**53 - 1

Draw = st.SearchStrategy
T = TypeVar("T")


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
MIB = st.none() | uint(UINT32)
EVENTS = st.none() | uint(UINT16)
FLAG = st.none() | st.booleans()
SCOPE = st.none() | st.sampled_from(Scope)

GPU_INFO = st.builds(
    GpuInfo,
    device=uint(31),
    uuid=TEXT,
    name=TEXT,
    memory_mib=MIB,
    unified=FLAG,
    mig=FLAG,
)
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
    cpu_quota=reading(UINT32 / 1000),
    memory_limit_mib=MIB,
    gpus=st.lists(GPU_INFO, max_size=3).map(tuple),
    ephemeral=FLAG,
    mode=st.none() | TEXT,
)
CPU = st.builds(
    Cpu,
    stall=SHARE,
    run_queue=reading(655.35),
    steal=SHARE,
    busy=SHARE,
    throttled=SHARE,
    throttled_periods=SHARE,
    irq_stall=SHARE,
    scope=SCOPE,
)
MEMORY = st.builds(
    Memory,
    stall_some=SHARE,
    stall_full=SHARE,
    available=SHARE,
    swap_in_bytes_s=reading(UINT32 * 1024),
    swap_out_bytes_s=reading(UINT32 * 1024),
    major_faults_s=reading(UINT32 / 10),
    refaults_s=reading(UINT32 / 10),
    high_events=EVENTS,
    max_events=EVENTS,
    oom_kills=EVENTS,
    scope=SCOPE,
)
IO = st.builds(Io, stall_some=SHARE, stall_full=SHARE)
NET = st.builds(
    Net,
    utilisation=SHARE,
    errors_s=reading(UINT16 / 10),
    drops_s=reading(UINT16 / 10),
    softnet_drops_s=reading(UINT16 / 10),
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
    retransmits=EVENTS,
    tcp_rtt_us=MICROSECONDS,
    tcp_rttvar_us=MICROSECONDS,
)
MIG = st.builds(Mig, instance=uint(127), slices=uint(127), free_mib=MIB, used_mib=MIB)
GPU = st.builds(
    Gpu,
    device=uint(31),
    health=st.none() | st.sampled_from(GpuHealth),
    free_mib=MIB,
    used_mib=MIB,
    reserved_mib=MIB,
    busy=SHARE,
    effective=SHARE,
    method=st.none() | st.sampled_from(GpuMethod),
    pseudo_high=FLAG,
    clock=SHARE,
    throttle=st.none() | uint(UINT32),
    power_mw=st.none() | uint(UINT32),
    temperature_c=st.none() | st.integers(-128, 255),
    reasons=st.none() | uint(UINT32),
    xid=EVENTS,
    mig=st.lists(MIG, max_size=3).map(tuple),
)
GPUS = st.builds(
    Gpus,
    state=st.sampled_from(GpuState),
    age_ms=st.none() | uint(UINT32),
    stranding=SHARE,
    mig_stranding=SHARE,
    restarts=uint(UINT32),
    devices=st.lists(GPU, max_size=3).map(tuple),
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
        gpus=st.none() | GPUS,
        io=IO,
        net=NET,
        clock_offset_ms=st.none() | st.integers(-INT32, INT32),
    ),
    Echo: st.builds(
        Echo,
        reply=st.booleans(),
        ident=uint(UINT53),
        stamp_us=uint(UINT53),
        unix_ms=st.none() | uint(UINT53),
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
    "throttled": 1e-4,
    "throttled_periods": 1e-4,
    "irq_stall": 1e-4,
    "major_faults_s": 0.1,
    "refaults_s": 0.1,
    "utilisation": 1e-4,
    "errors_s": 0.1,
    "drops_s": 0.1,
    "softnet_drops_s": 0.1,
    "loss": 1e-4,
    "price": 1e-3,
    "speed": 1e-3,
    "cpu_quota": 1e-3,
    "stranding": 1e-4,
    "mig_stranding": 1e-4,
    "effective": 1e-4,
    "clock": 1e-4,
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
        # Half a step, and what binary fractions add: 1.25 - 1.2 is above 0.05.
        half = STEPS[field] / 2 * (1 + 1e-5)
        assert arrived == pytest.approx(sent, abs=half, rel=1e-12)
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
    "throttled": lambda x: Frame(1, 1, cpu=Cpu(throttled=x)),
    "refaults": lambda x: Frame(1, 1, memory=Memory(refaults_s=x)),
    "loss": lambda x: Frame(1, 1, links=(Link(0, loss=x),)),
    "io": lambda x: Frame(1, 1, io=Io(x)),
    "net": lambda x: Frame(1, 1, net=Net(x)),
    "drops": lambda x: Frame(1, 1, net=Net(drops_s=x)),
    "stranding": lambda x: Frame(1, 1, gpus=Gpus(GpuState.OK, stranding=x)),
    "GPU": lambda x: Frame(1, 1, gpus=Gpus(GpuState.OK, devices=(Gpu(0, busy=x),))),
    "quota": lambda x: Hello(
        bytes(16), bytes(16), "n", inventory=Inventory(cpu_quota=x)
    ),
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
        Frame(1, 1, memory=Memory(oom_kills=-1)),
        Frame(1, 1, links=(Link(0, tcp_rtt_us=-1),)),
        Frame(1, 1, gpus=Gpus(GpuState.OK, age_ms=-1)),
        Frame(1, 1, gpus=Gpus(GpuState.OK, devices=(Gpu(0, free_mib=-1),))),
        Frame(1, 1, gpus=Gpus(GpuState.OK, devices=(Gpu(0, throttle=-1),))),
        Frame(1, 1, gpus=Gpus(GpuState.OK, devices=(Gpu(0, mig=(Mig(1, 1, -1),)),))),
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


@pytest.mark.parametrize(
    ("offset_ms", "celsius", "arrives"),
    [
        (2**31, 300, (INT32, 255)),
        (-(2**31), -300, (-INT32, -128)),
        (-1_800_000_000_000, -5, (-INT32, -5)),  # a clock of 1970
        (0, 0, (0, 0)),
    ],
)
def test_a_signed_value_keeps_its_sign_and_stops_at_either_end(
    offset_ms: int, celsius: int, arrives: tuple[int, int]
) -> None:
    gpus = Gpus(GpuState.OK, devices=(Gpu(0, temperature_c=celsius),))
    arrived = over_the_wire(Frame(1, 1, gpus=gpus, clock_offset_ms=offset_ms))
    assert isinstance(arrived, Frame)
    assert arrived.gpus is not None
    [gpu] = arrived.gpus.devices
    assert (arrived.clock_offset_ms, gpu.temperature_c) == arrives


def test_of_a_wide_set_of_bits_the_low_ones_arrive() -> None:
    sent = Gpu(0, throttle=1 << 40 | 0x8, reasons=1 << 32 | 1)
    arrived = over_the_wire(Frame(1, 1, gpus=Gpus(GpuState.OK, devices=(sent,))))
    assert isinstance(arrived, Frame)
    assert arrived.gpus == Gpus(GpuState.OK, devices=(Gpu(0, throttle=8, reasons=1),))


def test_events_and_rates_past_their_range_arrive_as_its_end() -> None:
    sent = Frame(
        1,
        1,
        memory=Memory(high_events=70_000, max_events=70_000, oom_kills=70_000),
        links=(Link(0, retransmits=70_000),),
        net=Net(1.7, 1e9, 1e9, 1e9),
    )
    assert over_the_wire(sent) == Frame(
        1,
        1,
        memory=Memory(high_events=UINT16, max_events=UINT16, oom_kills=UINT16),
        links=(Link(0, retransmits=UINT16),),
        net=Net(1.0, 6553.5, 6553.5, 6553.5),
    )


def test_a_limit_of_a_cgroup_that_means_none_does_not_cost_the_connection() -> None:
    sent = Inventory(memory_limit_mib=2**63 // 2**20, cpu_quota=1e12)
    arrived = over_the_wire(Hello(bytes(16), bytes(16), "n", inventory=sent))
    assert isinstance(arrived, Hello)
    assert arrived.inventory.memory_limit_mib == UINT32
    assert arrived.inventory.cpu_quota == UINT32 / 1000


def test_no_gpu_probe_and_no_gpus_stay_apart() -> None:
    for gpus in (None, Gpus(GpuState.ABSENT), Gpus(GpuState.OK)):
        frame = Frame(1, 1, gpus=gpus)
        assert over_the_wire(frame) == frame


def test_zero_and_no_reading_stay_apart() -> None:
    sent = Frame(1, 1, cpu=Cpu(stall=0.0, steal=None, busy=0.0), memory=Memory())
    arrived = over_the_wire(sent)
    assert arrived == sent
    assert isinstance(arrived, Frame)
    assert arrived.cpu.stall == 0.0
    assert arrived.cpu.steal is None


ANY_QUANTITY = st.none() | st.floats(min_value=0, allow_infinity=False)
ANY_COUNT = st.none() | uint(2**64)
ANY_SCOPE = st.none() | st.sampled_from(Scope)
ANY_METHOD = st.none() | st.sampled_from(Method)


def first(kind: Callable[..., T], *fields: Draw[object]) -> Draw[T]:
    """Draw the first fields only; `builds` would draw the others too."""
    return st.tuples(*fields).map(lambda values: kind(*values))


COUNTS = st.tuples(uint(2**64), uint(2**64), uint(2**64))


@given(
    cpu=first(Cpu, *[ANY_QUANTITY] * 4),
    memory=first(Memory, *[ANY_QUANTITY] * 6),
    link=first(Link, uint(64), ANY_METHOD, *[ANY_COUNT] * 4, ANY_QUANTITY, ANY_COUNT),
    counts=COUNTS,
)
def test_a_core_frame_takes_at_most_96_bytes_whatever_it_says(
    cpu: Cpu, memory: Memory, link: Link, counts: tuple[int, int, int]
) -> None:
    assert len(encode(Frame(*counts, cpu, memory, (link,)))) <= 96


@given(
    cpu=st.builds(Cpu, *[ANY_QUANTITY] * 7, ANY_SCOPE),
    memory=st.builds(Memory, *[ANY_QUANTITY] * 7, *[ANY_COUNT] * 3, ANY_SCOPE),
    link=st.builds(
        Link, uint(64), ANY_METHOD, *[ANY_COUNT] * 4, ANY_QUANTITY, *[ANY_COUNT] * 3
    ),
    io=st.builds(Io, *[ANY_QUANTITY] * 2),
    net=st.builds(Net, *[ANY_QUANTITY] * 4),
    offset_ms=st.none() | st.integers(-(2**64), 2**64),
    counts=COUNTS,
)
def test_a_frame_of_every_signal_takes_at_most_160_bytes_whatever_it_says(
    cpu: Cpu,
    memory: Memory,
    link: Link,
    io: Io,
    net: Net,
    offset_ms: int | None,
    counts: tuple[int, int, int],
) -> None:
    frame = Frame(*counts, cpu, memory, (link,), (), None, io, net, offset_ms)
    assert len(encode(frame)) <= 160


# The widest of everything: past every range.
W = 1e300
N = 2**60
CORE_LINK = Link(64, Method.TCP_CONNECT, N, N, N, N, W, N)
LINK_OF_ALL = Link(64, Method.TCP_CONNECT, N, N, N, N, W, N, N, N)
FULL = Frame(
    N,
    N,
    N,
    Cpu(W, W, W, W, W, W, W, Scope.CONTAINER),
    Memory(W, W, W, W, W, W, W, N, N, N, Scope.CONTAINER),
    (LINK_OF_ALL,),
    io=Io(W, W),
    net=Net(W, W, W, W),
    clock_offset_ms=-N,
)
MIG_OF_ALL = Mig(31, 8, N, N)
GPU_OF_ALL = Gpu(
    *(31, GpuHealth.ZERO, N, N, N, W, W, GpuMethod.BUSY_ONLY, True, W),
    *(UINT32, N, 100_000, UINT32, N),
)


def size(frame: Frame) -> int:
    return len(encode(frame))


def with_gpus(count: int, migs: int = 0, mig: Mig = MIG_OF_ALL) -> Frame:
    gpu = GPU_OF_ALL._replace(mig=(mig,) * migs)
    return FULL._replace(gpus=Gpus(GpuState.DENIED, N, W, W, N, (gpu,) * count))


def test_the_widest_core_frame_takes_93_bytes() -> None:
    frame = Frame(N, N, N, Cpu(W, W, W, W), Memory(W, W, W, W, W, W), (CORE_LINK,))
    assert size(frame) == 93


def test_the_widest_frame_of_every_signal_takes_155_bytes() -> None:
    assert size(FULL) == 155


def test_a_further_link_takes_at_most_39_bytes_and_a_hole_9() -> None:
    two = FULL._replace(links=(LINK_OF_ALL,) * 2)
    assert size(two) - size(FULL) == 39
    hole = Hole("gpu.stranding", State.STALE, N, 64)
    one = FULL._replace(holes=(hole,))
    assert size(one._replace(holes=(hole, hole))) - size(one) == 9


def test_a_gpu_takes_at_most_80_bytes_the_first_with_its_section() -> None:
    assert size(with_gpus(1)) - size(FULL) == 67
    assert size(with_gpus(2)) - size(with_gpus(1)) == 49
    # The header of an array of 16 items or more is longer: of the GPU, of all.
    assert size(with_gpus(1, 1)) - size(with_gpus(1)) == 13 + 1 + 2
    assert size(with_gpus(16)) - size(with_gpus(15)) == 49 + 2
    assert size(with_gpus(1, 16)) - size(FULL) <= 80 + 13 * 16


@pytest.mark.parametrize(
    ("mig", "takes"),
    [
        (Mig(31, 8, 65_535, 65_535), 9),
        (Mig(31, 8, 81_920, 65_535), 11),
        (MIG_OF_ALL, 13),
    ],
)
def test_a_mig_instance_takes_what_its_memory_takes(mig: Mig, takes: int) -> None:
    assert size(with_gpus(1, 3, mig)) - size(with_gpus(1, 2, mig)) == takes


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
            gpus=tuple(
                GpuInfo(i, f"{i:060}", f"{i:060}", UINT32, False, False)
                for i in range(32)
            ),
        ),
    )
    assert over_the_wire(hello) == hello


def test_the_largest_frame_fits_with_room_to_spare() -> None:
    hole = Hole("gpu.stranding", State.STALE, N, 64)
    largest = with_gpus(32, 16)._replace(links=(LINK_OF_ALL,) * 65, holes=(hole,) * 320)
    assert size(largest) < 20 * 1024
    assert isinstance(over_the_wire(largest), Frame)


def test_of_more_holes_than_an_array_may_have_the_first_are_sent() -> None:
    """A frame that says too much must still leave."""
    host = [name for name in SIGNALS.values() if name.partition(".")[0] not in PEERS]
    holes = [Hole(name, State.ERROR) for name in host]
    for kind, peers in PEERS.items():
        names = [name for name in SIGNALS.values() if name.startswith(kind)]
        holes += [Hole(s, State.ERROR, None, n) for n in range(peers) for s in names]
    arrived = over_the_wire(Frame(1, 1, holes=tuple(holes)))
    assert arrived == Frame(1, 1, holes=tuple(holes[:320]))


# Whose `peer` is a link, and a GPU or their section.
PEERS = {"link": 65, "gpu": 33}


def test_every_signal_of_the_host_two_of_each_link_and_16_dead_gpus_may_be_holes() -> (
    None
):
    host = [name for name in SIGNALS.values() if name.partition(".")[0] not in PEERS]
    gpu = [name for name in SIGNALS.values() if name.startswith("gpu.")]
    holes = [Hole(name, State.ERROR) for name in host]
    holes += [Hole(s, State.ERROR, None, n + 1) for n in range(16) for s in gpu]
    links = ("link.rtt", "link.jitter")
    holes += [Hole(s, State.ERROR, None, peer) for peer in range(65) for s in links]
    frame = Frame(1, 1, holes=tuple(holes))
    assert over_the_wire(frame) == frame
