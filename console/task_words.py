"""A task as words on a command line: key=value.

`labels.NAME=VALUE` sets a label, `avoid` and `data` take commas or come
several times, what looks like a number is one except where the API takes text. The
collector knows which keys and values are right, and says what is wrong of all
at once; here only the form is judged.
"""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_LISTS = ("avoid", "data")
_TEXTS = ("class", "from", "sticky", "failover_from")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d{1,2})?", re.IGNORECASE)


class BadWords(ValueError):
    """Words, or a file, that are no task; says what was expected."""


def parse_words(words: Sequence[str]) -> dict[str, Any]:
    """Return the task's JSON object."""
    task: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise BadWords(f"expected KEY=VALUE, such as class=batch, got {word!r}")
        if key in _LISTS:
            items = [item for item in value.split(",") if item]
            task.setdefault(key, []).extend(items)
            continue
        target = task
        if key.startswith("labels."):
            target = task.setdefault("labels", {})
            key = key.removeprefix("labels.")
            parsed: str | float = value
        else:
            parsed = value if key in _TEXTS else _number_or_text(value)
        if key in target:
            raise BadWords(f"{word!r}: given before; only avoid and data may repeat")
        target[key] = parsed
    return task


def read_task(path: str) -> dict[str, Any]:
    """Return the task in a file of JSON; - is standard input."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text("utf-8")
        task = json.loads(text)
    except OSError as exc:
        raise BadWords(f"--task {path}: can't be read: {exc.strerror}") from exc
    except (ValueError, RecursionError) as exc:
        raise BadWords(f"--task {path}: expected JSON: {exc}") from exc
    if not isinstance(task, dict):
        raise BadWords(f"--task {path}: expected an object, such as {{}}")
    return task


def _number_or_text(value: str) -> str | float:
    if not _NUMBER.fullmatch(value):
        return value
    return float(value) if re.search(r"[.e]", value, re.IGNORECASE) else int(value)
