"""The host's procfs and sysfs: files opened once and read again and again.

Opening costs several times what reading does, so descriptors are kept and
read with pread from offset 0, which makes the kernel write the file anew.
The trees may be any folders: a container's mount of the host's, recordings.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from .errors import Malformed, Unsupported

# /proc/stat of 4096 CPUs with their interrupts is about half of this.
LIMIT_BYTES = 1024 * 1024
_FIRST_READ_BYTES = 4096
# Files of many records (vmstat) come a page at a time, so that a short read
# need not be the end; but none ends a page with half of it left.
_SURELY_WHOLE_BYTES = 2048
_ABSENT = (errno.ENOENT, errno.ENOTDIR)


class Source(Protocol):
    """What probes read from."""

    def proc(self, name: str) -> bytes:
        """Return a file under procfs, as Host.proc."""

    def sys(self, name: str) -> bytes:
        """Return a file under sysfs, as Host.proc."""


class Host:
    """Two trees and the descriptors into them. Not for use across threads."""

    def __init__(
        self, procfs: Path = Path("/proc"), sysfs: Path = Path("/sys")
    ) -> None:
        self.procfs = procfs
        self.sysfs = sysfs
        self._proc = f"{procfs}/"
        self._sys = f"{sysfs}/"
        self._descriptors: dict[str, int] = {}
        self._sizes: dict[str, int] = {}  # bytes that one read should take

    def proc(self, name: str) -> bytes:
        """Return the whole of a file under procfs, as it is now.

        Unsupported if there is none, or the kernel says that it never will
        answer; Malformed past LIMIT_BYTES; any other OSError as it came.
        """
        return self._read(self._proc + name)

    def sys(self, name: str) -> bytes:
        """Return the whole of a file under sysfs; errors as for `proc`."""
        return self._read(self._sys + name)

    def close(self) -> None:
        """Give the descriptors back. Reading afterwards opens new ones."""
        for path in tuple(self._descriptors):
            self._drop(path)

    def _read(self, path: str) -> bytes:
        descriptor = self._descriptors.get(path)
        if descriptor is None:
            descriptor = self._opened(path)
        try:
            return self._whole(descriptor, path)
        except OSError as exc:
            self._drop(path)  # gone bad, perhaps: the next read opens it anew
            if exc.errno == errno.EOPNOTSUPP:
                raise Unsupported(
                    f"{path}: opens, but reading it fails: {exc}"
                ) from exc
            raise

    def _opened(self, path: str) -> int:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError as exc:
            if exc.errno in _ABSENT:
                raise Unsupported(f"{path}: no such file") from exc
            raise
        self._descriptors[path] = descriptor
        return descriptor

    def _whole(self, descriptor: int, path: str) -> bytes:
        size = self._sizes.get(path, _FIRST_READ_BYTES)
        text = os.pread(descriptor, size, 0)
        if len(text) < _SURELY_WHOLE_BYTES:
            return text
        while more := os.pread(descriptor, size, len(text)):
            text += more
            if len(text) > LIMIT_BYTES:
                raise Malformed(f"{path}: no end after {LIMIT_BYTES} bytes")
        if len(text) >= size:
            self._sizes[path] = 2 * len(text)
        return text

    def _drop(self, path: str) -> None:
        with suppress(OSError):
            os.close(self._descriptors.pop(path))


class Moment:
    """A host as of one sample: each file is read at most once.

    Probes that share a file see the same text of it, and on a host with
    hundreds of CPUs the kernel writes /proc/stat once, not once a probe.
    """

    def __init__(self, host: Source) -> None:
        self._host = host
        self._proc: dict[str, bytes] = {}

    def proc(self, name: str) -> bytes:
        """Return the file as first read in this sample; errors as for Host."""
        text = self._proc.get(name)
        if text is None:
            text = self._proc[name] = self._host.proc(name)
        return text

    def sys(self, name: str) -> bytes:
        """Return the file under sysfs as it is now: no two probes share one."""
        return self._host.sys(name)
