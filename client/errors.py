"""What can go wrong between a program and a collector.

No text here holds the token: it is made of the request line and the answer.
"""

from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """A call that brought no answer of use; the text says what was asked.

    `status` is the HTTP status, None if none arrived; `problem` the problem
    document (RFC 9457), None if the answer was none.
    """

    def __init__(
        self,
        text: str,
        status: int | None = None,
        problem: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(text)
        self.status = status
        self.problem = problem


class NoCollector(ApiError):
    """Nothing answers at the URL."""


class WrongServer(ApiError):
    """Something answers that is no trimtab collector, or not one we know."""


class NotFound(ApiError):
    """The collector knows no such node or decision."""
