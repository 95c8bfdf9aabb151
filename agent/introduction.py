"""What the agent says of itself and its host: the hello of both shells."""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from trimtab.wire import VERSION, GpuInfo, Hello

from . import inventory
from .backend import boot_id, uses_psutil
from .clocks import boot_ms
from .host import Host
from .identity import Identity
from .settings import Settings

T = TypeVar("T")


# No boot lasts that many milliseconds: a collector that says so is wrong.
SEQ_LIMIT = 2**52


class Measured(NamedTuple):
    """What of the inventory can be found out; None where it can't."""

    cpus: int | None = None
    memory_mib: int | None = None
    cpu_quota: float | None = None  # None: no limit
    memory_limit_mib: int | None = None


def measure(settings: Settings, host: Host) -> Measured:
    """Return what this host is; a source that is odd leaves a None."""
    if uses_psutil(settings):
        from . import portable

        return Measured(portable.usable_cpus(), portable.memory_mib())
    return Measured(
        cpus=_found(inventory.usable_cpus, host),
        memory_mib=_found(inventory.memory_mib, host),
        cpu_quota=_found(inventory.cpu_quota, host),
        memory_limit_mib=_found(inventory.memory_limit_mib, host),
    )


def _found(look: Callable[[Host], T | None], host: Host) -> T | None:
    # An odd host is no dead agent.
    with suppress(Exception):
        return look(host)
    return None


class Introduction:
    """The parts of a hello that a running agent doesn't measure."""

    def __init__(
        self, settings: Settings, identity: Identity, token: str | None, host: Host
    ) -> None:
        self._identity = identity
        self._token = token
        self._boot_id = boot_id(settings, host)
        self._machine = inventory.machine_hash()
        self.adopt(settings)

    def adopt(self, settings: Settings) -> None:
        """Say from now on what these settings say."""
        self._settings = settings
        self.name = settings.name or inventory.node_name(socket.gethostname())

    def hello(
        self,
        measured: Measured,
        *,
        interval_s: float,
        silence_s: float | None = None,
        targets: tuple[str, ...] = (),
        gpus: tuple[GpuInfo, ...] = (),
    ) -> Hello:
        """Return the hello as of now."""
        said = self._settings.inventory()
        return Hello(
            node_id=self._identity.node_id,
            boot_id=self._boot_id,
            name=self.name,
            key=self._identity.key,
            token=self._token,
            machine=self._machine,
            agent_version=VERSION,
            interval_ms=round(interval_s * 1000),
            silence_ms=None if silence_s is None else round(silence_s * 1000),
            boot_ms=boot_ms(),
            inventory=said._replace(
                cpus=measured.cpus,
                memory_mib=measured.memory_mib,
                cpu_quota=measured.cpu_quota,
                memory_limit_mib=measured.memory_limit_mib,
                targets=targets,
                gpus=gpus,
                mode=self._settings.mode,
            ),
        )
