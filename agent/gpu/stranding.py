"""Memory stranding, S: free GPU memory of a node that no single task can use.

S = 1 - max f / min(sum f, max c), with f the free bytes of each GPU and c its
size without the driver's reserve. The plain 1 - max f / sum f calls an empty
node of eight GPUs 0.875 stranded, though no task on one GPU could take more.
This is not heap fragmentation: NVML knows no addresses and no block sizes.
"""

from collections.abc import Sequence


def stranding(free: Sequence[int], size: Sequence[int]) -> float | None:
    """Return S, 0..1, of GPUs given as free and usable bytes.

    None where nothing is free, or there is no GPU: full is not stranded.
    """
    if not sum(free):
        return None
    return max(0.0, 1 - max(free) / min(sum(free), max(size)))
