"""A bad field is refused by name, and no error carries a secret."""

import copy
import traceback
from typing import Any

import msgpack
import pytest

from trimtab.wire import Malformed, Message, Stream, WireError

UINT32 = 2**32 - 1
UINT53 = 2**53 - 1

KEY = b"SECRET-KEY-SECRET-KEY-SECRET-KEY"
TOKEN = "SECRET-TOKEN-0123456789"

INVENTORY = [
    4,
    1024,
    ["192.0.2.1"],
    "192.0.2.7:80",
    "lyon",
    "a",
    "me",
    ["rack-1"],
    {"disk": "nvme"},
    ["model"],
    {"fpga": 2},
    120,
    8,
    1000,
    250,
    512,
    [[0, "GPU-1", "A100", 81_920, 0, 1]],
    0,
    "standard",
]
GPU = [
    *(0, 1, 31_000, 49_000, 600, 7000, 3100, 1, 1, 9500),
    *(4, 210_000, 64, 32, 94, [[1, 3, 20_000, 20_000]]),
]
VALID: dict[str, list[Any]] = {
    "hello": [
        1,
        1,
        bytes(16),
        bytes(16),
        "edge-7",
        KEY,
        TOKEN,
        bytes(16),
        "0.1.0",
        1000,
        60_000,
        5000,
        INVENTORY,
    ],
    "welcome": [2, 1, "edge-7", 1_700_000_000_000, 1000, ["192.0.2.1"], 7],
    "refused": [3, 1, "text", 60],
    "frame": [
        4,
        7,
        8000,
        0,
        [312, 150, 0, 4375, 2500, 5000, 10, 2],
        [0, 0, 7321, 0, 0, 4, 12_045, 1, 2, 3, 2],
        [[0, 1, 412, 287, 655, 31, 100, 2, 412, 31]],
        [0, 500, 2500, 5000, 1, [GPU]],
        [[34, 1, 3200, 0]],
        [500, 100],
        [1200, 1, 2, 3],
        -40,
    ],
    "echo": [5, 1, 7, 123_456, 1_700_000_000_000],
    "ack": [6, 7],
    "bye": [7, 2, 60],
}

NOT_INTEGERS: list[Any] = [-1, 1.0, "1", b"1", True, [], {}]
NOT_TEXTS: list[Any] = [1, b"x", [], {}, "x" * 256, "a\nb", "\x7f", "\u2028", "\x85"]
NOT_ARRAYS: list[Any] = [0, "x", b"", {}, True]


def numbers(limit: int, *, nil: bool) -> list[Any]:
    return [*NOT_INTEGERS, limit + 1, *([] if nil else [None])]


def signed(least: int, most: int) -> list[Any]:
    return [least - 1, most + 1, *(x for x in NOT_INTEGERS if x != -1)]


def binaries(length: int, *, nil: bool) -> list[Any]:
    wrong: list[Any] = [b"", bytes(length - 1), bytes(length + 1), "x" * length, 1, []]
    return wrong if nil else [*wrong, None]


INVENTORY_AT = ("hello", 12)
CPU_AT = ("frame", 4)
MEMORY_AT = ("frame", 5)
LINK_AT = ("frame", 6, 0)
HOLE_AT = ("frame", 8, 0)
GPUS_AT = ("frame", 7)
GPU_AT = (*GPUS_AT, 5, 0)
MIG_AT = (*GPU_AT, 15, 0)
IO_AT = ("frame", 9)
NET_AT = ("frame", 10)
INFO_AT = (*INVENTORY_AT, 16, 0)

