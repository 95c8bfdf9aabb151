"""What every benchmark's result travels with: machine, commit, command, load.

Results are printed as a table or as JSON and kept under bench/results, a file
a benchmark and day.
"""

import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def say(text: str) -> None:
    """Print progress, apart from the result."""
    print(text, file=sys.stderr, flush=True)


def load1() -> float:
    """Return the load average of the last minute: who else was at work."""
    return os.getloadavg()[0]


def as_installed() -> None:
    """Let the processes measured keep bytecode, as installed ones have it."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.pop("PYTHONUNBUFFERED", None)


class Report:
    """A benchmark's result from its start on."""

    def __init__(self, name: str, argv: Sequence[str]) -> None:
        self.name = name
        self.head: dict[str, object] = {
            "benchmark": name,
            "machine": machine(),
            "python": platform.python_version(),
            "commit": commit(),
            "command": " ".join((f"python bench/{name}.py", *argv)),
            "started": datetime.datetime.now(datetime.UTC).isoformat("T", "seconds"),
            "load1_before": round(load1(), 2),
        }

    def keep(self, body: dict[str, object], folder: Path = RESULTS) -> str:
        """Write the whole as JSON, and return its text."""
        whole = self.head | {"load1_after": round(load1(), 2)} | body
        text = json.dumps(whole, indent=1)
        folder.mkdir(parents=True, exist_ok=True)
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        path = folder / f"{self.name}-{today}.json"
        path.write_text(f"{text}\n")
        say(f"kept in {folder.name}/{path.name}")
        return text


def machine() -> str:
    """Return what this machine is, in words."""
    model = platform.machine()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} x {model}, {memory:.0f} GiB, Linux {platform.release()}"


def commit() -> str | None:
    """Return the commit, marked where files differ from it; None outside git."""
    with suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    return None


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table; None is a dash, floats get three figures."""
    texts = [[_cell(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(head))]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
        for row in texts
    ]
    lines.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)
