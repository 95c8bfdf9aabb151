"""Questions to one device, each fenced: a failing one hides its metric alone.

pynvml resolves functions when they are called, so that an old driver shows as
FunctionNotFound call by call, or as NVMLLibraryMismatchError, which is no
NVMLError. NVMLError can't be hashed, and comparing it with None raises: here
it is turned into its code at once.
"""

from collections.abc import Callable
from typing import TypeVar

import pynvml

from ..errors import Contained
from . import codes
from .readings import Cause

T = TypeVar("T")


class Gone(Exception):
    """The device is lost or needs a reset: ask it nothing more."""

    def __init__(self, code: int) -> None:
        super().__init__(codes.text(code))
        self.code = code


class MustReplace(Exception):
    """Only a fresh process can go on."""

    def __init__(self, cause: Cause, text: str) -> None:
        super().__init__(text)
        self.cause = cause


def code_of(error: BaseException) -> int:
    """Return NVML's code for what was raised; BUG for what is none of its."""
    if isinstance(error, pynvml.NVMLError):
        return int(error.value)
    if isinstance(error, pynvml.NVMLLibraryMismatchError):
        return codes.FUNCTION_NOT_FOUND
    return codes.BUG


class Asked:
    """The questions of one tick to one device, and the codes of those failed."""

    def __init__(self) -> None:
        self.errors: dict[str, int] = {}

    def ask(self, metric: str, question: Callable[..., T], *args: object) -> T | None:
        """Return the answer; None if it failed, with the code in `errors`.

        Gone if the device is; MustReplace if the library no longer fits.
        """
        code = codes.BUG
        with Contained() as ended:
            return question(*args)
        if ended.fault is not None:
            code = code_of(ended.fault)
        if code in codes.GONE:
            raise Gone(code)
        if code in (codes.LIB_RM_VERSION_MISMATCH, codes.UNINITIALIZED):
            raise MustReplace(Cause.MISMATCH, codes.text(code))
        self.errors[metric] = code
        return None
