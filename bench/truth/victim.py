"""Real work with known parts, done over and over; each piece's time is noted.

    python bench/truth/victim.py cpu LOG
    python bench/truth/victim.py network LOG --port 7000

Run by health_truth.py. A piece is followed by a pause, so that the work alone
does not fill the host, and so that what stalls it shows as a share of time:
  cpu      JSON, compression and a hash of the same document
  memory   walks 8 MiB of its own and reads all over a file that fits its cache
  io       writes and syncs a file, and reads another past the cache
  network  a little computing, and a question to a service over one connection
  mixed    a little of each in turn
To LOG goes a record of two doubles a piece: when it ended, on the monotonic
clock, and how long it took, both in seconds.
"""

import argparse
import hashlib
import json
import mmap
import os
import random
import socket
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path

Work = Callable[[], None]

RECORD = struct.Struct("=dd")
PAUSE_S = 0.06
MIB = 2**20
BLOCK = 16 * 1024
SECTOR = 4096
FILE_MIB = 40  # that the memory victim reads
OWN_MIB = 8  # that it walks
DISK_MIB = 16  # of the file that the I/O victim reads past the cache


def computing(rounds: int) -> Work:
    """Return work that needs a processor and nothing else."""
    rng = random.Random(1)
    document = [{"id": n, "value": rng.random()} for n in range(250)]

    def work() -> None:
        for _ in range(rounds):
            text = json.dumps(document).encode()
            hashlib.sha256(zlib.compress(text)).digest()
            json.loads(text)

    return work


def remembering(folder: Path, blocks: int, file_mib: int = FILE_MIB) -> Work:
    """Return work over memory of its own and over a file in the page cache."""
    rng = random.Random(os.getpid())
    own = bytearray(os.urandom(MIB)) * OWN_MIB
    file = _file(folder / f"cached-{os.getpid()}", file_mib)
    places = file_mib * MIB // BLOCK

    def work() -> None:
        zlib.crc32(own)
        for _ in range(blocks):
            os.pread(file, BLOCK, rng.randrange(places) * BLOCK)

    return work


def storing(folder: Path, writes: int, reads: int) -> Work:
    """Return work that waits for the disk: synced writes and direct reads."""
    rng = random.Random(os.getpid())
    text = os.urandom(4 * SECTOR)
    written = _file(folder / f"written-{os.getpid()}", 1)
    _file(folder / f"read-{os.getpid()}", DISK_MIB)
    direct = os.open(folder / f"read-{os.getpid()}", os.O_RDONLY | os.O_DIRECT)
    aligned = mmap.mmap(-1, SECTOR)
    places = DISK_MIB * MIB // SECTOR

    def work() -> None:
        for _ in range(writes):
            os.pwrite(written, text, rng.randrange(32) * len(text))
            os.fdatasync(written)
        for _ in range(reads):
            os.preadv(direct, [aligned], rng.randrange(places) * SECTOR)

    return work


def asking(port: int, questions: int) -> Work:
    """Return work that is a service's: questions and their answers over TCP."""
    peer = socket.create_connection(("127.0.0.1", port))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    question = bytes(256)

    def work() -> None:
        for _ in range(questions):
            peer.sendall(question)
            missing = 1024
            while missing:
                got = len(peer.recv(missing))
                if not got:
                    raise ConnectionError("the service went away")
                missing -= got

    return work


def in_turn(*parts: Work) -> Work:
    """Return the parts as one piece of work."""

    def work() -> None:
        for part in parts:
            part()

    return work


def _file(path: Path, mib: int) -> int:
    """Return a descriptor of a new file on the disk, none of it cached."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    for _ in range(mib):
        os.write(file, os.urandom(MIB))
    os.fsync(file)
    # Cached pages are charged to who reads them first: us, in our own group.
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    return file


def chosen(kind: str, folder: Path, port: int) -> Work:
    """Return the work of that name: 5 to 15 ms of it on a calm host."""
    if kind == "cpu":
        return computing(8)
    if kind == "memory":
        return remembering(folder, 1000)
    if kind == "io":
        return storing(folder, 4, 24)
    if kind == "network":
        return in_turn(computing(3), asking(port, 1))
    return in_turn(
        computing(3),
        remembering(folder, 400),
        storing(folder, 2, 8),
        asking(port, 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = ("cpu", "memory", "io", "network", "mixed")
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("log", type=Path)
    parser.add_argument("--port", type=int, default=0, help="of the service")
    args = parser.parse_args()
    work = chosen(args.kind, args.log.parent, args.port)
    rng = random.Random(os.getpid())
    with args.log.open("ab", buffering=0) as log:
        print("ready", flush=True)
        while True:
            begun_s = time.monotonic()
            work()
            ended_s = time.monotonic()
            log.write(RECORD.pack(ended_s, ended_s - begun_s))
            # Not in step with another victim, nor with the agent.
            time.sleep(PAUSE_S * rng.uniform(0.7, 1.3))


if __name__ == "__main__":
    main()
