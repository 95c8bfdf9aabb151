"""Old and new meet: what is appended is ignored, what is absent is no reading."""

from typing import Any

import msgpack
import pytest

from trimtab.wire import (
    NUMBERS,
    PROTOCOL,
    SIGNALS,
    Bye,
    Cpu,
    Farewell,
    Frame,
    Hello,
    Hole,
    Inventory,
    Kind,
    Link,
    Malformed,
    Memory,
    Message,
    Method,
    Reason,
    Refused,
    State,
    Stream,
    Welcome,
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
        [312, 150, 0, 4375, 99, "new"],
        [0, 0, 7321, 0, 0, 4, 5, None],
        [[0, 1, 412, 287, 655, 31, None, 2, {"new": 1}], [1, 9, 18_250]],
        [["a GPU", 1]],
        [
            [34, 1, None, 0, "new"],
            [99, 1],  # a signal of the newer version
            [1, 9, 100],  # a state of the newer version
            [4, 3, 200],
        ],
        "appended",
        [1, [2]],
    ]
    assert read(newer) == [
        Frame(
            7,
            8000,
            0,
            Cpu(0.0312, 1.5, 0.0, 0.4375),
            Memory(0.0, 0.0, 0.7321, 0.0, 0.0, 0.4),
            (
                Link(0, Method.ECHO, 412, 287, 655, 31, None, 2),
                Link(1, None, 18_250),  # a method of the newer version
            ),
            (
                Hole("link.loss", State.UNSUPPORTED, None, 0),
                Hole("cpu.busy", State.STALE, 200),
            ),
        )
    ]


def test_a_frame_of_an_older_version_has_no_reading_for_the_rest() -> None:
    assert read(
        [4, 7, 8000],
        [4, 8, 9000, 0, [312]],
        [4, 9, 9500, 0, [], [None, 5], [[0], [1, 2]], None, [[1, 2]]],
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
    ]


def test_the_other_messages_may_be_longer() -> None:
    inventory = [4, 1024, *[None] * 12, "appended"]
    assert read(
        [1, 1, ID, ID, "n", *[None] * 7, inventory, "appended"],
        [2, 1, "n", 5, None, [], 7, "appended"],
        [3, 3, "no", 60, "appended"],
        [5, 0, 1, 2, "appended"],
        [6, 7, "appended"],
        [7, 1, 60, "appended"],
    ) == read(
        [1, 1, ID, ID, "n", *[None] * 7, inventory[:2]],
        [2, 1, "n", 5, None, [], 7],
        [3, 3, "no", 60],
        [5, 0, 1, 2],
        [6, 7],
        [7, 1, 60],
    )


def test_the_other_messages_may_be_shorter() -> None:
    assert read([1, 1, ID, ID, "n"], [2, 1, "n", 5], [3, 3, "no"], [7]) == [
        Hello(ID, ID, "n", interval_ms=1000, inventory=Inventory()),
        Welcome("n", 5),
        Refused(Reason.CREDENTIAL, "no"),
        Bye(Farewell.STOP),
    ]


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
    "method": {1: "ECHO", 2: "ICMP_DATAGRAM", 3: "ICMP_RAW", 4: "TCP_CONNECT"},
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
        16: "memory.stall_some",
        17: "memory.stall_full",
        18: "memory.available",
        19: "memory.swap_in",
        20: "memory.swap_out",
        21: "memory.major_faults",
        32: "link.rtt",
        33: "link.jitter",
        34: "link.loss",
        35: "link.retransmits",
    },
}
NOW: dict[str, dict[int, str]] = {
    "kind": {k.value: k.name for k in Kind},
    "method": {m.value: m.name for m in Method},
    "reason": {r.value: r.name for r in Reason},
    "farewell": {f.value: f.name for f in Farewell},
    "state": {s.value: s.name for s in State},
    "signal": SIGNALS,
}


@pytest.mark.parametrize("table", EVER)
def test_a_number_keeps_its_meaning_for_ever(table: str) -> None:
    assert NOW[table] == EVER[table]
    assert all(0 <= number <= 127 for number in EVER[table])


def test_no_signal_has_two_numbers() -> None:
    assert {number: name for name, number in NUMBERS.items()} == SIGNALS


def test_the_protocol_is_still_the_first() -> None:
    assert PROTOCOL == 1
