"""Hostile bytes into the stream decoder: only WireError may come out.

Takes valid messages, breaks them in the ways that break MessagePack (bits,
lengths, headers, splices, cuts) and adds random strings. Whatever still
decodes must encode, and decode to the same again.

    python bench/fuzz_wire.py --seconds 10 --seed 1

Anything else ends the run: traceback, the input in hex for `--replay HEX`,
exit status 1.
"""

import argparse
import json
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence

from trimtab.wire import (
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
    WireError,
    encode,
)

SEEDS = [
    encode(message)
    for message in (
        Hello(
            bytes(range(16)),
            bytes(range(16)),
            "edge-7",
            bytes(32),
            "token",
            bytes(16),
            "0.1.0",
            inventory=Inventory(
                4,
                7821,
                ("192.0.2.1", "2001:db8::1"),
                "192.0.2.7:80",
                "lyon",
                groups=("rack-1",),
                labels={"disk": "nvme", "été": "☀"},
                holds=("model",) * 40,
                resources={"fpga": 2},
                price=0.12,
                speed=1.5,
                cpu_quota=0.2,
                memory_limit_mib=512,
                gpus=(GpuInfo(0, "GPU-1", "A100", 81_920, False, True),),
                ephemeral=False,
                mode="edge",
            ),
        ),
        Welcome("edge-7", 1_767_225_600_000, 1000, ("192.0.2.1",), 7),
        Refused(Reason.CREDENTIAL, "unknown token", 60),
        Frame(
            90_061_002,
            90_061_250,
            3,
            Cpu(0.03, 1.5, 0.0, 0.44),
            Memory(0.0, 0.0, 0.73, 1e6, 1e9, 0.4),
            (
                Link(0, Method.ECHO, 412, 287, 655, 31, None, 2),
                Link(64, Method.TCP_CONNECT, 2**32 - 1, loss=1.0),
            ),
            (Hole("link.loss", State.UNSUPPORTED, None, 0),),
        ),
        Frame(
            90_061_003,
            90_062_250,
            0,
            Cpu(1.0, 1.5, 0.0, 0.44, 0.25, 0.5, 0.01, Scope.CONTAINER),
            Memory(0.1, 0.0, 0.03, 0, 0, 0.4, 327_000.0, 1, 2, 3, Scope.HOST),
            (Link(0, Method.TCP_INFO, tcp_rtt_us=412, tcp_rttvar_us=31),),
            (Hole("gpu.power", State.ERROR, 100, 1),),
            Gpus(
                GpuState.OK,
                100,
                0.25,
                0.5,
                1,
                (
                    Gpu(
                        *(0, GpuHealth.LOWERED, 31_000, 49_000, 600, 0.7, 0.31),
                        method=GpuMethod.GPM,
                        pseudo_high=True,
                        clock=0.95,
                        throttle=4,
                        power_mw=210_000,
                        temperature_c=-5,
                        reasons=32,
                        xid=94,
                        mig=(Mig(1, 3, 20_000, 20_000), Mig(2, 4)),
                    ),
                    Gpu(31),
                ),
            ),
            Io(0.05, 0.01),
            Net(0.12, 1.0, 2.0, 3.0),
            -40,
        ),
        Frame(1, 1),
        Frame(2, 2, gpus=Gpus(GpuState.ABSENT)),
        Echo(reply=False, ident=7, stamp_us=123_456),
        Echo(reply=True, ident=7, stamp_us=123_456, unix_ms=1_767_225_600_000),
        Ack(2**53 - 1),
        Bye(Farewell.SLEEP, 60),
    )
]
# First bytes that change how what follows is read: each format of the
# specification, with lengths from nothing to 4 GiB.
HEADERS = (
    *(b"\x90", b"\x9f", b"\xdc\x00\x00", b"\xdc\xff\xff", b"\xdd" + bytes(4)),
    *(b"\xdd\xff\xff\xff\xff", b"\x80", b"\x8f", b"\xde\x00\x00", b"\xde\xff\xff"),
    *(b"\xdf" + bytes(4), b"\xdf\xff\xff\xff\xff", b"\xa0", b"\xbf", b"\xd9\x00"),
    *(b"\xd9\xff", b"\xda\xff\xff", b"\xdb" + bytes(4), b"\xdb\xff\xff\xff\xff"),
    *(b"\xc4\x00", b"\xc4\xff", b"\xc5\xff\xff", b"\xc6\xff\xff\xff\xff"),
    *(b"\xc7\x00\x00", b"\xc7\x00\xff", b"\xc8\x00\xff\x01", b"\xd4\x01\x00"),
    *(b"\xc9\xff\xff\xff\xff\x01", b"\xd6\xff" + bytes(4), b"\xd6\x01" + bytes(4)),
    *(b"\xc0", b"\xc1", b"\xc2", b"\xc3", b"\xcc", b"\xff", b"\xe0", b"\x7f", b"\x00"),
    *(b"\xcf" + b"\xff" * 8, b"\xd3\x80" + bytes(7), b"\xce\xff\xff\xff\xff"),
    *(b"\xcb\x7f\xf8" + bytes(6), b"\xcb\x7f\xf0" + bytes(6), b"\xca\xff\x80\x00\x00"),
    *(b"\xa1\xff", b"\xa3\xed\xa0\x80", b"\xa3\xe2\x80\xa8", b"\xa1\x00"),
)


