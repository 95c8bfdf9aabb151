"""A node's room on its GPUs: the lesser of what is idle and what is free.

Sources: the GPU section of a frame (docs/gpu.md). Effective utilisation counts
where it is known, since a GPU can be busy all the time to little effect; else
the share of time any kernel ran, which is an upper bound. What is held cannot
be had however idle it is, and free memory that one task can't use for its
stranding is no room either.

Each GPU weighs as its hardware allows: one that may not be used brings nothing,
one with a warning half (as Meta's GCM takes it out altogether, and NVIDIA lets
new work start, this lies between), one that heat or power holds down the share
of its clock. So seven of eight GPUs full leave an eighth of the room, and a
lost one takes its share away.
"""

from collections.abc import Sequence

from trimtab.wire import Gpu, GpuHealth, Gpus, GpuState

# Values stay while the driver does not answer; older ones say nothing of now.
MOST_AGE_MS = 30_000
WEIGHT = {GpuHealth.OK: 1.0, GpuHealth.LOWERED: 0.5, GpuHealth.ZERO: 0.0}


def gpu_headroom(gpus: Gpus | None) -> float | None:
    """Return headroom, 0..1: 1 all idle and empty, 0 nothing to be had.

    None is "no reading": no GPUs, a driver that doesn't answer, or values too
    old. A GPU of which only the verdict is known counts by that alone.
    """
    if gpus is None or gpus.state not in (GpuState.OK, GpuState.STALLED):
        return None
    if (gpus.age_ms or 0) > MOST_AGE_MS:
        return None
    known = [gpu for gpu in gpus.devices if _known(gpu)]
    if not known:
        return None
    return min(_idle(known), _free(known, gpus))


def _known(gpu: Gpu) -> bool:
    return gpu.health is not None or gpu.free_mib is not None or gpu.busy is not None


def weight(gpu: Gpu) -> float:
    """Return the share of its power that a GPU's hardware leaves it, 0..1."""
    # No verdict is neither good nor bad: the readings decide.
    allowed = 1.0 if gpu.health is None else WEIGHT[gpu.health]
    # While hardware or heat throttles; else there is no clock to read.
    return allowed * (1.0 if gpu.clock is None else min(1.0, max(0.0, gpu.clock)))


def _idle(gpus: Sequence[Gpu]) -> float:
    idle = [weight(g) * (1.0 - _used_share(g)) for g in gpus]
    return sum(idle) / len(gpus)


def _used_share(gpu: Gpu) -> float:
    used = gpu.busy if gpu.effective is None else gpu.effective
    return min(1.0, max(0.0, used or 0.0))


def _free(gpus: Sequence[Gpu], section: Gpus) -> float:
    """Return the share of memory that is free, usable and not stranded."""
    sizes = [_memory_mib(gpu) for gpu in gpus]
    total_mib = sum(free + used for free, used in sizes)
    if not total_mib:
        # Unified memory is the host's, and its own dimension.
        return sum(weight(gpu) > 0 for gpu in gpus) / len(gpus)
    usable_mib = sum(
        free for (free, _), gpu in zip(sizes, gpus, strict=True) if weight(gpu) > 0
    )
    stranded = max(section.stranding or 0.0, section.mig_stranding or 0.0)
    return usable_mib / total_mib * (1.0 - stranded)


def _memory_mib(gpu: Gpu) -> tuple[int, int]:
    """Return free and used memory: its own, else that of its MIG instances."""
    if gpu.free_mib is not None and gpu.used_mib is not None:
        return gpu.free_mib, gpu.used_mib
    return sum(m.free_mib or 0 for m in gpu.mig), sum(m.used_mib or 0 for m in gpu.mig)
