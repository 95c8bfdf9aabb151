"""Many frames at once: from their bytes to columns, an item of all at a time.

A frame is an array of small arrays of integers, always in the same order. So
the bytes of a batch are read in lockstep: at each step a cursor per frame
stands at the same item, and a few numpy operations read it for all. What an
integer may be comes from wire's table of fields. Whatever is unusual (GPUs,
appended fields, long lists, integers in a longer form than they need,
anything wrong) is left to be read alone by wire's decoder, which also knows
what to say of it.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trimtab.wire import fields
from trimtab.wire.fields import Field
from trimtab.wire.limits import SAFE_INTEGER

from . import readings

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

# Frames read together: their bytes as words stay within the cache.
TOGETHER = 4096
FRAME_ITEMS = 12
NIL, UINT64 = 0xC0, 0xCF
_WORD_BYTES = 8
# A cursor that has gone astray passes the last frame's end: each further step is
# one byte in these zeros, and there are fewer than 300 steps to a frame.
_BEYOND = bytes(512)
_TAG_SHIFT = np.uint64(56)


class Columns(NamedTuple):
    """What frames say; where `usual` is False, the rest is not valid."""

    usual: Flags
    seq: Integers
    boot_ms: Integers
    gaps: Integers
    values: Floats  # frames × READINGS, NaN for no reading

    def part(self, frames: slice) -> "Columns":
        """Return a view of some of the frames."""
        return Columns(
            self.usual[frames],
            self.seq[frames],
            self.boot_ms[frames],
            self.gaps[frames],
            self.values[frames],
        )


def unread(count: int) -> Columns:
    """Return the columns of frames that are all to be read alone."""
    return Columns(
        usual=np.zeros(count, dtype=np.bool_),
        seq=np.zeros(count, dtype=np.int64),
        boot_ms=np.zeros(count, dtype=np.int64),
        gaps=np.zeros(count, dtype=np.int64),
        values=np.full((count, readings.WIDTH), np.nan),
    )


def read(data: bytes, ends: Integers) -> Columns:
    """Return the columns of frames that stand one after another in the data.

    Each must be a whole MessagePack object that starts as a frame does.
    """
    count = len(ends)
    columns = unread(count)
    starts = np.concatenate(([0], ends[:-1]))
    for first in range(0, count, TOGETHER):
        part = slice(first, first + TOGETHER)
        begin, end = int(starts[first]), int(ends[part][-1])
        _Lockstep(
            data[begin:end],
            starts[part] - begin,
            ends[part] - begin,
            columns.part(part),
        ).frames()
    return columns


def _table(of: dict[int, int]) -> Integers:
    table = np.zeros(256, dtype=np.int64)
    for tag, value in of.items():
        table[tag] = value
    return table


# By the first byte of an item. Size 0: no integer that is read here, nor nil.
_FIXINTS = range(0x80)
_UINTS = {0xCC: 1, 0xCD: 2, 0xCE: 4}
_INTS = {0xD0: 1, 0xD1: 2, 0xD2: 4}
_NEGATIVE_FIXINTS = range(0xE0, 0x100)
_SIZES = {**dict.fromkeys((*_FIXINTS, NIL), 1), **{t: n + 1 for t, n in _UINTS.items()}}
_SIZE = _table(_SIZES)
_SIGNED_SIZE = _table(
    _SIZES
    | dict.fromkeys(_NEGATIVE_FIXINTS, 1)
    | {tag: n + 1 for tag, n in _INTS.items()},
)
# The word at an item holds its tag and the seven bytes after it.
_SHIFT: Words = _table(
    {**dict.fromkeys((*_FIXINTS, *_NEGATIVE_FIXINTS), 56), NIL: 56}
    | {tag: 56 - 8 * n for tag, n in (_UINTS | _INTS).items()},
).astype(np.uint64)
_MASK: Words = _table(
    {**dict.fromkeys((*_FIXINTS, *_NEGATIVE_FIXINTS), 0xFF), NIL: 0}
    | {tag: 256**n - 1 for tag, n in (_UINTS | _INTS).items()},
).astype(np.uint64)
# From here on, what the mask leaves is a negative number, less by the second.
_NEGATIVE_FROM = _table(
    dict.fromkeys(range(0x100), 2**62)
    | dict.fromkeys(_NEGATIVE_FIXINTS, 0)
    | {tag: 256**n // 2 for tag, n in _INTS.items()},
)
_WRAP = _table(
    dict.fromkeys(_NEGATIVE_FIXINTS, 256) | {tag: 256**n for tag, n in _INTS.items()},
)
# Arrays of up to 15 items; -1: anything else. Nil is an array without any.
_LENGTH = _table(
    dict.fromkeys(range(0x100), -1) | {0x90 + n: n for n in range(16)} | {NIL: 0},
)


class _Lockstep:
    """Reads one part of a batch into its columns."""

    def __init__(
        self, data: bytes, starts: Integers, ends: Integers, columns: Columns
    ) -> None:
        padded = data + _BEYOND
        self._bytes: Bytes = np.frombuffer(padded, dtype=np.uint8)
        # A word for each byte: what stands at it and after it.
        self._words: Words = np.ndarray(
            (len(padded) - _WORD_BYTES,), dtype=">u8", buffer=padded, strides=(1,)
        ).astype(np.uint64)
        self._at = starts.copy()  # the cursors
        self._ends = ends
        self._columns = columns
        self._odd = np.zeros(len(starts), dtype=np.bool_)

    def frames(self) -> None:
        """Read every frame."""
        columns, values = self._columns, self._columns.values
        every = np.arange(len(self._at))
        items = _LENGTH[self._bytes[self._at]]
        self._odd |= (items < 3) | (items > FRAME_ITEMS)
        self._at += 2  # and the kind
        columns.seq[:] = self._stamp()
        columns.boot_ms[:] = self._stamp()
        gaps = self._integer(every, items > 3, fields.GAPS)
        columns.gaps[:] = np.nan_to_num(gaps)
        self._section(items > 4, fields.CPU, readings.CPU)
        self._section(items > 5, fields.MEMORY, readings.MEMORY)
        self._links(items > 6)
        self._no_gpus(items > 7)
        self._holes(items > 8)
        self._section(items > 9, fields.IO, readings.IO)
        self._section(items > 10, fields.NET, readings.NET)
        values[:, readings.COLUMN["clock.offset_ms"]] = self._signed(
            every, items > 11, fields.CLOCK_OFFSET
        )
        self._odd |= self._at != self._ends
        columns.usual[:] = ~self._odd

    def _no_gpus(self, there: Flags) -> None:
        self._odd |= there & (self._bytes[self._at] != NIL)
        self._at += there

    def _section(
        self,
        there: Flags,
        known: tuple[Field, ...],
        places: tuple[int | None, ...],
    ) -> None:
        every = np.arange(len(self._at))
        lengths = self._length(every, there)
        for place, values in zip(
            places, self._array(every, lengths, known), strict=True
        ):
            if place is not None:
                self._columns.values[:, place] = values

    def _links(self, there: Flags) -> None:
        """Read the links: the own one, and the worst of the path over all."""
        table, count = self._columns.values, len(self._at)
        links = self._length(np.arange(count), there)
        variation = np.full(count, np.nan)
        loss_of_any, loss_of_answered = variation.copy(), variation.copy()
        answered = np.zeros(count, dtype=np.bool_)
        for link in range(int(links.max(initial=0))):
            rows = np.flatnonzero(links > link)
            read = self._array(rows, self._length(rows, None), fields.LINK)
            if link == 0:
                own = read[0] == 0
                for place, values in zip(readings.LINK, read, strict=True):
                    if place is not None:
                        table[rows, place] = np.where(own, values, np.nan)
            least, p95, loss = read[3], read[4], read[6]
            heard = ~np.isnan(p95)
            answered[rows] |= heard
            variation[rows] = np.fmax(variation[rows], p95 - least)
            loss_of_any[rows] = np.fmax(loss_of_any[rows], loss)
            loss_of_answered[rows] = np.fmax(
                loss_of_answered[rows], np.where(heard, loss, np.nan)
            )
        table[:, readings.COLUMN["path.variation_us"]] = variation
        table[:, readings.COLUMN["path.loss"]] = np.where(
            answered, loss_of_answered, loss_of_any
        )

    def _holes(self, there: Flags) -> None:
        """Check the holes; their meaning is read when somebody asks."""
        holes = self._length(np.arange(len(self._at)), there)
        for hole in range(int(holes.max(initial=0))):
            rows = np.flatnonzero(holes > hole)
            self._array(rows, self._length(rows, None), fields.HOLE)

    def _array(
        self, rows: npt.NDArray[np.intp], lengths: Integers, known: tuple[Field, ...]
    ) -> list[Floats]:
        """Read an array in each row; return its values, field by field."""
        required = sum(field.required for field in known)
        most = int(lengths.max(initial=0))
        self._odd[rows] |= (lengths < required) | (lengths > len(known))
        absent = [np.full(len(rows), np.nan)] * (len(known) - most)
        return [
            self._integer(rows, lengths > index, field)
            for index, field in zip(range(most), known, strict=False)
        ] + absent

    def _length(self, rows: npt.NDArray[np.intp], there: Flags | None) -> Integers:
        """Read an array's header; of none, or nil, the length is 0."""
        at = self._at[rows]
        lengths = _LENGTH[self._bytes[at]]
        step = np.ones(len(rows), dtype=np.int64)
        if there is not None:
            lengths[~there], step[~there] = 0, 0
        wrong = lengths < 0
        self._odd[rows] |= wrong
        lengths[wrong] = 0
        self._at[rows] = at + step
        return lengths

    def _integer(
        self, rows: npt.NDArray[np.intp], there: Flags, field: Field
    ) -> Floats:
        """Read an integer or nil in each row where it is there."""
        at = self._at[rows]
        words = self._words[at]
        tags = (words >> _TAG_SHIFT).astype(np.int64)
        tags[~there] = NIL
        sizes = _SIZE[tags]
        numbers = (words >> _SHIFT[tags]) & _MASK[tags]
        wrong = (sizes == 0) | (numbers > field.most)
        values = numbers.astype(np.float64)
        nil = tags == NIL
        if field.required:
            wrong |= nil
        elif field.scale is not None:
            values /= field.scale
        values[nil] = np.nan
        sizes[~there] = 0
        self._odd[rows] |= wrong
        self._at[rows] = at + sizes
        return values

    def _signed(self, rows: npt.NDArray[np.intp], there: Flags, field: Field) -> Floats:
        """Read an integer that may be below 0."""
        at = self._at[rows]
        words = self._words[at]
        tags = (words >> _TAG_SHIFT).astype(np.int64)
        tags[~there] = NIL
        sizes = _SIGNED_SIZE[tags]
        numbers = ((words >> _SHIFT[tags]) & _MASK[tags]).astype(np.int64)
        numbers -= np.where(numbers >= _NEGATIVE_FROM[tags], _WRAP[tags], 0)
        wrong = (sizes == 0) | (numbers < field.least) | (numbers > field.most)
        values = numbers.astype(np.float64)
        values[tags == NIL] = np.nan
        sizes[~there] = 0
        self._odd[rows] |= wrong
        self._at[rows] = at + sizes
        return values

    def _stamp(self) -> Integers:
        """Read a required integer of up to 53 bits."""
        words = self._words[self._at]
        tags = (words >> _TAG_SHIFT).astype(np.int64)
        numbers = (words >> _SHIFT[tags]) & _MASK[tags]
        long = tags == UINT64
        numbers[long] = self._words[self._at[long] + 1]
        sizes = _SIZE[tags]
        sizes[long] = 1 + _WORD_BYTES
        self._odd |= (sizes == 0) | (tags == NIL) | (numbers > SAFE_INTEGER)
        self._at += sizes
        stamps: Integers = np.minimum(numbers, SAFE_INTEGER).astype(np.int64)
        return stamps
