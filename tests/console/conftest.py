"""The command, run in this process against a real collector and agent."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from trimtab.console.cli import main

from ..client.conftest import Collector, certify, closed, collector, secure, stray

__all__ = ["certify", "closed", "collector", "secure", "stray"]


class Ran(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def trimtab(
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Return the command; its collector is named by TRIMTAB_URL."""
    monkeypatch.setenv("TRIMTAB_URL", collector.url)
    monkeypatch.delenv("TRIMTAB_TOKEN", raising=False)
    monkeypatch.delenv("TRIMTAB_CA", raising=False)

    def run(*argv: str) -> Ran:
        try:
            status = main(argv)
        except SystemExit as exc:  # argparse
            status = int(exc.code or 0)
        return Ran(status, *capsys.readouterr())

    return run
