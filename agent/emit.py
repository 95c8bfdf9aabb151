"""The agent's log: state changes, one line each, logfmt or JSON, on stderr.

The same event names as the collector's structlog, which would cost the agent
7 MiB. Credentials are never passed in.
"""

import json
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import TextIO

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Log:
    """Writes events at or above a level."""

    def __init__(
        self,
        form: str = "logfmt",
        level: str = "info",
        stream: TextIO | None = None,
    ) -> None:
        self._stream = stream or sys.stderr
        self.configure(form, level)

    def configure(self, form: str, level: str) -> None:
        """Write in this form, logfmt or json, from this level on."""
        self._json = form == "json"
        self._least = LEVELS[level]

    def debug(self, event: str, **fields: object) -> None:
        """What only someone hunting a fault wants."""
        self._emit("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        """A change that is as it should be."""
        self._emit("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """A change that the agent copes with by itself."""
        self._emit("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Something that a person has to mend."""
        self._emit("error", event, fields)

    def _emit(self, level: str, event: str, fields: dict[str, object]) -> None:
        if LEVELS[level] < self._least:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {
            "timestamp": now.replace("+00:00", "Z"),
            "level": level,
            "event": event,
        } | {key: value for key, value in fields.items() if value is not None}
        text = json.dumps(line, default=str) if self._json else logfmt(line)
        # A log that can't be written (a full disk, a reader gone) stops nothing.
        with suppress(OSError, ValueError):
            print(text, file=self._stream, flush=True)


def logfmt(fields: dict[str, object]) -> str:
    """Return key=value pairs, quoted where a space or sign needs it."""
    return " ".join(f"{key}={_value(value)}" for key, value in fields.items())


def _value(value: object) -> str:
    text = str(value)
    if text and text.isprintable() and not set(text) & set(' "='):
        return text
    return json.dumps(text)
