"""A pressure file: for how long some, or all, tasks stalled on a resource.

Source: procfs pressure/{cpu,memory,io,irq}, Linux 4.20+ (kernel docs,
accounting/psi.rst); cgroup *.pressure files have the same form. cpu has no
`full` line before 5.13, irq no `some` line: each line is optional.
Cost: one short read; no privilege.

Samples use differences of `total`. The kernel's averages hide short spikes
and are passed over.
"""

from typing import NamedTuple

from trimtab.agent.errors import Malformed, Unsupported
from trimtab.agent.host import Source

MEND = (
    "boot the kernel with psi=1; it needs Linux 4.20 or newer, built with CONFIG_PSI=y"
)
IRQ_MEND = (
    "run Linux 6.1 or newer, built with CONFIG_PSI=y and"
    " CONFIG_IRQ_TIME_ACCOUNTING=y, and boot it with psi=1"
)


class Pressure(NamedTuple):
    """Time stalled since boot; None for a line that the file lacks."""

    some_us: int | None
    full_us: int | None


def parse(text: bytes) -> Pressure:
    """Return what the file says; Malformed if a line is damaged, or none there."""
    some_us = full_us = None
    for line in text.split(b"\n"):
        total = line.rpartition(b" total=")[2]
        if not line:
            continue
        if not total.isdigit():
            break
        if line.startswith(b"some avg"):
            some_us = int(total)
        elif line.startswith(b"full avg"):
            full_us = int(total)
        else:
            break
    else:
        if some_us is not None or full_us is not None:
            return Pressure(some_us, full_us)
    raise Malformed(f"not the 'some' and 'full' lines of pressure: {text[:200]!r}")


def pressure(before_us: int, after_us: int, elapsed_us: int) -> float | None:
    """Return stalled / elapsed time, 0.0-1.0.

    None is "no reading": an empty interval, or a counter that went back.
    """
    if elapsed_us <= 0 or after_us < before_us:
        return None
    return min(1.0, (after_us - before_us) / elapsed_us)


def read(source: Source, name: str, group: str | None = None) -> Pressure:
    """Return the pressure on `name`; Unsupported if the kernel keeps none.

    `group` is the folder of a control group in sysfs; None is the host. Where
    PSI is built in but off, old kernels let the file be opened and refuse
    (EOPNOTSUPP) only when it is read.
    """
    try:
        text = (
            source.proc(f"pressure/{name}")
            if group is None
            else source.sys(f"{group}/{name}.pressure")
        )
    except Unsupported as exc:
        mend = IRQ_MEND if name == "irq" else MEND
        raise Unsupported(f"no pressure stall information: {exc}", mend) from exc
    return parse(text)
