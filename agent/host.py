"""The host's procfs and sysfs: files opened once and read again and again.

Opening costs several times what reading does, so descriptors are kept and
read with pread from offset 0, which makes the kernel write the file anew.
The trees may be any folders: a container's mount of the host's, recordings.
What is read once a minute is opened for it and not kept.
"""

import errno
import os
import stat
from collections.abc import Sequence
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

    @property
    def cgroup(self) -> str | None:
        """The control group to watch in place of the host, if any."""

    def proc(self, name: str) -> bytes:
        """Return a file under procfs, as Host.proc."""

    def sys(self, name: str) -> bytes:
        """Return a file under sysfs, as Host.proc."""

    def look(self, name: str) -> bytes:
        """Return a file under sysfs that is read seldom, as Host.look."""

    def has(self, name: str) -> bool:
        """Return whether sysfs has such a file or folder."""

    def names(self, folder: str) -> Sequence[str]:
        """Return what is in a folder of sysfs; nothing if there is none."""

    def forget(self, folder: str) -> None:
        """Read nothing under this folder of sysfs from files opened before."""


class Host:
    """Two trees and the descriptors into them. Not for use across threads.

    `cgroup` is the control group to watch in place of the host, a path as in
    procfs PID/cgroup; None watches the host.
    """

    def __init__(
        self,
        procfs: Path = Path("/proc"),
        sysfs: Path = Path("/sys"),
        cgroup: str | None = None,
    ) -> None:
        self.procfs = procfs
        self.sysfs = sysfs
        self.cgroup = cgroup
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

    def look(self, name: str) -> bytes:
        """Return the whole of a file under sysfs; errors as for `proc`.

        It is opened anew and closed again.
        """
        path = self._sys + name
        try:
            return self._read(path)
        finally:
            self._drop(path)

    def has(self, name: str) -> bool:
        """Return whether sysfs has such a file or folder."""
        return (self.sysfs / name).exists()

    def names(self, folder: str) -> Sequence[str]:
        """Return what is in a folder of sysfs, sorted; nothing if there is none."""
        try:
            return sorted(path.name for path in (self.sysfs / folder).iterdir())
        except OSError:
            return ()

    def forget(self, folder: str) -> None:
        """Close what is open under this folder of sysfs.

        A removed file that came back has the same name and another content.
        """
        for path in tuple(self._descriptors):
            if path.startswith(f"{self._sys}{folder}/"):
                self._drop(path)

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
            # Not to hang where a tree has a pipe in a file's place.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as exc:
            if exc.errno in _ABSENT:
                raise Unsupported(f"{path}: no such file") from exc
            raise
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
            raise OSError(number, "not a regular file", path)
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
        descriptor = self._descriptors.pop(path, None)
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)


class Moment:
    """A host as of one sample: each file is read at most once.

    Probes that share a file see the same text of it, and on a host with
    hundreds of CPUs the kernel writes /proc/stat once, not once a probe.
    """

    def __init__(self, host: Source) -> None:
        self._host = host
        self._proc: dict[str, bytes] = {}
        self._sys: dict[str, bytes] = {}
        self.cgroup = host.cgroup
        self.look, self.has = host.look, host.has
        self.names, self.forget = host.names, host.forget

    def proc(self, name: str) -> bytes:
        """Return the file as first read in this sample; errors as for Host."""
        text = self._proc.get(name)
        if text is None:
            text = self._proc[name] = self._host.proc(name)
        return text

    def sys(self, name: str) -> bytes:
        """Return the file as first read in this sample; errors as for Host."""
        text = self._sys.get(name)
        if text is None:
            text = self._sys[name] = self._host.sys(name)
        return text
