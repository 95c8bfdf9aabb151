"""The command `trimtab`, or a word on what is missing for it.

The base install is the agent; this command needs the extra `console`.
"""

import sys


def main() -> int:
    """Run the command; 2 if its libraries are not installed."""
    try:
        from .cli import main as run
    except ModuleNotFoundError as exc:
        print(
            f"trimtab: {exc.name} is not installed: pip install 'trimtab[console]'",
            file=sys.stderr,
        )
        return 2
    return run()
