"""Bytes as they arrive to messages, with limits checked first.

MessagePack says each length before its content, so an over-long array or
map is refused at its header, before memory is taken. Of a string nothing is
taken but the bytes that came; it is refused once it is whole. What is left is
a message that never ends: bytes since the last whole message are counted, and
one past MESSAGE_BYTES ends the stream.

A decoder takes 43 KiB, so that streams share them: one is held only by who
waits for the rest of a message.
"""

from collections.abc import Callable, Iterator

import msgpack

from .decode import decode
from .errors import Malformed, TooLarge
from .limits import (
    ARRAY_ITEMS,
    BINARY_BYTES,
    MAP_ITEMS,
    MESSAGE_BYTES,
    STRING_BYTES,
)
from .messages import Kind, Message

_SLICE_BYTES = 16 * 1024
_MOST_IDLE = 4


def _decoder() -> msgpack.Unpacker:
    return msgpack.Unpacker(
        use_list=False,
        strict_map_key=False,  # decode.py says what is wrong with a key
        read_size=_SLICE_BYTES,
        max_buffer_size=MESSAGE_BYTES + _SLICE_BYTES,
        max_str_len=STRING_BYTES,
        max_bin_len=BINARY_BYTES,
        max_array_len=ARRAY_ITEMS,
        max_map_len=MAP_ITEMS,
        max_ext_len=0,
    )


class Stream:
    """A decoder for one connection. After an error it is of no further use."""

    __slots__ = ("_begun", "_fed", "_unknown", "_unpacker", "_whole")

    def __init__(self, unknown: Callable[[], None] | None = None) -> None:
        """Call `unknown` for each message of a kind this version doesn't know."""
        self._unknown = unknown
        self._unpacker: msgpack.Unpacker | None = None
        self._begun = 0  # what the decoder had read before it was ours
        self._fed = 0
        self._whole = 0

    @property
    def partial_bytes(self) -> int:
        """Bytes of a message that has not ended yet."""
        return self._fed - self._whole

    @property
    def whole_bytes(self) -> int:
        """Bytes of all messages that have ended."""
        return self._whole

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield each whole message; WireError at the first that is none.

        Messages of kinds that this version does not know are skipped.
        """
        for start in range(0, len(data), _SLICE_BYTES):
            piece = data[start : start + _SLICE_BYTES]
            unpacker = self._take_decoder()
            unpacker.feed(piece)
            self._fed += len(piece)
            while (item := _next(unpacker)) is not _END:
                end = unpacker.tell() - self._begun
                _limit(end - self._whole)
                self._whole = end
                message = decode(item)
                if message is not None:
                    yield message
                elif self._unknown is not None:
                    self._unknown()
            _limit(self.partial_bytes)
            if not self.partial_bytes:
                self._give_back()

    def _take_decoder(self) -> msgpack.Unpacker:
        if self._unpacker is None:
            try:
                self._unpacker = _IDLE.pop()
            except IndexError:  # maybe another thread took the last one
                self._unpacker = _decoder()
            self._begun = self._unpacker.tell() - self._fed
        return self._unpacker

    def _give_back(self) -> None:
        if self._unpacker is not None and len(_IDLE) < _MOST_IDLE:
            _IDLE.append(self._unpacker)
        self._unpacker = None


def frame_ends(data: bytes) -> list[int]:
    """Return where each of the whole frames ends that the data begins with.

    They are delimited, and nothing more: `Stream` or decode.py must read
    each. Ends at the first message of another kind, the first that is not
    whole, and the first in any but the usual form.
    """
    if len(data) < 2 or data[1] != _FRAME or data[0] & 0xF0 != _FIXARRAY:
        return []
    try:
        skipper = _SKIPPERS.pop()
    except IndexError:
        skipper = msgpack.Unpacker(max_buffer_size=2 * MESSAGE_BYTES)
    skip, tell = skipper.skip, skipper.tell
    begun, size = tell(), min(len(data), MESSAGE_BYTES)
    ends: list[int] = []
    try:
        skipper.feed(data[:size])
        skip()
        ends.append(end := tell() - begun)
        while end + 1 < size and begins_frame(data[end : end + 2]):
            skip()
            ends.append(end := tell() - begun)
    except (msgpack.UnpackException, ValueError):
        return ends  # and the skipper, within a message, is of no use any more
    if end < size:
        skipper.read_bytes(size - end)
    _SKIPPERS.append(skipper)
    return ends


def begins_frame(data: bytes) -> bool:
    """Return whether the data can be the begin of a frame in the usual form."""
    if not data or data[0] & 0xF0 != _FIXARRAY:
        return False
    return len(data) < 2 or data[1] == _FRAME


def _next(unpacker: msgpack.Unpacker) -> object:
    try:
        return unpacker.unpack()
    except msgpack.OutOfData:
        return _END
    except msgpack.StackError as exc:
        raise TooLarge("message: nested too deep") from exc
    except UnicodeDecodeError as exc:
        # The text may be a token: not even the cause may carry it.
        raise Malformed("message", "text in UTF-8", exc.reason) from None
    except msgpack.FormatError as exc:
        raise Malformed("message", "MessagePack", "0xc1") from exc
    except TypeError as exc:  # "unhashable type: 'dict'"
        raise Malformed("message", "text as key of each map", str(exc)) from exc
    except (ValueError, OverflowError) as exc:
        # "3000 exceeds max_str_len(2048)" and the like.
        raise TooLarge(f"message: {exc}") from exc


def _limit(message_bytes: int) -> None:
    if message_bytes > MESSAGE_BYTES:
        raise TooLarge(
            f"message: expected at most {MESSAGE_BYTES} bytes, got {message_bytes}"
        )


_END = object()
_FIXARRAY, _FRAME = 0x90, int(Kind.FRAME)
_IDLE: list[msgpack.Unpacker] = []
_SKIPPERS: list[msgpack.Unpacker] = []
