"""`trimtab-agent`: run the service, or one of the other commands."""

import functools
import os
import signal
import sys
from collections.abc import Mapping, Sequence

from . import options
from .settings import BadSettings, Settings, default_config, load


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    given = sys.argv[1:] if argv is None else argv
    try:
        plain = options.read(given)
        if plain is not None:
            return run(plain)
        # argparse, and what only the other commands use.
        from . import commands

        return commands.main(given)
    except BadSettings as exc:
        for problem in exc.problems:
            print(f"trimtab-agent: {problem}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of `sample | head` has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def settings(given: Mapping[str, str | None]) -> Settings:
    """Return the settings of file, environment and these options."""
    flags = {key: value for key, value in given.items() if key != "config"}
    config = given.get("config")
    return load(default_config() if config is None else config, os.environ, flags)


def run(given: Mapping[str, str | None]) -> int:
    """Be the service; return the exit status."""
    # Until the agent takes them up: both would end a process that has none.
    for name in ("SIGHUP", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    from .service import serve
    from .starting import CannotRun, prepare

    again = functools.partial(settings, given)
    try:
        start = prepare(again(), again)
    except CannotRun as exc:
        print(f"trimtab-agent: {exc}", file=sys.stderr)
        return 2
    serve(start)
    return 0


if __name__ == "__main__":
    sys.exit(main())
