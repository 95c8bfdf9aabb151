"""Control groups: whose limits hold this host's work back, and where they say so.

Source: procfs PID/cgroup says which group; its files lie under sysfs fs/cgroup
(cgroups(7)): one v2 tree there, or one folder a v1 controller, or both
(hybrid: `unified` is the v2 tree). A limit holds for all groups below it, so
each level up to the mount's root counts.

The group is that of PID 1, which is the container's; on a plain host it is the
root, without limits. The agent's own group does not count: its limits as a
service say nothing of the host. Init systems keep to a group `init.scope`
beside the other work of the host or container; the group around both counts.
A path that is not there below the mount is one of the world outside: then the
mount's root is the container's own group. So it is where PID 1 can't be seen.

`--cgroup PATH` names another group, to be watched in place of the host.
"""

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from .errors import Malformed, Unsupported
from .host import Source

MOUNT = "fs/cgroup"
# Groups move, and limits change, seldom.
LOOK_EVERY_US = 30_000_000
# 52 bits of physical address are the most there are; v1 says
# 9223372036854771712, its greatest whole page, where there is no limit.
MOST_BYTES = 2**52

V2 = ""  # how PID/cgroup names the v2 tree, beside the controllers of v1
CONTROLLERS = (V2, "cpu", "cpuacct", "memory")
_DELETED = " (deleted)"


class CpuLevel(NamedTuple):
    """A group that the CPU controller knows. Files are named from sysfs on."""

    folder: str  # with cpu.stat
    usage: str | None  # the file that says the CPU time used; None: none does
    quota_cpus: float | None


class MemoryLevel(NamedTuple):
    """A group that the memory controller knows."""

    folder: str
    version: int  # 1 or 2, whose files have other names
    limit_bytes: int | None


class Group(NamedTuple):
    """What limits the work that is watched.

    Levels go from its own upwards; those above are listed if they have a limit.
    """

    asked: str | None  # by --cgroup: it stands in place of the host
    cpu: tuple[CpuLevel, ...]
    memory: tuple[MemoryLevel, ...]
    pressure: str | None  # folder with pressure files; None: no group of v2
    contained: bool  # counts memory of its own, apart from the host's

    def quota_cpus(self) -> float | None:
        """Return the tightest CPU quota up the tree, in CPUs; None without one."""
        quotas = (level.quota_cpus for level in self.cpu)
        return min((quota for quota in quotas if quota is not None), default=None)

    def limit_bytes(self) -> int | None:
        """Return the tightest memory limit up the tree; None without one."""
        limits = (level.limit_bytes for level in self.memory)
        return min((limit for limit in limits if limit is not None), default=None)


def parse_membership(text: bytes) -> dict[str, str]:
    """Return the path by controller, with V2 for the v2 tree.

    Malformed if a line is not `number:controllers:/path`.
    """
    paths = {}
    for line in filter(None, text.split(b"\n")):  # a path may hold \r, :, ...
        number, _, rest = line.partition(b":")
        controllers, _, path = rest.partition(b":")
        if not number.isdigit() or not path.startswith(b"/"):
            raise Malformed(f"not number:controllers:/path: {line[:200]!r}")
        for controller in os.fsdecode(controllers).split(","):
            paths[controller] = os.fsdecode(path).removesuffix(_DELETED)
    return paths


def parse_cpu_max(text: bytes) -> float | None:
    """Return the CPUs of a v2 quota; None for `max`."""
    words = text.split()
    return None if words[:1] == [b"max"] else _quota(words, text)


def parse_cfs(quota_us: bytes, period_us: bytes) -> float | None:
    """Return the CPUs of a v1 quota; None for -1."""
    if quota_us.strip() == b"-1":
        return None
    return _quota([*quota_us.split(), *period_us.split()], quota_us + period_us)


def _quota(words: list[bytes], text: bytes) -> float:
    if len(words) == 2 and all(word.isdigit() and int(word) for word in words):
        return int(words[0]) / int(words[1])
    raise Malformed(f"expected a CPU quota and its period, got {text[:80]!r}")


def parse_limit(text: bytes) -> int | None:
    """Return a memory limit in bytes; None for `max` and more than can be."""
    word = text.strip()
    if word == b"max":
        return None
    if not word.isdigit():
        raise Malformed(f"expected bytes or max, got {text[:80]!r}")
    return int(word) if int(word) <= MOST_BYTES else None


def locate(source: Source) -> Group:
    """Return the group to watch, with its limits as they are now.

    FileNotFoundError if --cgroup names one that is nowhere; Malformed or
    OSError as its files say. A host without control groups has no levels.
    """
    trees = _Trees(source)
    asked = source.cgroup
    if asked is not None and not any(map(trees.climb, CONTROLLERS)):
        raise FileNotFoundError(
            errno.ENOENT, f"no such control group in any tree of {MOUNT}", asked
        )
    unified = trees.climb(V2)
    folders = trees.climb("memory") or unified
    memory = tuple(_memory_levels(source, folders))
    return Group(
        asked=asked,
        cpu=tuple(_cpu_levels(source, trees)),
        memory=memory,
        pressure=unified[0] if unified and trees.inside(unified) else None,
        contained=bool(memory) and trees.inside(folders),
    )


