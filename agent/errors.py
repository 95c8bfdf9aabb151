"""What can go wrong when the host is asked, and a fence around a fault."""

from types import TracebackType
from typing import Self


class Unsupported(Exception):
    """The host will never answer: stop asking, say so once.

    `mend` says what the operator can do about it; empty where nothing helps.
    """

    def __init__(self, why: str, mend: str = "") -> None:
        super().__init__(why)
        self.mend = mend


class Malformed(ValueError):
    """The source is there and what it said can't be right: count, carry on."""


class Contained:
    """A fence: whatever is raised inside ends there and is kept in `fault`.

    For the two places where one broken probe must not stop the others.
    Cancellation and interrupts, which are no faults, pass.
    """

    fault: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if isinstance(error, Exception):
            self.fault = error
            return True
        return False
