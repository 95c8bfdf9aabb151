"""What every test may use: the fixture trees, recordings and programs."""

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from .processes import Fleet

# Speed is for the benchmarks: a busy machine is no failure.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")

HERE = Path(__file__).parent


@pytest.fixture
def fixtures() -> Path:
    """The small files of our own writing."""
    return HERE / "fixtures"


@pytest.fixture
def recordings() -> Path:
    """Real recordings, which a user's clone does not have."""
    shared = os.environ.get("TRIMTAB_RECORDINGS")
    folder = Path(shared) if shared else HERE.parents[1] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the recordings are not here; TRIMTAB_RECORDINGS names them")
    return folder


@pytest.fixture
def need() -> Callable[[str], str]:
    """Return the path of a program, or skip the test by its name.

    Where everything is to be there (TRIMTAB_REQUIRE_ALL=1), absence fails.
    """

    def find(program: str) -> str:
        path = shutil.which(program)
        if path is None:
            if os.environ.get("TRIMTAB_REQUIRE_ALL") == "1":
                pytest.fail(f"{program} is not installed, and all is required")
            pytest.skip(f"{program} is not installed")
        return path

    return find


@pytest.fixture
def free_port() -> Callable[[], int]:
    """Return a function that names a loopback port nobody listens on."""

    def find() -> int:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
            return port

    return find


@pytest.fixture
def fleet(tmp_path: Path, free_port: Callable[[], int]) -> Iterator[Fleet]:
    """Real collectors and agents as processes, all ended with the test."""
    fleet = Fleet(tmp_path, free_port)
    yield fleet
    fleet.close()
