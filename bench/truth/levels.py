"""What a window puts the host through: drawn from a seed, each level a little worse.

A scenario's windows run from nothing to its worst in equal steps of `badness`,
0 to 1, in shuffled order: load of a moment ago must not tell of the load now.
"""

import random
from collections.abc import Callable
from typing import NamedTuple, Self

MIB = 2**20
# Of the memory group. Two victims need about 116 MiB of it, see victim.py.
LIMIT_MIB = 192
# Of the quota group. Two victims need two thirds of it.
QUOTA_CPUS = 0.4
CALM_SHARE = 0.1  # of the windows, without any load
PATH_SHARE = 0.4  # of the worst path, so that stalls don't hide all the rest


class Level(NamedTuple):
    """What one window puts the host through."""

    stress: tuple[str, ...] = ()  # arguments of stress-ng
    delay_ms: float = 0.0  # of the path, each way
    jitter_ms: float = 0.0
    loss: float = 0.0  # share of segments


def computing(badness: float, rng: random.Random, most: int = 8) -> Level:
    """Return busy processes: from a part of one to `most` in full."""
    wanted = most * badness**1.5
    workers = max(1, round(wanted + 0.4))
    load = min(100, max(5, round(100 * wanted / workers)))
    method = rng.choice(("int64", "matrixprod", "fft", "union"))
    return Level(
        ("--cpu", str(workers), "--cpu-load", str(load), "--cpu-method", method)
    )


def sharing(badness: float, rng: random.Random) -> Level:
    """Return busy processes that use up the quota that they share with the work."""
    return computing(badness, rng, most=4)


def remembering(badness: float, rng: random.Random) -> Level:
    """Return processes that take the group's memory and hold it."""
    mib = round(50 + 90 * badness)
    hold = ("--vm-hang", "0") if rng.random() < 0.7 else ("--vm-keep",)
    return Level(
        ("--vm", "1", "--vm-bytes", f"{mib}m", "--vm-method", "write64", *hold)
    )


def storing(badness: float, rng: random.Random) -> Level:
    """Return processes that write and read files on the same disk."""
    workers = str(max(1, round(8 * badness)))
    return Level(
        rng.choice(
            (
                ("--hdd", workers, "--hdd-bytes", "64m"),
                ("--hdd", workers, "--hdd-bytes", "64m", "--hdd-opts", "direct"),
                ("--hdd", workers, "--hdd-bytes", "32m", "--hdd-opts", "wr-rnd,dsync"),
                ("--iomix", workers, "--iomix-bytes", "32m"),
            )
        )
    )


def travelling(badness: float, rng: random.Random) -> Level:
    """Return a path with delay, jitter or loss, or all of them."""
    delay, jitter, loss = rng.choice(
        ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1), (1, 1, 1))
    )
    return Level(
        delay_ms=round(delay * 60 * badness**2, 2),
        jitter_ms=round(jitter * 40 * badness**2, 2),
        loss=round(loss * 0.08 * badness**2, 4),
    )


def several(badness: float, rng: random.Random) -> Level:
    """Return two or three troubles at once, as bad as each other or less."""
    kinds: list[Callable[[float, random.Random], Level]] = [
        lambda b, r: computing(b, r, most=5),
        remembering,
        storing,
        lambda b, r: travelling(b * PATH_SHARE, r),
    ]
    stress: tuple[str, ...] = ()
    path = Level()
    for kind in rng.sample(kinds, rng.choice((1, 2, 2, 3))):
        level = kind(badness * rng.uniform(0.3, 1.0), rng)
        stress += level.stress
        path = level if level.delay_ms or level.jitter_ms or level.loss else path
    return path._replace(stress=stress)


class Scenario(NamedTuple):
    """A kind of trouble, and how its windows are taken."""

    name: str
    work: str  # of victim.py
    level: Callable[[float, random.Random], Level]
    window_s: float = 2.0
    settle_s: float = 1.0
    interval_s: float = 0.25  # of the agent
    group: bool = False  # work and load are in a control group, which is watched
    limit_mib: int | None = None  # of that group
    quota_cpus: float | None = None  # of that group
    relay: bool = False  # the agent's and the work's connections go over it

    def shortened(self, window_s: float) -> Self:
        """Return it with windows of another length, and no longer to settle."""
        return self._replace(window_s=window_s, settle_s=min(self.settle_s, window_s))


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("cpu", "cpu", computing),
        # A frame holds five periods of the quota, 100 ms each.
        Scenario(
            "quota",
            "cpu",
            sharing,
            interval_s=0.5,
            group=True,
            quota_cpus=QUOTA_CPUS,
        ),
        Scenario("memory", "memory", remembering, group=True, limit_mib=LIMIT_MIB),
        Scenario("io", "io", storing, group=True),
        # A window holds 60 echoes: what the agent's figures of a link are of.
        Scenario(
            "network",
            "network",
            travelling,
            6.0,
            0.5,
            0.1,
            group=True,
            relay=True,
        ),
        Scenario(
            "mixed",
            "mixed",
            several,
            6.0,
            0.5,
            0.1,
            group=True,
            limit_mib=LIMIT_MIB,
            relay=True,
        ),
    )
}


def drawn(scenario: Scenario, windows: int, seed: int) -> list[Level]:
    """Return the levels of a scenario in the order to take them."""
    rng = random.Random(f"{scenario.name} {seed}")
    calm = max(1, round(CALM_SHARE * windows))
    levels = [Level()] * calm
    for step in range(windows - calm):
        levels.append(scenario.level((step + 0.5) / (windows - calm), rng))
    rng.shuffle(levels)
    return levels