# Field, path to it, values that it may not have.
FIELDS: list[tuple[str, tuple[Any, ...], list[Any]]] = [
    ("message.kind", ("ack", 0), [0, 128, *NOT_INTEGERS, None]),
    ("hello.protocol", ("hello", 1), [0, 2, *numbers(UINT32, nil=False)]),
    ("hello.node_id", ("hello", 2), binaries(16, nil=False)),
    ("hello.boot_id", ("hello", 3), binaries(16, nil=False)),
    (
        "hello.name",
        ("hello", 4),
        [None, 1, b"n", "", "-a", "a.", "a b", "a/b", "é", "a\n", "n" * 64],
    ),
    ("hello.key", ("hello", 5), binaries(32, nil=True)),
    ("hello.token", ("hello", 6), [1, b"t", [], "t" * 256]),
    ("hello.machine", ("hello", 7), binaries(16, nil=True)),
    ("hello.agent_version", ("hello", 8), NOT_TEXTS),
    ("hello.interval_ms", ("hello", 9), [0, 9, *numbers(3_600_000, nil=True)]),
    ("hello.silence_ms", ("hello", 10), numbers(86_400_000, nil=True)),
    ("hello.boot_ms", ("hello", 11), numbers(UINT53, nil=True)),
    ("hello.inventory", INVENTORY_AT, NOT_ARRAYS),
    ("hello.inventory.cpus", (*INVENTORY_AT, 0), numbers(65_535, nil=True)),
    ("hello.inventory.memory_mib", (*INVENTORY_AT, 1), numbers(UINT32, nil=True)),
    ("hello.inventory.targets", (*INVENTORY_AT, 2), [*NOT_ARRAYS, ["x"] * 65]),
    ("hello.inventory.targets[0]", (*INVENTORY_AT, 2, 0), [None, *NOT_TEXTS]),
    ("hello.inventory.address", (*INVENTORY_AT, 3), NOT_TEXTS),
    ("hello.inventory.site", (*INVENTORY_AT, 4), NOT_TEXTS),
    ("hello.inventory.zone", (*INVENTORY_AT, 5), NOT_TEXTS),
    ("hello.inventory.operator", (*INVENTORY_AT, 6), NOT_TEXTS),
    ("hello.inventory.groups", (*INVENTORY_AT, 7), [*NOT_ARRAYS, ["x"] * 65]),
    ("hello.inventory.groups[0]", (*INVENTORY_AT, 7, 0), [None, *NOT_TEXTS]),
    ("hello.inventory.labels", (*INVENTORY_AT, 8), [1, "x", b"", [], [["a", "b"]]]),
    ("hello.inventory.labels key", (*INVENTORY_AT, 8), [{1: "x"}, {"a\n": "x"}]),
    ("hello.inventory.labels['disk']", (*INVENTORY_AT, 8, "disk"), [None, *NOT_TEXTS]),
    ("hello.inventory.holds", (*INVENTORY_AT, 9), [*NOT_ARRAYS, ["x"] * 257]),
    ("hello.inventory.holds[0]", (*INVENTORY_AT, 9, 0), [None, *NOT_TEXTS]),
    ("hello.inventory.resources", (*INVENTORY_AT, 10), [1, "x", b"", [], [["a", 1]]]),
    ("hello.inventory.resources key", (*INVENTORY_AT, 10), [{1: 1}, {None: 1}]),
    (
        "hello.inventory.resources['fpga']",
        (*INVENTORY_AT, 10, "fpga"),
        numbers(UINT32, nil=False),
    ),
    ("hello.inventory.price", (*INVENTORY_AT, 11), numbers(UINT32, nil=True)),
    ("hello.inventory.slots", (*INVENTORY_AT, 12), numbers(65_535, nil=True)),
    ("hello.inventory.speed", (*INVENTORY_AT, 13), numbers(UINT32, nil=True)),
    ("hello.inventory.cpu_quota", (*INVENTORY_AT, 14), numbers(UINT32, nil=True)),
    (
        "hello.inventory.memory_limit_mib",
        (*INVENTORY_AT, 15),
        numbers(UINT32, nil=True),
    ),
    (
        "hello.inventory.gpus",
        (*INVENTORY_AT, 16),
        [*NOT_ARRAYS, [[0, "GPU-1", "A100"]] * 33],
    ),
    ("hello.inventory.gpus[0]", INFO_AT, [None, [], [0, "GPU-1"], *NOT_ARRAYS]),
    ("hello.inventory.gpus[0].device", (*INFO_AT, 0), numbers(31, nil=False)),
    ("hello.inventory.gpus[0].uuid", (*INFO_AT, 1), [None, *NOT_TEXTS]),
    ("hello.inventory.gpus[0].name", (*INFO_AT, 2), [None, *NOT_TEXTS]),
    ("hello.inventory.gpus[0].memory_mib", (*INFO_AT, 3), numbers(UINT32, nil=True)),
    ("hello.inventory.gpus[0].unified", (*INFO_AT, 4), numbers(1, nil=True)),
    ("hello.inventory.gpus[0].mig", (*INFO_AT, 5), numbers(1, nil=True)),
    ("hello.inventory.ephemeral", (*INVENTORY_AT, 17), numbers(1, nil=True)),
    ("hello.inventory.mode", (*INVENTORY_AT, 18), NOT_TEXTS),
    ("welcome.protocol", ("welcome", 1), numbers(UINT32, nil=False)),
    ("welcome.name", ("welcome", 2), [None, *NOT_TEXTS]),
    ("welcome.server_ms", ("welcome", 3), numbers(UINT53, nil=False)),
    ("welcome.interval_ms", ("welcome", 4), [0, 9, *numbers(3_600_000, nil=True)]),
    ("welcome.peers", ("welcome", 5), [*NOT_ARRAYS, ["x"] * 65]),
    ("welcome.peers[0]", ("welcome", 5, 0), [None, *NOT_TEXTS]),
    ("welcome.stored_seq", ("welcome", 6), numbers(UINT53, nil=True)),
    ("refused.reason", ("refused", 1), numbers(127, nil=False)),
    ("refused.text", ("refused", 2), [None, 1, b"x", "a\nb", "x" * 501]),
    ("refused.retry_s", ("refused", 3), numbers(86_400, nil=True)),
    ("frame.seq", ("frame", 1), numbers(UINT53, nil=False)),
    ("frame.boot_ms", ("frame", 2), numbers(UINT53, nil=False)),
    ("frame.gaps", ("frame", 3), numbers(UINT32, nil=True)),
    ("frame.cpu", CPU_AT, NOT_ARRAYS),
    ("frame.cpu.stall", (*CPU_AT, 0), numbers(10_000, nil=True)),
    ("frame.cpu.run_queue", (*CPU_AT, 1), numbers(65_535, nil=True)),
    ("frame.cpu.steal", (*CPU_AT, 2), numbers(10_000, nil=True)),
    ("frame.cpu.busy", (*CPU_AT, 3), numbers(10_000, nil=True)),
    ("frame.cpu.throttled", (*CPU_AT, 4), numbers(10_000, nil=True)),
    ("frame.cpu.throttled_periods", (*CPU_AT, 5), numbers(10_000, nil=True)),
    ("frame.cpu.irq_stall", (*CPU_AT, 6), numbers(10_000, nil=True)),
    ("frame.cpu.scope", (*CPU_AT, 7), numbers(127, nil=True)),
    ("frame.memory", MEMORY_AT, NOT_ARRAYS),
    ("frame.memory.stall_some", (*MEMORY_AT, 0), numbers(10_000, nil=True)),
    ("frame.memory.stall_full", (*MEMORY_AT, 1), numbers(10_000, nil=True)),
    ("frame.memory.available", (*MEMORY_AT, 2), numbers(10_000, nil=True)),
    ("frame.memory.swap_in", (*MEMORY_AT, 3), numbers(UINT32, nil=True)),
    ("frame.memory.swap_out", (*MEMORY_AT, 4), numbers(UINT32, nil=True)),
    ("frame.memory.major_faults", (*MEMORY_AT, 5), numbers(UINT32, nil=True)),
    ("frame.memory.refaults", (*MEMORY_AT, 6), numbers(UINT32, nil=True)),
    ("frame.memory.high_events", (*MEMORY_AT, 7), numbers(65_535, nil=True)),
    ("frame.memory.max_events", (*MEMORY_AT, 8), numbers(65_535, nil=True)),
    ("frame.memory.oom_kills", (*MEMORY_AT, 9), numbers(65_535, nil=True)),
    ("frame.memory.scope", (*MEMORY_AT, 10), numbers(127, nil=True)),
    ("frame.links", ("frame", 6), [*NOT_ARRAYS, [[0]] * 66]),
    ("frame.links[0]", LINK_AT, [None, [], *NOT_ARRAYS]),
    ("frame.links[0].peer", (*LINK_AT, 0), numbers(64, nil=False)),
    ("frame.links[0].method", (*LINK_AT, 1), numbers(127, nil=True)),
    ("frame.links[0].rtt_us", (*LINK_AT, 2), numbers(UINT32, nil=True)),
    ("frame.links[0].rtt_min_us", (*LINK_AT, 3), numbers(UINT32, nil=True)),
    ("frame.links[0].rtt_p95_us", (*LINK_AT, 4), numbers(UINT32, nil=True)),
    ("frame.links[0].jitter_us", (*LINK_AT, 5), numbers(UINT32, nil=True)),
    ("frame.links[0].loss", (*LINK_AT, 6), numbers(10_000, nil=True)),
    ("frame.links[0].retransmits", (*LINK_AT, 7), numbers(65_535, nil=True)),
    ("frame.links[0].tcp_rtt_us", (*LINK_AT, 8), numbers(UINT32, nil=True)),
    ("frame.links[0].tcp_rttvar_us", (*LINK_AT, 9), numbers(UINT32, nil=True)),
    ("frame.gpus", GPUS_AT, [[], *NOT_ARRAYS]),
    ("frame.gpus.state", (*GPUS_AT, 0), numbers(127, nil=False)),
    ("frame.gpus.age_ms", (*GPUS_AT, 1), numbers(UINT32, nil=True)),
    ("frame.gpus.stranding", (*GPUS_AT, 2), numbers(10_000, nil=True)),
    ("frame.gpus.mig_stranding", (*GPUS_AT, 3), numbers(10_000, nil=True)),
    ("frame.gpus.restarts", (*GPUS_AT, 4), numbers(UINT32, nil=True)),
    ("frame.gpus.devices", (*GPUS_AT, 5), [*NOT_ARRAYS, [[0]] * 33]),
    ("frame.gpus.devices[0]", GPU_AT, [None, [], *NOT_ARRAYS]),
    ("frame.gpus.devices[0].device", (*GPU_AT, 0), numbers(31, nil=False)),
    ("frame.gpus.devices[0].health", (*GPU_AT, 1), numbers(127, nil=True)),
    ("frame.gpus.devices[0].free_mib", (*GPU_AT, 2), numbers(UINT32, nil=True)),
    ("frame.gpus.devices[0].used_mib", (*GPU_AT, 3), numbers(UINT32, nil=True)),
    ("frame.gpus.devices[0].reserved_mib", (*GPU_AT, 4), numbers(UINT32, nil=True)),
    ("frame.gpus.devices[0].busy", (*GPU_AT, 5), numbers(10_000, nil=True)),
    ("frame.gpus.devices[0].effective", (*GPU_AT, 6), numbers(10_000, nil=True)),
    ("frame.gpus.devices[0].method", (*GPU_AT, 7), numbers(127, nil=True)),
    ("frame.gpus.devices[0].pseudo_high", (*GPU_AT, 8), numbers(1, nil=True)),
    ("frame.gpus.devices[0].clock", (*GPU_AT, 9), numbers(10_000, nil=True)),
    ("frame.gpus.devices[0].throttle", (*GPU_AT, 10), numbers(UINT32, nil=True)),
    ("frame.gpus.devices[0].power_mw", (*GPU_AT, 11), numbers(UINT32, nil=True)),
    ("frame.gpus.devices[0].temperature_c", (*GPU_AT, 12), signed(-128, 255)),
    ("frame.gpus.devices[0].reasons", (*GPU_AT, 13), numbers(UINT32, nil=True)),
    ("frame.gpus.devices[0].xid", (*GPU_AT, 14), numbers(65_535, nil=True)),
    ("frame.gpus.devices[0].mig", (*GPU_AT, 15), [*NOT_ARRAYS, [[0, 1]] * 17]),
    ("frame.gpus.devices[0].mig[0]", MIG_AT, [None, [], [1], *NOT_ARRAYS]),
    ("frame.gpus.devices[0].mig[0].instance", (*MIG_AT, 0), numbers(127, nil=False)),
    ("frame.gpus.devices[0].mig[0].slices", (*MIG_AT, 1), numbers(127, nil=False)),
    ("frame.gpus.devices[0].mig[0].free_mib", (*MIG_AT, 2), numbers(UINT32, nil=True)),
    ("frame.gpus.devices[0].mig[0].used_mib", (*MIG_AT, 3), numbers(UINT32, nil=True)),
    ("frame.io", IO_AT, NOT_ARRAYS),
    ("frame.io.stall_some", (*IO_AT, 0), numbers(10_000, nil=True)),
    ("frame.io.stall_full", (*IO_AT, 1), numbers(10_000, nil=True)),
    ("frame.net", NET_AT, NOT_ARRAYS),
    ("frame.net.utilisation", (*NET_AT, 0), numbers(10_000, nil=True)),
    ("frame.net.errors", (*NET_AT, 1), numbers(65_535, nil=True)),
    ("frame.net.drops", (*NET_AT, 2), numbers(65_535, nil=True)),
    ("frame.net.softnet_drops", (*NET_AT, 3), numbers(65_535, nil=True)),
    ("frame.clock_offset_ms", ("frame", 11), signed(1 - 2**31, 2**31 - 1)),
    ("frame.holes", ("frame", 8), NOT_ARRAYS),
    ("frame.holes[0]", HOLE_AT, [None, [], [34], *NOT_ARRAYS]),
    ("frame.holes[0].signal", (*HOLE_AT, 0), numbers(127, nil=False)),
    ("frame.holes[0].state", (*HOLE_AT, 1), numbers(127, nil=False)),
    ("frame.holes[0].age_ms", (*HOLE_AT, 2), numbers(UINT32, nil=True)),
    ("frame.holes[0].peer", (*HOLE_AT, 3), numbers(64, nil=True)),
    ("echo.reply", ("echo", 1), numbers(1, nil=False)),
    ("echo.ident", ("echo", 2), numbers(UINT53, nil=False)),
    ("echo.stamp_us", ("echo", 3), numbers(UINT53, nil=False)),
    ("echo.unix_ms", ("echo", 4), numbers(UINT53, nil=True)),
    ("ack.seq", ("ack", 1), numbers(UINT53, nil=False)),
    ("bye.why", ("bye", 1), numbers(127, nil=True)),
    ("bye.back_s", ("bye", 2), numbers(UINT32, nil=True)),
]


