"""Commands whose extra is not installed say so."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("package", "library", "extra"),
    [("console", "rich", "console"), ("collector", "aiohttp", "collector")],
)
def test_a_missing_extra_is_named_with_the_mend(package, library, extra):
    code = (
        f"import sys; sys.modules[{library!r}] = None;"
        f"from trimtab.{package}.entry import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"pip install 'trimtab[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr
