"""Server-sent events: bytes to messages (HTML, 9.2.6).

What the collector sends of the format: comments, id, event, data of a line,
retry. Pieces may end anywhere.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

# No event of ours comes near; more is no event stream.
LINE_BYTES = 1024 * 1024


class Message(NamedTuple):
    """One message of a stream."""

    event: str
    data: str


class NotEvents(ValueError):
    """Bytes that are no event stream."""


def messages(pieces: Iterable[bytes]) -> Iterator[Message]:
    """Yield the messages in pieces of a stream; NotEvents if it is none."""
    event, data = "message", []
    for line in _lines(pieces):
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                event = value
            elif name == "data":
                data.append(value)
            continue
        if data:
            yield Message(event, "\n".join(data))
        event, data = "message", []


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        if len(rest) > LINE_BYTES:
            raise NotEvents(f"a line of more than {LINE_BYTES} bytes")
        for line in whole:
            try:
                yield line.removesuffix(b"\r").decode()
            except UnicodeDecodeError as exc:
                raise NotEvents("a line that is not UTF-8") from exc
