"""The host's procfs and sysfs: files opened once and read again and again.

Opening costs several times what reading does, so descriptors are kept and
read with pread from offset 0, which makes the kernel write the file anew.
The trees may be any folders: a container's mount of the host's, recordings.
What is read once a minute is opened for it and not kept.
"""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from .errors import Malformed, Unsupported
from .paths import StrPath, exists

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


class _Tree:
    """One tree and the descriptors into it, by name."""

    def __init__(self, root: StrPath) -> None:
        self.root = f"{os.fspath(root)}/"
        self._descriptors: dict[str, int] = {}
        self._sizes: dict[str, int] = {}  # bytes that one read should take

    def read(self, name: str) -> bytes:
        """Return the whole of a file; errors as for Host.proc."""
        descriptor = self._descriptors.get(name)
        if descriptor is None:
            descriptor = self._opened(name)
        try:
            text = os.pread(descriptor, self._sizes.get(name, _FIRST_READ_BYTES), 0)
            if len(text) < _SURELY_WHOLE_BYTES:
                return text
            return self._rest(descriptor, name, text)
        except OSError as exc:
            self.drop(name)  # gone bad, perhaps: the next read opens it anew
            if exc.errno == errno.EOPNOTSUPP:
                raise Unsupported(
                    f"{self.root}{name}: opens, but reading it fails: {exc}"
                ) from exc
            raise

    def _rest(self, descriptor: int, name: str, text: bytes) -> bytes:
        size = self._sizes.get(name, _FIRST_READ_BYTES)
        while more := os.pread(descriptor, size, len(text)):
            text += more
            if len(text) > LIMIT_BYTES:
                raise Malformed(f"{self.root}{name}: no end after {LIMIT_BYTES} bytes")
        if len(text) >= size:
            self._sizes[name] = 2 * len(text)
        return text

    def _opened(self, name: str) -> int:
        path = self.root + name
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
        self._descriptors[name] = descriptor
        return descriptor

    def drop(self, name: str) -> None:
        """Close a file, if it is open."""
        descriptor = self._descriptors.pop(name, None)
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)

    def forget(self, start: str) -> None:
        """Close every file whose name starts so."""
        for name in tuple(self._descriptors):
            if name.startswith(start):
                self.drop(name)


class Host:
    """Two trees and the descriptors into them. Not for use across threads.

    `cgroup` is the control group to watch in place of the host, a path as in
    procfs PID/cgroup; None watches the host.
    """

    def __init__(
        self,
        procfs: StrPath = "/proc",
        sysfs: StrPath = "/sys",
        cgroup: str | None = None,
    ) -> None:
        self.cgroup = cgroup
        self._proc, self._sys = _Tree(procfs), _Tree(sysfs)

    def proc(self, name: str) -> bytes:
        """Return the whole of a file under procfs, as it is now.

        Unsupported if there is none, or the kernel says that it never will
        answer; Malformed past LIMIT_BYTES; any other OSError as it came.
        """
        return self._proc.read(name)

    def sys(self, name: str) -> bytes:
        """Return the whole of a file under sysfs; errors as for `proc`."""
        return self._sys.read(name)

    def look(self, name: str) -> bytes:
        """Return the whole of a file under sysfs; errors as for `proc`.

        It is opened anew and closed again.
        """
        try:
            return self._sys.read(name)
        finally:
            self._sys.drop(name)

    def has(self, name: str) -> bool:
        """Return whether sysfs has such a file or folder."""
        return exists(self._sys.root + name)

    def names(self, folder: str) -> Sequence[str]:
        """Return what is in a folder of sysfs, sorted; nothing if there is none."""
        try:
            return sorted(os.listdir(self._sys.root + folder))
        except OSError:
            return ()

    def forget(self, folder: str) -> None:
        """Close what is open under this folder of sysfs.

        A removed file that came back has the same name and another content.
        """
        self._sys.forget(f"{folder}/")

    def close(self) -> None:
        """Give the descriptors back. Reading afterwards opens new ones."""
        self._proc.forget("")
        self._sys.forget("")


class _Texts(dict[str, bytes]):
    """Files by name, each read when it is first asked for."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, name: str) -> bytes:
        text = self[name] = self._read(name)
        return text


class Moment:
    """A host as of one sample: each file is read at most once.

    Probes that share a file see the same text of it, and on a host with
    hundreds of CPUs the kernel writes /proc/stat once, not once a probe.
    """

    def __init__(self, host: Source) -> None:
        proc, sys = _Texts(host.proc), _Texts(host.sys)
        self._texts = (proc, sys)
        # A file read before costs no more than a look into the dictionary.
        self.proc: Callable[[str], bytes] = proc.__getitem__
        self.sys: Callable[[str], bytes] = sys.__getitem__
        self.cgroup = host.cgroup
        self.look, self.has = host.look, host.has
        self.names, self.forget = host.names, host.forget

    def pass_on(self) -> None:
        """Be the next moment: every file is read anew."""
        for texts in self._texts:
            texts.clear()
