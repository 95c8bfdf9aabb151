import fcntl
import io
import os
import subprocess
import sys

import pytest

from trimtab.agent.gpu import pause
from trimtab.agent.gpu.pause import LOCK, PAUSE, Pause, asked, command, hold


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("1600\n", Pause(600.0)),
        ("1000", None),  # over
        ("999.5", None),
        ("", Pause(None)),  # made by hand: until it is removed
        ("soon", Pause(None)),
    ],
)
def test_a_pause_lasts_until_its_time_or_its_files_end(tmp_path, text, expected):
    if text is not None:
        (tmp_path / PAUSE).write_text(text)
    assert asked(tmp_path, 1000.0) == expected


def test_a_pause_that_holds_nonsense_bytes_is_still_one(tmp_path):
    (tmp_path / PAUSE).write_bytes(b"\xff\xfe")
    assert asked(tmp_path, 1000.0) == Pause(None)


def test_the_command_is_done_when_no_child_holds_the_lock(tmp_path):
    out = io.StringIO()
    assert command(tmp_path, out, for_s=600) == 0
    assert "holds no GPU" in out.getvalue()
    assert asked(tmp_path, float((tmp_path / PAUSE).read_text()) - 1) == Pause(1.0)
    assert command(tmp_path, out, resume=True) == 0
    assert not (tmp_path / PAUSE).exists()
    assert command(tmp_path, out, resume=True) == 0  # twice is no error


def test_a_child_that_holds_on_is_told(tmp_path):
    lock = hold(tmp_path)
    assert lock is not None
    try:
        out = io.StringIO()
        assert command(tmp_path, out, wait_s=0.2) == 1
        assert "still runs" in out.getvalue()
    finally:
        os.close(lock)
    assert command(tmp_path, out) == 0


def test_the_lock_lasts_as_long_as_a_process_that_inherited_it(tmp_path):
    lock = hold(tmp_path)
    assert lock is not None
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(lock,)
    ) as process:
        os.close(lock)
        assert not pause._released(tmp_path, 0.2)
        process.kill()
        process.wait(10)
        assert pause._released(tmp_path, 5)


def test_while_the_command_looks_no_child_is_started(tmp_path):
    with (tmp_path / LOCK).open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert hold(tmp_path) is None


def test_a_state_directory_that_is_not_there_is_told(tmp_path):
    out = io.StringIO()
    assert command(tmp_path / "none", out) == 2
    assert "--state-dir" in out.getvalue()