def flip(data: bytes, chance: random.Random) -> bytes:
    """Change a few bits."""
    broken = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
    return bytes(broken)


def put(data: bytes, chance: random.Random) -> bytes:
    """Put a header over some bytes, or between them."""
    start = chance.randrange(len(data))
    end = start + chance.randrange(6)
    return data[:start] + chance.choice(HEADERS) + data[end:]


def cut(data: bytes, chance: random.Random) -> bytes:
    """Leave out some bytes."""
    start = chance.randrange(len(data))
    return data[:start] + data[start + chance.randint(1, 8) :]


def repeat(data: bytes, chance: random.Random) -> bytes:
    """Say some bytes many times."""
    start = chance.randrange(len(data))
    end = start + chance.randint(1, 8)
    return data[:start] + data[start:end] * chance.choice((2, 60, 5000)) + data[end:]


def splice(data: bytes, chance: random.Random) -> bytes:
    """Go on in the middle of another message."""
    other = chance.choice(SEEDS)
    return data[: chance.randrange(len(data))] + other[chance.randrange(len(other)) :]


def nest(data: bytes, chance: random.Random) -> bytes:
    """Open many arrays or maps before it."""
    start = chance.randrange(len(data))
    level = chance.choice((b"\x91", b"\x81\x01", b"\xdc\x01\x40", b"\x81"))
    return data[:start] + level * chance.choice((1, 30, 1500)) + data[start:]


def noise(_: bytes, chance: random.Random) -> bytes:
    """Forget it: random bytes."""
    return chance.randbytes(chance.randint(1, 200))


BREAKS: Sequence[Callable[[bytes, random.Random], bytes]] = (
    flip,
    flip,
    put,
    put,
    cut,
    repeat,
    splice,
    nest,
    noise,
)


def hostile(chance: random.Random) -> bytes:
    """Return whole messages around one that is broken."""
    broken = chance.choice(SEEDS)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        broken = chance.choice(BREAKS)(broken, chance) or b"\xc0"
    return chance.choice((b"", chance.choice(SEEDS))) + broken + chance.choice(SEEDS)


def deliver(data: bytes, piece: int) -> tuple[list[Message], str]:
    """Return the messages that came out, and how it ended.

    Anything but a WireError passes through.
    """
    stream = Stream()
    arrived: list[Message] = []
    try:
        for start in range(0, len(data), piece):
            arrived.extend(stream.feed(data[start : start + piece]))
    except WireError as exc:
        return arrived, type(exc).__name__
    return arrived, "unfinished" if stream.partial_bytes else "whole"


def check(data: bytes, piece: int) -> tuple[int, str]:
    """Return the number of messages and the end; AssertionError if unstable."""
    arrived, end = deliver(data, piece)
    again, _ = deliver(b"".join(map(encode, arrived)), 1 << 20)
    if repr(again) != repr(arrived):
        raise AssertionError(f"{arrived} became {again}")
    return len(arrived), end


def peak_mib() -> float:
    """Return the most memory this process has held."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def run(seed: int, seconds: float | None, count: int | None) -> dict[str, float]:
    """Return the report; what should not come out comes with its input noted."""
    chance = random.Random(seed)
    seen: Counter[str] = Counter()
    check(b"".join(SEEDS), 100)
    began_mib, began = peak_mib(), time.perf_counter()
    while (count is None or seen["inputs"] < count) and (
        seconds is None or time.perf_counter() - began < seconds
    ):
        data = hostile(chance)
        piece = chance.choice((7, 100, 1 << 20)) if len(data) < 2000 else 5000
        try:
            messages, end = check(data, piece)
        except Exception as exc:
            exc.add_note(f"to see it again: --replay {data.hex()}")
            raise
        seen.update(inputs=1, bytes=len(data), messages=messages)
        seen[end] += 1
    took_s = time.perf_counter() - began
    return {
        "seed": seed,
        **seen,
        "inputs_per_s": round(seen["inputs"] / took_s),
        "peak_mib": round(peak_mib(), 1),
        "memory_growth_mib": round(peak_mib() - began_mib, 1),
    }


def main() -> int:
    """Run until the time or the count is over."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--replay", metavar="HEX", type=bytes.fromhex)
    args = parser.parse_args()
    if args.replay:
        print(*check(args.replay, 1 << 20))
        return 0
    seconds = 10.0 if args.seconds is None and args.count is None else args.seconds
    report = run(args.seed, seconds, args.count)
    if args.json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name:<18} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
