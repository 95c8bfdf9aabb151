"""A pressure file: for how long some, or all, tasks stalled on a resource.

Source: procfs pressure/{cpu,memory,io,irq}, Linux 4.20+ (kernel docs,
accounting/psi.rst); cgroup *.pressure files have the same form. cpu has no
`full` line before 5.13, irq no `some` line: each line is optional.
Cost: one short read; no privilege.

Samples use differences of `total`. The kernel's averages hide short spikes;
they are parsed for people to compare with.
"""

import re
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

_LINE = re.compile(
    rb"^(some|full) avg10=(\d+\.\d+) avg60=(\d+\.\d+) avg300=(\d+\.\d+)"
    rb" total=(\d+)$",
    re.MULTILINE,
)


class Stall(NamedTuple):
    """One line. An average that can't be (above 100 %) is None."""

    avg10_pct: float | None
    avg60_pct: float | None
    avg300_pct: float | None
    total_us: int  # since boot


class Pressure(NamedTuple):
    """Both lines; None for one that the file lacks."""

    some: Stall | None
    full: Stall | None


def parse(text: bytes) -> Pressure:
    """Return what the file says; Malformed if it has neither line."""
    lines = {
        kind: Stall(_percent(avg10), _percent(avg60), _percent(avg300), int(total))
        for kind, avg10, avg60, avg300, total in _LINE.findall(text)
    }
    damaged = any(kind not in lines and kind in text for kind in (b"some", b"full"))
    if damaged or not lines:
        raise Malformed(f"not the 'some' and 'full' lines of pressure: {text[:200]!r}")
    return Pressure(lines.get(b"some"), lines.get(b"full"))


def _percent(text: bytes) -> float | None:
    value = float(text)
    return value if value <= 100.0 else None


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
