"""Many agents' frames for bench/ingest.py: captured, varied, and sent by load.c.

A real agent speaks to a socket of ours for a few seconds. Its frames, with
values varied and room for the sequence and boot clock that load.c patches in,
are what every connection of the load sends.
"""

import random
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.processes import Fleet

from trimtab.wire import Ack, Echo, Frame, Hello, Inventory, Stream, Welcome, encode

SOURCE = Path(__file__).with_suffix(".c")
BOOT_BASE_MS = 100_000_000  # takes five bytes on the wire, as load.c expects
FIRST_SEQ = 0x01000000
VARIED = 500
CAPTURED = 6  # frames; those before lack rates and round trips
CAPTURE_S = 20.0


class Absent(RuntimeError):
    """Something that this needs is not here; the text says what."""


def captured(fleet: Fleet) -> Frame:
    """Return a frame of a real agent of this host, past its first ones."""
    with socket.create_server(("127.0.0.1", fleet.frames_port)) as server:
        server.settimeout(CAPTURE_S)
        agent = fleet.agent("captured", gpu="false")
        try:
            frames = 0
            for frame in _frames(server):
                frames += 1
                if frames > CAPTURED:
                    return frame
            raise Absent(f"the agent sent {frames} frames: {fleet.log('captured')}")
        finally:
            fleet.stop(agent)


def _frames(server: socket.socket) -> Iterator[Frame]:
    until = time.monotonic() + CAPTURE_S
    while time.monotonic() < until:
        agent, _ = server.accept()
        stream = Stream()
        with agent, suppress(TimeoutError):
            agent.settimeout(CAPTURE_S)
            while data := agent.recv(65536):
                for message in stream.feed(data):
                    if isinstance(message, Hello):
                        unix_ms = round(time.time() * 1000)
                        agent.sendall(encode(Welcome(message.name, unix_ms)))
                    elif isinstance(message, Echo) and not message.reply:
                        agent.sendall(encode(message._replace(reply=True)))
                    elif isinstance(message, Frame):
                        agent.sendall(encode(Ack(message.seq)))
                        yield message


def varied(frame: Frame, rng: random.Random) -> Frame:
    """Return the frame as another host of the kind would send it."""
    busy = rng.random() * 0.6
    links = tuple(
        link._replace(
            rtt_us=rng.randrange(200, 30_000),
            rtt_min_us=rng.randrange(100, 200),
            rtt_p95_us=rng.randrange(30_000, 60_000),
            jitter_us=rng.randrange(20, 3000),
        )
        for link in frame.links
    )
    return frame._replace(
        seq=FIRST_SEQ,
        boot_ms=BOOT_BASE_MS,
        cpu=frame.cpu._replace(busy=busy, run_queue=busy, stall=busy * rng.random()),
        memory=frame.memory._replace(
            available=rng.uniform(0.3, 0.95), major_faults_s=rng.random() * 10
        ),
        links=links,
    )


def hello(number: int) -> Hello:
    """Return the hello of one connection; its node's name is n and the number."""
    return Hello(
        node_id=number.to_bytes(16, "big"),
        boot_id=b"b" * 16,
        name=f"n{number}",
        key=number.to_bytes(32, "big"),
        agent_version="bench",
        interval_ms=1000,
        boot_ms=BOOT_BASE_MS,
        inventory=Inventory(cpus=8, memory_mib=16_000, site="bench", slots=8),
    )


class Load(NamedTuple):
    """What load.c sends, as told by its `sent` line."""

    frames: int
    seconds: float
    late: int  # turns in which a socket took nothing: the collector held us


class Generator:
    """load.c, built and running, with every connection up."""

    def __init__(
        self,
        folder: Path,
        port: int,
        connections: int,
        frames: Sequence[bytes],
        cpu: int | None,
    ) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            raise Absent("a C compiler named cc: apt-get install gcc")
        program, file = folder / "load", folder / "load.bin"
        subprocess.run([compiler, "-O2", "-o", program, SOURCE], check=True)
        head = struct.pack("=III", BOOT_BASE_MS, connections, len(frames))
        hellos = (encode(hello(number)) for number in range(connections))
        file.write_bytes(head + b"".join(map(_blob, (*hellos, *frames))))
        pinned = [] if cpu is None else ["taskset", "-c", str(cpu)]
        self.process = subprocess.Popen(
            [*pinned, program, str(port), file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._expect("connected")

    def send(self, rate: float, each: int, seconds: float) -> Load:
        """Send so many frames a second in writes of `each`; 0: all it can."""
        self.begin(rate, each, seconds)
        return self.wait()

    def begin(self, rate: float, each: int, seconds: float) -> None:
        """Start to send; see `wait`."""
        if self.process.stdin is None:
            raise RuntimeError("the load generator has no input")
        self.process.stdin.write(f"{rate} {each} {seconds}\n")
        self.process.stdin.flush()

    def wait(self) -> Load:
        """Return what was sent since `begin`."""
        _, sent, seconds, late = self._expect("sent")
        return Load(int(sent), float(seconds), int(late))

    def _expect(self, word: str) -> list[str]:
        line = "" if self.process.stdout is None else self.process.stdout.readline()
        if not line.startswith(word):
            raise RuntimeError(f"the load generator said {line!r}, not {word!r}")
        return line.split()

    def close(self) -> None:
        """End it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def _blob(data: bytes) -> bytes:
    return struct.pack("=I", len(data)) + data
