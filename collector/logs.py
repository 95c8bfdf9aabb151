"""structlog as the collector uses it: one line an event, on stderr."""

import logging
import sys
from typing import Literal

import structlog


def configure(form: Literal["logfmt", "json"], level: str) -> None:
    """Set form and least level for the whole process."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.processors.LogfmtRenderer(
            key_order=["timestamp", "level", "event"], bool_as_flag=False
        )
    )
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
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _without_none(
    logger: object, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    del logger, method
    return {key: value for key, value in event.items() if value is not None}
