"""Bytes as they arrive to messages, with limits checked first.

MessagePack says each length before its content, so an over-long array or
map is refused at its header, before memory is taken. Of a string nothing is
taken but the bytes that came; it is refused once it is whole. What is left is
a message that never ends: bytes since the last whole message are counted, and
one past MESSAGE_BYTES ends the stream.
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
from .messages import Message

_SLICE_BYTES = 16 * 1024


class Stream:
    """A decoder for one connection. After an error it is of no further use."""

    def __init__(self, unknown: Callable[[], None] | None = None) -> None:
        """Call `unknown` for each message of a kind this version doesn't know."""
        self._unknown = unknown
        self._unpacker = msgpack.Unpacker(
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
            self._unpacker.feed(piece)
            self._fed += len(piece)
            while (item := self._next()) is not _END:
                end = self._unpacker.tell()
                _limit(end - self._whole)
                self._whole = end
                message = decode(item)
                if message is not None:
                    yield message
                elif self._unknown is not None:
                    self._unknown()
            _limit(self.partial_bytes)

    def _next(self) -> object:
        try:
            return self._unpacker.unpack()
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
