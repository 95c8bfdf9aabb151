"""docs/wire.md says what the code does: its examples decode, its tables agree."""

import re
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

from trimtab.wire import (
    GPU_REASONS,
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

PAGE = (Path(__file__).parents[2] / "docs" / "wire.md").read_text()

# What the examples on the page are said to mean.
MEANT: dict[str, Message] = {
    "hello": Hello(
        node_id=bytes(range(16)),
        boot_id=bytes(range(16, 32)),
        name="edge-7",
        key=bytes(range(32, 64)),
        token="tt-enrol",
        agent_version="0.1.0",
        interval_ms=1000,
        silence_ms=60_000,
        boot_ms=90_061_000,
        inventory=Inventory(
            cpus=4,
            memory_mib=7821,
            targets=("192.0.2.1",),
            site="lyon",
            labels={"disk": "nvme"},
            holds=("llama-8b",),
            price=0.12,
            slots=8,
        ),
    ),
    "welcome": Welcome("edge-7", 1_767_225_600_000, stored_seq=90_061_001),
    "frame": Frame(
        seq=90_061_002,
        boot_ms=90_061_250,
        cpu=Cpu(0.0312, 1.5, 0.0, 0.4375),
        memory=Memory(0.0, 0.0, 0.7321, 0.0, 0.0, 0.4),
        links=(
            Link(0, Method.ECHO, 412, 287, 655, 31, None, 0),
            Link(1, Method.ICMP_DATAGRAM, 18_250, 17_900, 21_040, 340, 0.0167),
        ),
        holes=(
            Hole("link.loss", State.UNSUPPORTED, None, 0),
            Hole("link.jitter", State.STALE, 3200, 1),
        ),
    ),
    "more": Frame(
        seq=90_061_003,
        boot_ms=90_062_250,
        cpu=Cpu(0.8312, throttled=0.25, throttled_periods=0.5, scope=Scope.CONTAINER),
        memory=Memory(available=0.031, refaults_s=1204.5, oom_kills=0),
        links=(Link(0, Method.TCP_INFO, tcp_rtt_us=412, tcp_rttvar_us=31),),
        holes=(Hole("gpu.power", State.UNSUPPORTED, None, 1),),
        gpus=Gpus(
            GpuState.OK,
            stranding=0.25,
            devices=(
                Gpu(
                    device=0,
                    health=GpuHealth.LOWERED,
                    free_mib=31_000,
                    used_mib=49_000,
                    reserved_mib=600,
                    busy=0.7,
                    effective=0.31,
                    method=GpuMethod.GPM,
                    pseudo_high=True,
                    throttle=0,
                    temperature_c=64,
                    reasons=1 << 5,
                    mig=(Mig(1, 3, 20_000, 20_000),),
                ),
            ),
        ),
        io=Io(0.05, 0.01),
        net=Net(0.12, 0.0, 0.0, 0.0),
        clock_offset_ms=-40,
    ),
    "echo": Echo(False, 7, 123_456),
    "ack": Ack(90_061_002),
    "refused": Refused(Reason.CREDENTIAL, "unknown token", 60),
    "bye": Bye(Farewell.SLEEP),
}
EXAMPLES: dict[str, str] = dict(
    re.findall(r"^```hex (\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
)


def test_every_message_has_an_example() -> None:
    assert EXAMPLES.keys() == MEANT.keys()


@pytest.mark.parametrize("message", EXAMPLES)
def test_an_example_means_what_the_page_says(message: str) -> None:
    lines = EXAMPLES[message].splitlines()
    data = bytes.fromhex(" ".join(line.partition(";")[0] for line in lines))
    assert list(Stream().feed(data)) == [MEANT[message]]
    assert encode(MEANT[message]) == data


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the tables between a heading and the next."""
    section = re.split(rf"^#+ {heading}$", PAGE, flags=re.MULTILINE)[1]
    section = re.split(r"^#", section, flags=re.MULTILINE)[0]
    lines = re.findall(r"^\|(.*)\|$", section, re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def test_the_page_lists_every_signal() -> None:
    listed = {}
    for cells in rows("Signals"):
        for number, name in (cells[0:2], cells[3:5]):
            if number.isdigit():
                listed[int(number)] = name
    assert listed == SIGNALS


@pytest.mark.parametrize(
    ("heading", "members"),
    [
        ("States", list(State)),
        ("Methods", list(Method)),
        ("Reasons", list(Reason)),
        ("Farewells", list(Farewell)),
        ("Scopes", list(Scope)),
        ("GPU states", list(GpuState)),
        ("GPU methods", list(GpuMethod)),
        ("GPU health", list(GpuHealth)),
    ],
)
def test_the_page_lists_every_number(heading: str, members: list[IntEnum]) -> None:
    listed = {
        int(cells[0]): cells[1].partition(":")[0].replace(" ", "_").upper()
        for cells in rows(heading)
        if cells[0].isdigit()
    }
    assert listed == {member.value: member.name for member in members}


def test_the_page_lists_every_reason_of_a_gpu() -> None:
    listed = {int(c[0]): c[1] for c in rows("GPU reasons") if c[0].isdigit()}
    assert listed == GPU_REASONS


@pytest.mark.parametrize(
    ("heading", "fields"),
    [
        ("1 hello", 13 + 19 + 6),
        ("2 welcome", 7),
        ("3 refused", 4),
        ("4 frame", 12 + 8 + 11 + 10 + (6 + 16 + 4) + 2 + 4 + 4),
        ("5 echo", 5),
        ("6 ack", 2),
        ("7 bye", 3),
    ],
)
def test_the_page_has_a_row_for_each_field_with_its_version(
    heading: str, fields: int
) -> None:
    numbered = [cells for cells in rows(heading) if cells[0].isdigit()]
    assert len(numbered) == fields
    assert all(re.fullmatch(r"\d+\.\d+", cells[-1]) for cells in numbered)


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("**Inventory**", Inventory),
        ("**gpu info**", GpuInfo),
        ("**cpu**", Cpu),
        ("**memory**", Memory),
        ("**link**", Link),
        ("**gpus**", Gpus),
        ("**gpu**", Gpu),
        ("**mig**", Mig),
        ("**io**", Io),
        ("**net**", Net),
        ("**hole**", Hole),
    ],
)
def test_the_page_names_every_field_at_its_position(heading: str, kind: Any) -> None:
    part = PAGE.split(f"\n{heading}", 1)[1]
    rows = re.findall(r"^\| (\d+) \| (\w+) \|", part.split("\n\n")[1], re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(len(kind._fields)))
    for (_, told), field in zip(rows, kind._fields, strict=True):
        # A name on the page may leave off the unit, which stands beside it.
        assert field == told or field.startswith(f"{told}_"), (told, field)
