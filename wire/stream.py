"""Bytes as they arrive to messages, with limits checked first.

MessagePack says each length before its content, so an over-long string,
array or map is refused at its header, before memory is taken. What is left
is a message of many small items: bytes since the last whole message are
counted, and one past MESSAGE_BYTES ends the stream.
"""

from collections.abc import Iterator

import msgpack

from .decode import decode
from .errors import Malformed, TooLarge
from .limits import (
    ARRAY_ITEMS,
    BINARY_BYTES,
    MAP_ITEMS,
    MESSAGE_BYTES,
    STRING_CHARS,
)
from .messages import Message

_SLICE_BYTES = 16 * 1024


class Stream:
    """A decoder for one connection. After an error it is of no further use."""

    def __init__(self) -> None:
        self._unpacker = msgpack.Unpacker(
            use_list=False,
            strict_map_key=False,  # decode.py says what is wrong with a key
            read_size=_SLICE_BYTES,
            max_buffer_size=MESSAGE_BYTES + _SLICE_BYTES,
            max_str_len=STRING_CHARS,
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

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield each whole message; WireError at the first that is none.

        Messages of kinds that this version does not know are skipped.
        """
        for start in range(0, len(data), _SLICE_BYTES):
            piece = data[start : start + _SLICE_BYTES]
            self._unpacker.feed(piece)
            self._fed += len(piece)
            while (item := self._next()) is not _END:
                self._whole = self._unpacker.tell()
                message = decode(item)
                if message is not None:
                    yield message
            if self.partial_bytes > MESSAGE_BYTES:
                raise TooLarge(
                    f"message: expected at most {MESSAGE_BYTES} bytes, "
                    f"got {self.partial_bytes} and no end"
                )

    def _next(self) -> object:
        try:
            return self._unpacker.unpack()
        except msgpack.OutOfData:
            return _END
        except msgpack.StackError as exc:
            raise TooLarge("message: nested too deep") from exc
        except UnicodeDecodeError as exc:
            raise Malformed("message", "text in UTF-8", exc.object) from exc
        except msgpack.FormatError as exc:
            raise Malformed("message", "MessagePack", exc.args) from exc
        except (ValueError, TypeError, OverflowError) as exc:
            # "exceeds max_str_len(1024)" and the like; unhashable map keys.
            raise TooLarge(f"message: {exc}") from exc


_END = object()
