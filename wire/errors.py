"""What can be wrong with bytes from a peer.

Every error names the message and the field, says what was expected and what
arrived, so that the author of an agent in another language can mend it.
"""


class WireError(ValueError):
    """Bytes that are not the protocol; the sender loses its connection."""


class Malformed(WireError):
    """A message whose shape or a field of it is not as docs/wire.md says."""

    def __init__(self, where: str, expected: str, arrived: object) -> None:
        super().__init__(f"{where}: expected {expected}, got {shown(arrived)}")
        self.where = where
        self.expected = expected


class TooLarge(WireError):
    """A message past a limit, refused before it was taken into memory."""


def shown(value: object) -> str:
    """Return a short picture of a hostile value, safe to log.

    Of bytes only their number is said: they may be a key in the wrong place.
    """
    if isinstance(value, list | tuple | dict | bytes):
        return f"{type(value).__name__} of {len(value)}"
    text = ascii(value[:40] if isinstance(value, str) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."
