"""The options of `trimtab-agent run`, and a reader of them for a plain start.

argparse costs the agent 0.85 MiB for as long as it runs. So a command line of
nothing but these options with their values is read here; for help, for a fault
in it and for every other command `commands.py` makes argparse's parser of the
same table.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Option(NamedTuple):
    """An option that takes a value; the setting is named after the flag."""

    flag: str
    metavar: str | None
    help: str
    choices: tuple[str, ...] = ()

    @property
    def setting(self) -> str:
        """The name of the setting that it stands for."""
        return self.flag.removeprefix("--").replace("-", "_")


MODES = ("standard", "edge")
COLLECTOR = Option("--collector", "HOST:PORT", "where frames go")
NAME = Option("--name", None, "the node's name (default: the host's)")
STATE_DIR = Option("--state-dir", "DIR", "where the identity is kept")

HOST = (
    Option(
        "--config",
        "FILE",
        "settings (default: /etc/trimtab/agent.toml where it exists)",
    ),
    Option("--procfs", "DIR", "the host's /proc"),
    Option("--sysfs", "DIR", "the host's /sys"),
    Option(
        "--cgroup",
        "PATH",
        "watch this control group in place of the host, as in /proc/PID/cgroup",
    ),
)
RUN = (
    *HOST,
    COLLECTOR,
    Option(
        "--mode", None, "edge: least memory and traffic, sends on change", choices=MODES
    ),
    NAME,
    STATE_DIR,
)


def read(argv: Sequence[str]) -> dict[str, str] | None:
    """Return the settings of a plain `run`; None leaves it to argparse."""
    if list(argv[:1]) != ["run"]:
        return None
    found: dict[str, str] = {}
    words = iter(argv[1:])
    for word in words:
        flag, equals, value = word.partition("=")
        option = next((option for option in RUN if option.flag == flag), None)
        if not equals:
            value = next(words, "-")
        if option is None or (value.startswith("-") and not equals):
            return None
        if option.choices and value not in option.choices:
            return None
        found[option.setting] = value
    return found
