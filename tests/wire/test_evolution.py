"""Old and new meet: what is appended is ignored, what is absent is no reading."""

from typing import Any

import msgpack
import pytest

from trimtab.wire import (
    GPU_REASONS,
    NUMBERS,
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
    Kind,
    Link,
    Malformed,
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

ID = bytes(range(16))


def read(*messages: list[Any]) -> list[Message]:
    return list(Stream().feed(b"".join(map(msgpack.packb, messages))))


def test_a_frame_of_a_newer_version_gives_what_this_one_knows() -> None:
    newer = [
        4,
        7,
        8000,
        0,
        [312, 150, 0, 4375, 0, 0, 0, 9, 99, "new"],  # a scope of the newer version
        [0, 0, 7321, 0, 0, 4, 5, 0, 0, 1, 1, 5, None],
        [
            [0, 1, 412, 287, 655, 31, None, 2, 400, 30, {"new": 1}],
            [1, 9, 18_250],  # a method of the newer version
        ],
        [
            99,  # a state of the newer version
            *(500, None, None, 2),
            [
                [
                    *(1, 9, 1024, 2048, 512),  # a health of the newer version
                    *(7000, None, 9, 0, None),  # a method of the newer version
                    *(4, 210_000, 64, 1 << 31, 94, [[1, 3, 4, 5, "new"]]),
                    "new",
                ],
                [2],
            ],
            "new",
        ],
        [
            [34, 1, None, 0, "new"],
            [126, 1],  # a signal of the newer version
            [1, 9, 100],  # a state of the newer version
            [4, 3, 200],
        ],
        [100, 0, "new"],
        [1200, 0, 0, 1, "new"],
        -1500,
        "appended",
        [1, [2]],
    ]
    assert read(newer) == [
        Frame(
            7,
            8000,
            0,
            Cpu(0.0312, 1.5, 0.0, 0.4375, 0.0, 0.0, 0.0, Scope.CONTAINER),
            Memory(0.0, 0.0, 0.7321, 0.0, 0.0, 0.4, 0.5, 0, 0, 1, Scope.HOST),
            (
                Link(0, Method.ECHO, 412, 287, 655, 31, None, 2, 400, 30),
                Link(1, None, 18_250),
            ),
            (
                Hole("link.loss", State.UNSUPPORTED, None, 0),
                Hole("cpu.busy", State.STALE, 200),
            ),
            Gpus(
                GpuState.STALLED,
                500,
                restarts=2,
                devices=(
                    Gpu(
                        1,
                        GpuHealth.LOWERED,
                        1024,
                        2048,
                        512,
                        busy=0.7,
                        pseudo_high=False,
                        throttle=4,
                        power_mw=210_000,
                        temperature_c=64,
                        reasons=1 << 31,
                        xid=94,
                        mig=(Mig(1, 3, 4, 5),),
                    ),
                    Gpu(2),
                ),
            ),
            Io(0.01, 0.0),
            Net(0.12, 0.0, 0.0, 0.1),
            -1500,
        )
    ]


def test_a_frame_of_an_older_version_has_no_reading_for_the_rest() -> None:
    assert read(
        [4, 7, 8000],
        [4, 8, 9000, 0, [312]],
        [4, 9, 9500, 0, [], [None, 5], [[0], [1, 2]], None, [[1, 2]]],
        [4, 10, 9900, 0, [], [], [], [1], None, [], [1200]],
    ) == [
        Frame(7, 8000),
        Frame(8, 9000, 0, Cpu(0.0312)),
        Frame(
            9,
            9500,
            0,
            Cpu(),
            Memory(None, 0.0005),
            (Link(0), Link(1, Method.ICMP_DATAGRAM)),
            (Hole("cpu.stall", State.ERROR),),
        ),
        Frame(10, 9900, gpus=Gpus(GpuState.ABSENT), net=Net(0.12)),
    ]


def test_the_other_messages_may_be_longer() -> None:
    gpu = [0, "GPU-1", "A100", 81_920, 0, 1]
    rest = [250, 512, [[*gpu, "appended"]], 1, "edge"]
    inventory = [4, 1024, *[None] * 12, *rest, "appended"]
    known = Inventory(
        4,
        1024,
        cpu_quota=0.25,
        memory_limit_mib=512,
        gpus=(GpuInfo(0, "GPU-1", "A100", 81_920, False, True),),
        ephemeral=True,
        mode="edge",
    )
    assert read(
        [1, 1, ID, ID, "n", *[None] * 7, inventory, "appended"],
        [2, 1, "n", 5, None, [], 7, "appended"],
        [3, 3, "no", 60, "appended"],
        [5, 1, 1, 2, 3, "appended"],
        [6, 7, "appended"],
        [7, 1, 60, "appended"],
    ) == [
        Hello(ID, ID, "n", inventory=known),
        Welcome("n", 5, stored_seq=7),
        Refused(Reason.CREDENTIAL, "no", 60),
        Echo(True, 1, 2, 3),
        Ack(7),
        Bye(Farewell.STOP, 60),
    ]


def test_the_other_messages_may_be_shorter() -> None:
    assert read(
        [1, 1, ID, ID, "n"],
        [1, 1, ID, ID, "n", *[None] * 7, [4, *[None] * 15, [[0, "GPU-1", "A100"]]]],
        [2, 1, "n", 5],
        [3, 3, "no"],
        [5, 1, 1, 2],
        [7],
    ) == [
        Hello(ID, ID, "n", interval_ms=1000, inventory=Inventory()),
        Hello(ID, ID, "n", inventory=Inventory(4, gpus=(GpuInfo(0, "GPU-1", "A100"),))),
        Welcome("n", 5),
        Refused(Reason.CREDENTIAL, "no"),
        Echo(True, 1, 2),
        Bye(Farewell.STOP),
    ]


def test_a_message_without_the_newer_fields_is_as_long_as_it_was() -> None:
    def items(message: Message) -> list[Any]:
        unpacked: list[Any] = msgpack.unpackb(encode(message))
        return unpacked

    assert items(Frame(1, 1)) == [4, 1, 1, 0, [], [], []]
    frame = Frame(1, 1, 0, Cpu(busy=0.5), Memory(major_faults_s=1.0), (Link(0, None),))
    assert items(frame) == [4, 1, 1, 0, [None] * 3 + [5000], [None] * 5 + [10], [[0]]]
    assert items(Echo(True, 1, 2)) == [5, 1, 1, 2]
    assert len(items(Hello(ID, ID, "n"))[12]) == 14


@pytest.mark.parametrize("kind", [8, 64, 127])
def test_a_message_of_an_unknown_kind_is_skipped(kind: int) -> None:
    assert read([6, 1], [kind, "anything", {"at": [1.5]}], [kind], [6, 2]) == read(
        [6, 1], [6, 2]
    )


@pytest.mark.parametrize(
    ("newer", "as_read"),
    [
        ([3, 127, "a new reason"], Refused(Reason.OTHER, "a new reason")),
        ([7, 127, 60], Bye(Farewell.STOP, 60)),
    ],
)
def test_an_unknown_reason_or_farewell_is_read_as_the_plainest(
    newer: list[Any], as_read: Message
) -> None:
    assert read(newer) == [as_read]


def test_another_protocol_is_refused_without_reading_on() -> None:
    with pytest.raises(Malformed) as caught:
        read([1, 2, "laid", "out", "in", "another", "way"])
    assert caught.value.where == "hello.protocol"
    with pytest.raises(Malformed) as caught:
        read([1, 2])
    assert caught.value.where == "hello.protocol"


# The numbers of every version ever released. Append; never change or remove:
# a retired number stays, with its name, here and in docs/wire.md.
EVER: dict[str, dict[int, str]] = {
    "kind": {
        1: "HELLO",
        2: "WELCOME",
        3: "REFUSED",
        4: "FRAME",
        5: "ECHO",
        6: "ACK",
        7: "BYE",
    },
    "method": {
        1: "ECHO",
        2: "ICMP_DATAGRAM",
        3: "ICMP_RAW",
        4: "TCP_CONNECT",
        5: "TCP_INFO",
    },
    "scope": {1: "HOST", 2: "CONTAINER"},
    "GPU state": {
        0: "OK",
        1: "ABSENT",
        2: "STARTING",
        3: "STALLED",
        4: "CRASHED",
        5: "RESTART_NEEDED",
        6: "CONTAINER_RESTART_NEEDED",
        7: "PAUSED",
        8: "ASLEEP",
        9: "DENIED",
    },
    "GPU method": {1: "GPM", 2: "POWER", 3: "BUSY_ONLY"},
    "GPU health": {0: "OK", 1: "LOWERED", 2: "ZERO"},
    "GPU reason": {
        0: "lost",
        1: "reset required",
        2: "missing",
        3: "recovery action",
        4: "remap failed",
        5: "remap pending",
        6: "pages pending",
        7: "P2P drain",
        8: "link errors",
        9: "pcie replays",
        10: "xid fatal",
        11: "xid warning",
        12: "throttled",
        13: "query error",
    },
    "reason": {
        0: "OTHER",
        1: "MALFORMED",
        2: "PROTOCOL",
        3: "CREDENTIAL",
        4: "ORDER",
        5: "LIMIT",
        6: "STOPPING",
    },
    "farewell": {1: "STOP", 2: "SLEEP", 3: "RESTART"},
    "state": {0: "OK", 1: "UNSUPPORTED", 2: "ERROR", 3: "STALE"},
    "signal": {
        1: "cpu.stall",
        2: "cpu.run_queue",
        3: "cpu.steal",
        4: "cpu.busy",
        5: "cpu.throttled",
        6: "cpu.throttled_periods",
        7: "cpu.irq_stall",
        16: "memory.stall_some",
        17: "memory.stall_full",
        18: "memory.available",
        19: "memory.swap_in",
        20: "memory.swap_out",
        21: "memory.major_faults",
        22: "memory.refaults",
        23: "memory.high_events",
        24: "memory.max_events",
        25: "memory.oom_kills",
        32: "link.rtt",
        33: "link.jitter",
        34: "link.loss",
        35: "link.retransmits",
        36: "link.tcp",
        48: "io.stall_some",
        49: "io.stall_full",
        64: "nic.utilisation",
        65: "nic.errors",
        66: "nic.drops",
        67: "nic.softnet_drops",
        80: "clock.offset",
        96: "gpu.memory",
        97: "gpu.busy",
        98: "gpu.effective",
        99: "gpu.power",
        100: "gpu.clock",
        101: "gpu.health",
        102: "gpu.mig",
        103: "gpu.stranding",
    },
}
NOW: dict[str, dict[int, str]] = {
    "kind": {k.value: k.name for k in Kind},
    "method": {m.value: m.name for m in Method},
    "scope": {s.value: s.name for s in Scope},
    "GPU state": {s.value: s.name for s in GpuState},
    "GPU method": {m.value: m.name for m in GpuMethod},
    "GPU health": {h.value: h.name for h in GpuHealth},
    "GPU reason": GPU_REASONS,
    "reason": {r.value: r.name for r in Reason},
    "farewell": {f.value: f.name for f in Farewell},
    "state": {s.value: s.name for s in State},
    "signal": SIGNALS,
}


@pytest.mark.parametrize("table", EVER)
def test_a_number_keeps_its_meaning_for_ever(table: str) -> None:
    assert NOW[table] == EVER[table]
    most = 31 if table == "GPU reason" else 127
    assert all(0 <= number <= most for number in EVER[table])


def test_no_signal_has_two_numbers() -> None:
    assert {number: name for name, number in NUMBERS.items()} == SIGNALS


def test_the_protocol_is_still_the_first() -> None:
    assert PROTOCOL == 1
