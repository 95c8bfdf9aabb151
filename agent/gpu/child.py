"""The GPU child: NVML on one thread, ticks in by stdin, samples out by stdout.

    python -m trimtab.agent.gpu.child [--no-gpm]

The first thread only reads stdin, so that the child ends when its agent does,
even while a call into the driver hangs: a thread that is stuck there is left
behind by leaving the process, and NVML is shut down only by its own thread,
between calls. A tick is one MessagePack integer; answers are readings.py's.
"""

import argparse
import os
import signal
import threading
from queue import SimpleQueue
from typing import NoReturn

import msgpack
import pynvml

from ..errors import Contained
from . import codes
from .asked import MustReplace, code_of
from .reader import Reader, replaced_by
from .readings import Failed, Message, Ready, Replace, pack

# For a call in flight, at the end; the agent's patience is longer.
LAST_CALL_S = 1.0
READ_BYTES = 4096


def main() -> NoReturn:
    """Serve ticks until stdin closes or SIGTERM comes; never returns."""
    parser = argparse.ArgumentParser(prog="trimtab.agent.gpu.child")
    parser.add_argument("--no-gpm", action="store_true")
    args = parser.parse_args()
    # What a library prints must not land among the messages.
    out = os.dup(1)
    os.dup2(2, 1)
    ticks: SimpleQueue[int | None] = SimpleQueue()
    asker = threading.Thread(
        target=serve, args=(ticks, out), kwargs={"gpm": not args.no_gpm}, daemon=True
    )
    # The agent gets a Ctrl-C too, and ends this process in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: _leave(ticks, asker))
    asker.start()
    unpacker = msgpack.Unpacker()
    while data := os.read(0, READ_BYTES):
        unpacker.feed(data)
        for tick in unpacker:
            ticks.put(tick)
    _leave(ticks, asker)


def _leave(ticks: "SimpleQueue[int | None]", asker: threading.Thread) -> NoReturn:
    ticks.put(None)
    if asker.ident is not None:
        asker.join(LAST_CALL_S)
    # Not sys.exit: a thread that hangs in the driver would keep the process.
    os._exit(0)


def serve(ticks: "SimpleQueue[int | None]", out: int, *, gpm: bool) -> None:
    """Open NVML, answer each tick, shut NVML down: all on this thread."""
    reader: Reader | None = None
    with Contained() as opening:
        reader = Reader(gpm=gpm)
    if reader is None:
        _tell(out, _opening_failed(opening.fault))
        return
    _tell(out, Ready(reader.driver))
    while (tick := ticks.get()) is not None:
        answer: Message | None = None
        with Contained() as ended:
            answer = reader.sample(tick)
        if answer is None:
            _tell(out, _ended_by(ended.fault))
            break
        _tell(out, answer)
    reader.close()


def _opening_failed(fault: Exception | None) -> Message:
    if isinstance(fault, MustReplace):
        return Replace(fault.cause, str(fault))
    code = codes.BUG if fault is None else code_of(fault)
    return Failed(code, _text(fault))


def _ended_by(fault: Exception | None) -> Message:
    if fault is not None:
        replace = fault if isinstance(fault, MustReplace) else replaced_by(fault)
        if replace is not None:
            return Replace(replace.cause, str(replace))
    return _opening_failed(fault)


def _text(fault: Exception | None) -> str:
    if isinstance(fault, pynvml.NVMLError):
        return f"NVML: {codes.text(code_of(fault))}"
    return f"{type(fault).__name__}: {fault}"


def _tell(out: int, message: Message) -> None:
    data = memoryview(pack(message))
    while data:
        data = data[os.write(out, data) :]


if __name__ == "__main__":
    main()
