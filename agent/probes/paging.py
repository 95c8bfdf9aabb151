"""Paging: bytes swapped in and out, and major faults, a second.

Source: pswpin and pswpout (pages) and pgmajfault of procfs vmstat, since
boot. A host without swap swaps nothing: there 0 is a reading even where the
kernel has no such counters. Cost: one read of two pages.
"""

import os
from collections.abc import Mapping
from typing import NamedTuple

from trimtab.agent.errors import Unsupported
from trimtab.agent.host import Source

from .lines import number
from .reading import Answer, Last, Reading

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Counters(NamedTuple):
    """Since boot; None for a counter that the kernel lacks."""

    swapped_in_pages: int | None
    swapped_out_pages: int | None
    major_faults: int | None


def parse(text: bytes) -> Counters:
    """Return the counters of vmstat."""
    return Counters(
        number(text, b"pswpin "),
        number(text, b"pswpout "),
        number(text, b"pgmajfault "),
    )


def rate(before: int, after: int, elapsed_us: int) -> float | None:
    """Return events a second, 0.0 upwards.

    None is "no reading": an empty interval, or a counter that went back.
    """
    if elapsed_us <= 0 or after < before:
        return None
    return (after - before) * 1e6 / elapsed_us


def read(source: Source) -> Counters:
    """Return the counters now; of swap 0 where there is no swap to use."""
    now = parse(source.proc("vmstat"))
    if now.swapped_in_pages is None or now.swapped_out_pages is None:
        swapless = number(source.proc("meminfo"), b"SwapTotal:") == 0
        none = 0 if swapless else None
        return now._replace(swapped_in_pages=none, swapped_out_pages=none)
    return now


class Paging:
    """The probe."""

    signals = ("memory.swap_in", "memory.swap_out", "memory.major_faults")

    def __init__(self) -> None:
        self._last = Last[Counters]()

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        """Return bytes/s, bytes/s, faults/s since the sample before."""
        after = read(source)
        before, elapsed_us = self._last.swap(after, now_us) or (_NONE, 0)
        answers: dict[str, Answer] = {}
        for name, was, now in zip(self.signals, before, after, strict=True):
            if now is None:
                answers[name] = Unsupported(f"vmstat has no counter for {name}")
                continue
            value = None if was is None else rate(was, now, elapsed_us)
            if value and name != "memory.major_faults":
                value *= PAGE_BYTES
            answers[name] = Reading(value)
        return answers


_NONE = Counters(None, None, None)
