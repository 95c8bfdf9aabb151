"""What `trimtab-agent doctor` is told of the GPUs: how it stands, and the mend."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trimtab.wire import GPU_REASONS, GpuHealth, GpuState

from . import codes
from .judge import Judged
from .readings import Reading

MENDS = {
    GpuState.ABSENT: "install or load the NVIDIA driver, if this GPU is to be measured",
    GpuState.STARTING: "",
    GpuState.STALLED: (
        "the driver does not answer: see dmesg for Xid lines; a reset, or a reboot "
        "if a process is stuck in it, brings it back"
    ),
    GpuState.CRASHED: "see the agent's log and dmesg; the child is started again",
    GpuState.RESTART_NEEDED: (
        "the driver was upgraded under a running kernel module: reboot, or stop what "
        "uses the GPU and reload the nvidia modules"
    ),
    GpuState.CONTAINER_RESTART_NEEDED: (
        "in a container: restart it, it lost its devices when systemd was reloaded; "
        "on a bare host: reload the nvidia modules"
    ),
    GpuState.PAUSED: "trimtab-agent pause-gpu --resume",
    GpuState.ASLEEP: "nothing to mend: it is read when something else wakes it",
    GpuState.DENIED: (
        "let the service see the devices: a drop-in with PrivateDevices=no, "
        "DevicePolicy=closed and DeviceAllow=char-nvidia* rw"
    ),
}
WELL = frozenset({GpuState.OK, GpuState.ABSENT, GpuState.PAUSED, GpuState.ASLEEP})


class GpuFinding(NamedTuple):
    """One thing looked at."""

    subject: str
    good: bool
    says: str
    mend: str = ""


def findings(
    state: GpuState, reason: str, judged: Judged, readings: Sequence[Reading]
) -> Iterator[GpuFinding]:
    """Yield the section's finding, then each GPU's."""
    says = state.name.lower().replace("_", " ")
    yield GpuFinding(
        "gpu",
        state in WELL,
        f"{says}: {reason}" if reason else says,
        MENDS.get(state, ""),
    )
    names = {info.device: info.name for info in judged.infos}
    for gpu in judged.devices:
        bits = [
            text for bit, text in GPU_REASONS.items() if (gpu.reasons or 0) >> bit & 1
        ]
        health = "unknown" if gpu.health is None else gpu.health.name.lower()
        method = "none" if gpu.method is None else gpu.method.name.lower()
        yield GpuFinding(
            f"gpu {gpu.device}",
            gpu.health is GpuHealth.OK,
            f"{names.get(gpu.device) or 'unnamed'}, health {health}"
            + (f" ({', '.join(bits)})" if bits else "")
            + f", effective utilisation by {method}",
        )
    for reading in readings:
        for metric, code in sorted(reading.errors.items()):
            yield GpuFinding(
                f"gpu {reading.number} {metric}",
                code in codes.UNSUPPORTED,
                codes.text(code),
                "only root may ask this" if code == codes.NO_PERMISSION else "",
            )