def with_value(path: tuple[Any, ...], value: object) -> bytes:
    """Return the bytes of a valid message, but for the field at the path."""
    message = copy.deepcopy(VALID[path[0]])
    inner: Any = message
    for step in path[1:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    data: bytes = msgpack.packb(message)
    return data


def refusal(data: bytes) -> WireError:
    with pytest.raises(WireError) as caught:
        list(Stream().feed(data))
    return caught.value


@pytest.mark.parametrize("message", VALID)
def test_the_messages_that_the_bad_fields_are_put_into_are_good(message: str) -> None:
    assert len(list(Stream().feed(msgpack.packb(VALID[message])))) == 1


@pytest.mark.parametrize(
    ("where", "path", "value"),
    [
        pytest.param(where, path, value, id=f"{where} {value!r:.20}")
        for where, path, values in FIELDS
        for value in values
    ],
)
def test_a_bad_field_is_refused_by_its_name(
    where: str, path: tuple[Any, ...], value: object
) -> None:
    error = refusal(with_value(path, value))
    assert isinstance(error, Malformed)
    assert error.where == where
    text = str(error)
    assert text.startswith(f"{where}: expected ")
    assert ", got " in text
    assert len(text) < 300
    assert text.isascii()
    assert text.isprintable()


@pytest.mark.parametrize(
    ("message", "least"),
    [("hello", 5), ("welcome", 4), ("refused", 3), ("frame", 3), ("echo", 4)],
)
def test_a_message_without_its_required_fields_is_refused(
    message: str, least: int
) -> None:
    assert len(list(Stream().feed(msgpack.packb(VALID[message][:least])))) == 1
    for length in range(1, least):
        error = refusal(msgpack.packb(VALID[message][:length]))
        assert str(error).startswith(f"{message}: expected at least ")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("c0", "message: expected an array whose first item is its kind, got None"),
        ("04", "message: expected an array whose first item is its kind, got 4"),
        ("80", "message: expected an array whose first item is its kind, got dict"),
        ("c7 00 09", "message: expected an array whose first item is its kind"),
        ("90", "message: expected at least a kind, got tuple of 0"),
        ("c1", "message: expected MessagePack, got '0xc1'"),
        ("92 06 c1", "message: expected MessagePack, got '0xc1'"),
        ("92 06 a1 ff", "message: expected text in UTF-8"),
        ("92 06 81 80 01", "message: expected text as key of each map"),
        ("92 06 d4 01 00", "message: 2 exceeds max_ext_len(0)"),
    ],
)
def test_what_is_no_message_at_all_is_refused_with_the_reason(
    data: str, said: str
) -> None:
    assert str(refusal(bytes.fromhex(data))).startswith(said)


