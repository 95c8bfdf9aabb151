"""A bad path for TCP: a relay that delays, jitters and stalls what passes.

    python bench/truth/relay.py 7766      PORT of the collector to lead to

Run by health_truth.py, which reads its two ports from the first line: one
leads to the collector, the other to a service that answers 1 KiB to each 256
bytes. Each line on standard input sets the path from then on: delay_ms and
jitter_ms each way, loss as a share of segments, separated by spaces.

The kernel here has no netem, and TCP hides loss: what a lost segment does to a
stream is that it and all behind it arrive a retransmission timeout later. So
that is what happens here: a segment is a read, and one that is lost waits
200 ms (the kernel's TCP_RTO_MIN) or, lost again, double that. Every connection
and direction has chance of its own; order is kept.
"""

import asyncio
import contextlib
import random
import sys
from typing import NamedTuple

RTO_MIN_S = 0.2
QUESTION, ANSWER = 256, bytes(1024)


class Path(NamedTuple):
    """What the path does to a segment, one way."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0

    def wait_s(self, rng: random.Random) -> float:
        """Return for how long a segment is on its way."""
        wait_s = self.delay_s + rng.expovariate(1) * self.jitter_s
        timeout_s = RTO_MIN_S
        while rng.random() < self.loss:
            wait_s += timeout_s
            timeout_s *= 2
        return wait_s


def parse(line: str) -> Path:
    """Return the path that a line of standard input sets."""
    delay_ms, jitter_ms, loss = map(float, line.split())
    return Path(delay_ms / 1000, jitter_ms / 1000, loss)


class Relay:
    """Connections to one port, led to another over the path."""

    def __init__(self, port: int, rng: random.Random) -> None:
        self.path = Path()
        self._port = port
        self._rng = rng

    async def take(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Carry one connection both ways until either side ends it."""
        try:
            far = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.close()
            return
        there = asyncio.create_task(self._carry(reader, far[1]))
        back = asyncio.create_task(self._carry(far[0], writer))
        await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
        for task in (there, back):
            task.cancel()
        for end in (writer, far[1]):
            end.close()

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        loop = asyncio.get_running_loop()
        # Segments on their way, in order.
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def arrive() -> None:
            while True:
                due, segment = await line.get()
                if (wait_s := due - loop.time()) > 0:
                    await asyncio.sleep(wait_s)
                writer.write(segment)

        arriving = asyncio.create_task(arrive())
        with contextlib.suppress(OSError):
            while segment := await reader.read(65_536):
                due = loop.time() + self.path.wait_s(self._rng)
                line.put_nowait((due, segment))
        arriving.cancel()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Be the service: an answer to each question."""
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        while True:
            await reader.readexactly(QUESTION)
            writer.write(ANSWER)
    writer.close()


async def serve(collector_port: int) -> None:
    """Lead to the collector and to the service until standard input ends."""
    rng = random.Random()
    service = await asyncio.start_server(answer, "127.0.0.1", 0)
    relays = [Relay(collector_port, rng), Relay(_port(service), rng)]
    doors = [await asyncio.start_server(r.take, "127.0.0.1", 0) for r in relays]
    print(*map(_port, doors), flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    while line := await lines.readline():
        for relay in relays:
            relay.path = parse(line.decode())


def _port(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
