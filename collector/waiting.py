"""Frames between their arrival and the tick: bytes, and who sent them.

On arrival a frame is delimited, and queued as it came. What it says is read
on the tick, of all that wait at once. One that turns out wrong is refused
then: it and what its sender said after it do not count.
"""

from typing import NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

from trimtab.wire import Frame, GpuHealth, Gpus, GpuState, Stream, WireError

from . import lockstep, readings

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# Up to so many are read one by one sooner than together.
FEW = 40


class Sender(Protocol):
    """Who sent frames, and hears of it when one of them is wrong."""

    @property
    def live_from_ms(self) -> int:
        """The node's boot clock from which on frames are no backfill."""

    def refuse(self, error: WireError) -> None:
        """End the conversation: a frame that was queued is wrong."""


class Batch(NamedTuple):
    """Frames that were read, in order of arrival; the arrays run alike."""

    rows: npt.NDArray[np.intp]
    arrived_at: Floats
    backfill: Flags
    seq: Integers
    boot_s: Floats
    gaps: Integers
    values: Floats  # frames × READINGS
    gpu_free_mib: Floats  # the most free on one device; NaN: not known, no GPU
    starts: Integers  # of each frame's bytes in the data
    ends: Integers
    data: bytes

    def of(self, order: npt.NDArray[np.intp]) -> "Batch":
        """Return these frames, in this order."""
        taken = {
            name: getattr(self, name)[order] for name in self._fields if name != "data"
        }
        return self._replace(**taken)


class Wrong(NamedTuple):
    """A frame that is to cost its sender the connection."""

    sender: Sender
    error: WireError


class Waiting:
    """What arrived since the last tick; one entry a read, of any frames."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._senders: list[Sender] = []
        self._arrived_at: list[float] = []
        self._counts: list[int] = []
        self._data: list[bytes] = []
        self._ends: list[int] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._ends)

    def __contains__(self, row: object) -> bool:
        """Whether a frame of that node waits."""
        return row in self._rows

    def add(
        self, row: int, sender: Sender, now: float, data: bytes, ends: list[int]
    ) -> None:
        """Queue the whole frames that the data consists of, as `frame_ends` says."""
        self._rows.append(row)
        self._senders.append(sender)
        self._arrived_at.append(now)
        self._counts.append(len(ends))
        self._data.append(data)
        begun = self._bytes
        if len(ends) == 1:
            self._ends.append(begun + ends[0])
        else:
            self._ends += [begun + end for end in ends]
        self._bytes = begun + len(data)

    def read(self) -> tuple[Batch, list[Wrong]]:
        """Return what the frames say, and those that are wrong."""
        data, counts = b"".join(self._data), np.array(self._counts)
        ends = np.array(self._ends, dtype=np.int64)
        starts = np.concatenate(([0], ends[:-1]))
        if len(ends) > FEW:
            columns = lockstep.read(data, ends)
        else:
            columns = lockstep.unread(len(ends))
        gpu_free_mib = np.full(len(ends), np.nan)
        senders, live_from_ms = self._senders, self._live_from_ms()
        of = np.repeat(np.arange(len(senders)), counts)  # the read of each frame
        wrong: dict[int, Wrong] = {}
        dropped: list[int] = []
        for index in np.flatnonzero(~columns.usual).tolist():
            sender = senders[of[index]]
            if id(sender) in wrong:
                continue
            try:
                frame = alone(data[starts[index] : ends[index]])
            except WireError as error:
                wrong[id(sender)] = Wrong(sender, error)
                dropped += self._from(sender, index, of)
            else:
                columns.seq[index] = frame.seq
                columns.boot_ms[index] = frame.boot_ms
                columns.gaps[index] = frame.gaps
                columns.values[index] = readings.row(frame)
                gpu_free_mib[index] = _gpu_free_mib(frame.gpus)
        batch = Batch(
            rows=np.array(self._rows, dtype=np.intp)[of],
            arrived_at=np.array(self._arrived_at)[of],
            backfill=columns.boot_ms < live_from_ms[of],
            seq=columns.seq,
            boot_s=columns.boot_ms / 1000,
            gaps=columns.gaps,
            values=columns.values,
            gpu_free_mib=gpu_free_mib,
            starts=starts,
            ends=ends,
            data=data,
        )
        if dropped:
            batch = batch.of(np.delete(np.arange(len(ends)), dropped))
        return batch, list(wrong.values())

    def _live_from_ms(self) -> Integers:
        return np.fromiter(
            (sender.live_from_ms for sender in self._senders),
            dtype=np.int64,
            count=len(self._senders),
        )

    def _from(self, sender: Sender, index: int, of: Integers) -> list[int]:
        """Return the sender's frames from this one on."""
        theirs = [i for i, other in enumerate(self._senders) if other is sender]
        return [i for i in np.flatnonzero(np.isin(of, theirs)).tolist() if i >= index]


def alone(data: bytes) -> Frame:
    """Return the one frame that the data is; WireError if it is wrong."""
    (frame,) = Stream().feed(data)
    return cast(Frame, frame)


def _gpu_free_mib(gpus: Gpus | None) -> float:
    """Return the most that is free on one device that may be given work."""
    if gpus is None or gpus.state not in (GpuState.OK, GpuState.STALLED):
        return np.nan
    free = [
        float(gpu.free_mib)
        for gpu in gpus.devices
        if gpu.free_mib is not None and gpu.health is not GpuHealth.ZERO
    ]
    return max(free, default=np.nan)