def test_messages_before_the_bad_one_are_delivered() -> None:
    arrived: list[Message] = []
    with pytest.raises(Malformed, match=r"ack\.seq"):
        arrived.extend(Stream().feed(b"\x92\x06\x01\x92\x06\x02\x92\x06\xc0"))
    stream = Stream().feed(b"\x92\x06\x01\x92\x06\x02\x92\x06\xc0")
    assert [next(stream), next(stream)] == list(
        Stream().feed(b"\x92\x06\x01\x92\x06\x02")
    )


def everything_said(error: WireError) -> str:
    return "".join(traceback.format_exception(error)) + repr(error.args)


SECRETS: list[bytes] = [
    # The right field, a wrong value.
    with_value(("hello", 5), KEY[:31]),
    with_value(("hello", 5), KEY + b"!"),
    with_value(("hello", 5), KEY.decode()),
    with_value(("hello", 6), TOKEN.encode()),
    with_value(("hello", 6), TOKEN * 20),
    with_value(("hello", 6), TOKEN * 200),
    with_value(("hello", 6), [TOKEN]),
    with_value(("hello", 6), {TOKEN: TOKEN}),
    # Text that is not UTF-8, and bytes too long to be taken.
    msgpack.packb(VALID["hello"]).replace(b"SECRET-TOKEN", b"SECRET-TOKE\xff"),
    with_value(("hello", 5), KEY * 3),
    # Key and token in each other's place.
    msgpack.packb([*VALID["hello"][:5], TOKEN, KEY]),
    msgpack.packb([*VALID["hello"][:7], TOKEN]),
]


@pytest.mark.parametrize("data", SECRETS)
def test_no_error_carries_a_bad_key_or_token(data: bytes) -> None:
    assert b"SECRET" in data
    assert "SECRET" not in everything_said(refusal(data))


@pytest.mark.parametrize(
    "path",
    [
        *(path for _, path, _ in FIELDS if path[0] in ("hello", "frame")),
        *[("hello", position) for position in range(13) if position != 5],
    ],
)
def test_no_error_carries_a_key_in_a_wrong_place(path: tuple[Any, ...]) -> None:
    assert "SECRET" not in everything_said(refusal(with_value(path, KEY + b"!")))


@pytest.mark.parametrize("missing", range(1, 5))
def test_no_error_carries_a_key_moved_up_by_a_missing_field(missing: int) -> None:
    hello = VALID["hello"]
    data = msgpack.packb([*hello[:missing], *hello[missing + 1 :]])
    assert "SECRET" not in everything_said(refusal(data))
