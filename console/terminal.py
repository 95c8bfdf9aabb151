"""Where output goes, and how wide it may be.

On a terminal rich fits tables to its width and colours them (NO_COLOR is
honoured). Into a pipe or a file goes plain text, as wide as it needs to be:
whoever reads it there would rather search a long line than a broken one.
"""

import errno
from typing import TextIO

from rich.console import Console
from rich.table import Table

_UNBOUNDED = 100_000
_ROOMY = 80  # columns from which tables are shown in full


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the caller; rich would exit with 1."""
        raise BrokenPipeError(errno.EPIPE, "nobody reads")


def console(out: TextIO) -> Console:
    """Return a console on a stream; nothing printed on it is read as markup."""
    terminal = out.isatty()
    return _Console(
        file=out,
        width=None if terminal else _UNBOUNDED,
        force_terminal=terminal,
        color_system="auto" if terminal else None,
        markup=False,
        highlight=False,
        emoji=False,
    )


def table(*columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """Return an empty table; the first column folds if room is short."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        made.add_column(
            column,
            justify="right" if column in numbers else "left",
            overflow="fold",
            no_wrap=index > 0,
        )
    return made


def roomy(out: Console) -> bool:
    """Whether every column fits."""
    return out.width >= _ROOMY
