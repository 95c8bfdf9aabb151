"""CPU time as the kernel counts it: what of it was busy, and what was stolen.

Source: the cpu lines of procfs stat (proc_stat(5)), in ticks since boot.
Guest time is inside user and nice already. Idle and iowait are counted
together: the kernel books one sleep under either, and moves it later.

The counters are not as steady as they look. They step back a little (iowait
does by design), or by hours (suspend; a restored container), steal turns to
nonsense after a live migration, and a CPU that is switched off leaves its
idle time, or takes it along, in the sum over all CPUs. So the sum is taken
only while the same number of CPUs could have spent it in the time that
passed; else the CPUs seen in both reads are added up one by one.
cpu_busy.py is the probe of it.
"""

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trimtab.agent.errors import Malformed

TICKS_PER_S = os.sysconf("SC_CLK_TCK")

# As node_exporter decides (jumpBackSeconds): less is jitter, more is a reset.
RESET_S = 3.0
# A tick is counted whole or not at all, and the clock was read a little
# before the counters: so much more than the time passed is still possible.
OVERSHOOT = 1.5
OVERSHOOT_TICKS = 5


class Ticks(NamedTuple):
    """One cpu line; columns that an old kernel lacks are 0, steal None."""

    user: int
    nice: int
    system: int
    idle: int
    iowait: int = 0
    irq: int = 0
    softirq: int = 0
    steal: int | None = None
    guest: int = 0
    guest_nice: int = 0


class Spent(NamedTuple):
    """Ticks between two reads."""

    idle: int
    busy: int
    steal: int | None  # below 0 where the kernel lost count of it


class Look(NamedTuple):
    """One read of stat; single CPUs stay unparsed until they are needed."""

    text: bytes
    total: Ticks
    cpus: int


class Shares(NamedTuple):
    """Of all CPU time, 0.0-1.0."""

    busy: float  # all but idle: steal too, as it was wanted
    steal: float | None


def parse(stat: bytes) -> Ticks:
    """Return the sum over all CPUs, the first line; Malformed if it is none."""
    words = stat[:512].partition(b"\n")[0].split()
    if not words or words[0] != b"cpu":
        raise Malformed(f"stat does not start with the cpu line: {stat[:80]!r}")
    return _ticks(words)


def parse_cpus(stat: bytes) -> dict[int, Ticks]:
    """Return each CPU by its number; numbers may have holes."""
    cpus = {}
    for line in stat.splitlines():
        words = line.split()
        if words and words[0].startswith(b"cpu") and words[0][3:].isdigit():
            cpus[int(words[0][3:])] = _ticks(words)
        elif words and words[0] != b"cpu":
            break
    return cpus


def _ticks(words: list[bytes]) -> Ticks:
    try:
        return Ticks(*map(int, words[1:11]))
    except (TypeError, ValueError) as exc:
        raise Malformed(f"expected 4 to 10 numbers, got {words[:11]!r}") from exc


def count_cpus(stat: bytes) -> int:
    """Return how many CPUs have a line, without parsing them.

    They stand in a row after the sum. Of the ways to count, this one costs
    least with hundreds of them: no cpu line has an i, the next one (intr) does.
    """
    end = stat.find(b"i")
    last = stat.rfind(b"\ncpu", 0, end if end >= 0 else len(stat))
    return stat.count(b"\n", 0, last + 1)


def look(stat: bytes) -> Look:
    """Return what there is to keep of a read; Malformed as for `parse`."""
    return Look(stat, parse(stat), count_cpus(stat))


def spent(before: Ticks, after: Ticks, cpus: int) -> Spent | None:
    """Return the ticks between; None after a reset.

    Small steps back count as 0.
    """
    user, nice, system, idle, iowait, irq, softirq, stolen, _, _ = after
    was = before
    idle += iowait - was.idle - was.iowait
    user, nice, system = user - was.user, nice - was.nice, system - was.system
    irq, softirq = irq - was.irq, softirq - was.softirq
    least = min(idle, user, nice, system, irq, softirq)
    if least < 0:
        if least < -RESET_S * TICKS_PER_S * cpus:
            return None
        idle, user, nice = max(0, idle), max(0, user), max(0, nice)
        system, irq, softirq = max(0, system), max(0, irq), max(0, softirq)
    steal = None if was.steal is None or stolen is None else stolen - was.steal
    return Spent(idle, user + nice + system + irq + softirq, steal)


def possible(ticks: Spent, elapsed_us: int, cpus: int) -> bool:
    """Return whether so many CPUs could spend these ticks in the time."""
    limit = OVERSHOOT * elapsed_us * TICKS_PER_S / 1e6 + OVERSHOOT_TICKS
    return ticks.idle + ticks.busy + max(0, ticks.steal or 0) <= limit * cpus


def shares(ticks: Spent, elapsed_us: int, cpus: int) -> Shares | None:
    """Return the shares; None for an interval without a tick.

    Where steal went back it reads 0, and the time that passed stands for the
    sum of the counters, of which one can't be trusted.
    """
    steal = ticks.steal
    whole: float = ticks.idle + ticks.busy + max(0, steal or 0)
    if steal is not None and steal < 0:
        whole = max(whole, elapsed_us * TICKS_PER_S / 1e6 * cpus)
        steal = 0
    if whole <= 0:
        return None
    return Shares(
        busy=1.0 - ticks.idle / whole,
        steal=None if steal is None else steal / whole,
    )


def between(before: Look, after: Look, elapsed_us: int) -> Shares | None:
    """Return the shares between two reads of stat.

    None is "no reading": an empty interval, a reset, an impossible step.
    """
    if elapsed_us <= 0:
        return None
    cpus = after.cpus
    reset = False
    if cpus == before.cpus:
        ticks = spent(before.total, after.total, max(1, cpus))
        # Without a line per CPU there is nothing to hold the sum against.
        if ticks is not None and (not cpus or possible(ticks, elapsed_us, cpus)):
            return shares(ticks, elapsed_us, cpus)
        reset = ticks is None
    each = parse_cpus(before.text), parse_cpus(after.text)
    if reset and each[0].keys() == each[1].keys():
        return None  # a suspend: what single CPUs say is no better
    counted = list(_each(*each, elapsed_us))
    if not counted:
        return None
    steals = [ticks.steal for ticks in counted if ticks.steal is not None]
    total = Spent(
        idle=sum(ticks.idle for ticks in counted),
        busy=sum(ticks.busy for ticks in counted),
        steal=sum(steals) if steals else None,
    )
    return shares(total, elapsed_us, len(counted))


def _each(
    before: Mapping[int, Ticks], after: Mapping[int, Ticks], elapsed_us: int
) -> Iterable[Spent]:
    for cpu in before.keys() & after.keys():
        ticks = spent(before[cpu], after[cpu], 1)
        if ticks is not None and possible(ticks, elapsed_us, 1):
            yield ticks