class _Trees:
    """The hierarchies that are mounted, and the way up in each."""

    def __init__(self, source: Source) -> None:
        self._source = source
        names = source.names(MOUNT)
        # A v2 tree's own groups may be called cpu, memory or unified.
        pure = "cgroup.controllers" in names
        self._mounts = {V2: MOUNT}
        if not pure:
            if "unified" in names:
                self._mounts[V2] = f"{MOUNT}/unified"
            for name in names:
                for controller in name.split(","):
                    self._mounts.setdefault(controller, f"{MOUNT}/{name}")
        self._paths = {} if source.cgroup is not None else _membership(source)

    def climb(self, controller: str) -> tuple[str, ...]:
        """Return the group's folder in a tree and those above, up to its root.

        Empty if there is no such tree, or no such group where one was asked for.
        """
        mount, asked = self._mounts.get(controller), self._source.cgroup
        if mount is None or (self._paths and controller not in self._paths):
            return ()
        path = self._paths.get(controller, "/") if asked is None else asked
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if asked is None and parts[-1:] == ["init.scope"]:
            parts.pop()
        # `..` leads out of what this process may see.
        if ".." in parts or not self._source.has("/".join((mount, *parts))):
            if asked is not None or not self._source.has(mount):
                return ()
            parts = []
        return tuple(
            "/".join((mount, *parts[:depth])) for depth in range(len(parts), -1, -1)
        )

    def inside(self, folders: tuple[str, ...]) -> bool:
        """Return whether the group is not the root of a whole host."""
        if self._source.cgroup is not None or len(folders) > 1:
            return True
        # The root of v2 alone lacks the first, that of v1 alone has the second.
        (root,) = folders
        if root == self._mounts[V2]:
            return self._source.has(f"{root}/cgroup.events")
        return not self._source.has(f"{root}/release_agent")


def _membership(source: Source) -> dict[str, str]:
    # Hidden from us (hidepid, ProtectProc=), it is the root, as far as we see.
    with suppress(Unsupported, OSError):
        return parse_membership(source.proc("1/cgroup"))
    return {}


def _cpu_levels(source: Source, trees: _Trees) -> Iterable[CpuLevel]:
    unified = trees.climb(V2)
    folders = trees.climb("cpu") or unified
    # Two v1 controllers may be mounted apart; the group has one path in both.
    usages = [f"{folder}/cpuacct.usage" for folder in trees.climb("cpuacct")]
    if not usages:
        usages = [f"{folder}/cpu.stat" for folder in unified]
    if len(usages) != len(folders):
        usages = [""] * len(folders)
    own = True
    for folder, usage in zip(folders, usages, strict=True):
        if source.has(f"{folder}/cpu.stat"):
            quota = _cpu_quota(source, folder)
            if own or quota is not None:
                known = usage if usage and source.has(usage) else None
                yield CpuLevel(folder, known, quota)
            own = False


def _cpu_quota(source: Source, folder: str) -> float | None:
    if source.has(f"{folder}/cpu.max"):
        return parse_cpu_max(source.look(f"{folder}/cpu.max"))
    if source.has(f"{folder}/cpu.cfs_quota_us"):
        quota_us = source.look(f"{folder}/cpu.cfs_quota_us")
        if quota_us.strip() != b"-1":
            return parse_cfs(quota_us, source.look(f"{folder}/cpu.cfs_period_us"))
    return None  # a root


def _memory_levels(source: Source, folders: Iterable[str]) -> Iterable[MemoryLevel]:
    own = True
    for folder in folders:
        for version, name in ((2, "memory.max"), (1, "memory.limit_in_bytes")):
            if source.has(f"{folder}/{name}"):
                limit = parse_limit(source.look(f"{folder}/{name}"))
                if own or limit is not None:
                    yield MemoryLevel(folder, version, limit)
                own = False


class Groups:
    """The group to watch, looked up again now and then, and after a fault."""

    def __init__(self) -> None:
        self.changes = 0  # times that another one, or another limit, was found
        self._found: Group | Exception | None = None
        self._due_us = 0

    def find(self, source: Source, now_us: int) -> Group:
        """Return the group; errors as for `locate`.

        It is located once in LOOK_EVERY_US; while it can't be, in each sample.
        """
        if self._found is None or now_us >= self._due_us:
            before, self._due_us = self._found, now_us + LOOK_EVERY_US
            try:
                self._found = locate(source)
            except (OSError, Malformed, Unsupported) as exc:
                self._found, self._due_us = exc, now_us + 1
            if before != self._found:
                source.forget(MOUNT)  # descriptors of groups that are no more
                self.changes += isinstance(self._found, Group)
        if isinstance(self._found, Exception):
            raise self._found
        return self._found

    def doubt(self) -> None:
        """Locate it anew at the next sample: one of its files failed."""
        self._due_us = 0
