"""What may be set about the GPU probe. Durations are seconds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuSettings:
    """Deadlines are generous: slow hosts are not taken for hanging ones.

    Those with many GPUs took 10 s to open NVML (netdata#18690), and busy ones
    over 2 s to answer (NordicHPC/sonar#92).
    """

    interval_s: float = 1.0  # between two ticks of the child
    init_deadline_s: float = 30.0  # to open NVML
    tick_deadline_s: float = 5.0  # to read every device once
    grace_s: float = 2.0  # from SIGTERM to SIGKILL
    kill_s: float = 2.0  # from SIGKILL until the child is given up
    first_wait_s: float = 1.0  # before the first restart, doubling up to
    most_wait_s: float = 60.0
    recheck_s: float = 60.0  # for a driver, where there is a GPU
    rare_recheck_s: float = 600.0  # for a GPU, where there is none
    rss_limit_mib: int = 96  # of the child; then a fresh one takes over
    recycle_every_s: float = 600.0  # at most so often for its memory
    idle_s: float = 60.0  # without work until a GPU that may sleep is let go
    gpm: bool = True  # profiling counters: sampling them can disturb DCGM
