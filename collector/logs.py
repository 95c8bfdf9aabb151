"""structlog as the collector uses it: one line an event, on stderr."""

import logging
import os
import sys
from contextlib import suppress
from typing import Literal

import structlog


class _Lines:
    """Writes lines to stderr. A log that can't be written stops nothing."""

    def msg(self, line: str) -> None:
        stream = sys.stderr
        if stream is None:  # it was closed before Python started
            return
        with suppress(OSError, ValueError):
            stream.write(line + "\n")
            stream.flush()

    log = debug = info = warning = error = critical = exception = msg


class _Events(logging.Handler):
    """Libraries' warnings as events of ours: what kind, and nothing of a request.

    aiohttp logs a malformed request with its head, bearer token and all.
    """

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[0] if record.exc_info else None
        structlog.get_logger().warning(
            "library_warning",
            library=record.name,
            error=error.__name__ if error else None,
        )


def standard_streams() -> None:
    """Open /dev/null in place of a standard stream that was closed.

    The next file opened would take its number, and be written to as a log.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the least free number


def configure(form: Literal["logfmt", "json"], level: str) -> None:
    """Set form and least level for the whole process."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.processors.LogfmtRenderer(
            key_order=["timestamp", "level", "event"], bool_as_flag=False
        )
    )
    logging.basicConfig(handlers=[_Events(logging.WARNING)], force=True)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _without_none,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=lambda *_: _Lines(),
        cache_logger_on_first_use=True,
    )


def _without_none(
    logger: object, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    del logger, method
    return {key: value for key, value in event.items() if value is not None}
