"""`make run`, as a process: it shows the host, and leaves nothing behind."""

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from socket import create_server

import psutil
import pytest

from trimtab.console.child import last_lines
from trimtab.console.state_lock import Held, hold

from ..client.conftest import UP_S, free_ports, until

SCORE_S = 5.0
END_S = 5.0
SCORE = re.compile(r"  score [01]\.\d\d  limiting \w+  cpu ")

Start = Callable[..., "Running"]


class Running:
    """The command in a process group of its own, and what it has printed."""

    def __init__(self, state: Path, http: int, frames: int, **environment: str) -> None:
        self.state = state
        self.began_at = time.monotonic()
        self.process = subprocess.Popen(
            [
                *[sys.executable, "-m", "trimtab.console.local"],
                *["--state-dir", str(state)],
                *["--http-port", str(http), "--frames-port", str(frames)],
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=os.environ | environment,
        )
        self.text = ""

    def read_until(self, pattern: re.Pattern[str], seconds: float) -> None:
        assert self.process.stdout is not None
        deadline = time.monotonic() + seconds
        while not pattern.search(self.text):
            left = deadline - time.monotonic()
            assert left > 0, f"{pattern.pattern} did not appear in:\n{self.text}"
            if select.select([self.process.stdout], [], [], left)[0]:
                self.text += os.read(self.process.stdout.fileno(), 65_536).decode()

    def ended(self) -> int:
        out, _ = self.process.communicate(timeout=END_S)
        self.text += out.decode()
        return self.process.returncode

    def left(self) -> list[list[str]]:
        """Return the command lines that name the state directory."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                line = process.cmdline()
                if process.status() != psutil.STATUS_ZOMBIE and any(
                    str(self.state) in word for word in line
                ):
                    found.append(line)
        return found

    def collectors_files(self) -> list[bytes]:
        folder = self.state / "collector"
        return [
            (folder / name).read_bytes() for name in ("collector.toml", "collector.log")
        ]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Running] = []

    def run(http: int = 0, frames: int = 0, **environment: str) -> Running:
        free = free_ports(2)
        running = Running(
            tmp_path / "state", http or free[0], frames or free[1], **environment
        )
        started.append(running)
        return running

    yield run
    for running in started:
        # Its children hold a name in the state directory and die with it.
        running.process.kill()
        running.process.communicate()


def test_the_score_is_there_in_five_seconds_and_ctrl_c_ends_all_with_0(
    start: Start,
) -> None:
    running = start()
    running.read_until(SCORE, SCORE_S)
    running.read_until(re.compile(r"sample decision: \S+ is the only node"), 1)
    assert len(running.left()) == 3
    os.killpg(running.process.pid, signal.SIGINT)
    assert running.ended() == 130
    assert "agent ended with 0, collector ended with 0" in running.text
    assert "http://127.0.0.1:" in running.text
    assert running.left() == []


def test_it_goes_on_line_after_line(start: Start) -> None:
    running = start()
    running.read_until(re.compile(f"(?s){SCORE.pattern}.*{SCORE.pattern}"), 15)
    running.process.terminate()
    assert running.ended() == 143


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)],
)
def test_a_signal_to_the_parent_alone_ends_all(
    start: Start, number: signal.Signals, status: int
) -> None:
    running = start()
    running.read_until(SCORE, SCORE_S)
    running.process.send_signal(number)
    assert running.ended() == status
    assert "agent ended with 0, collector ended with 0" in running.text
    assert running.left() == []


def test_a_signal_to_every_process_at_once_ends_all_with_0(start: Start) -> None:
    running = start()
    running.read_until(SCORE, SCORE_S)
    family = psutil.Process(running.process.pid)
    for process in (*family.children(), family):
        process.send_signal(signal.SIGINT)
    assert running.ended() == 130
    assert "agent ended with 0, collector ended with 0" in running.text


def test_a_signal_while_things_start_waits_until_they_can_stop(start: Start) -> None:
    running = start()
    until(lambda: len(running.left()) >= 2, "the first child")
    running.process.terminate()
    assert running.ended() == 143
    assert "collector ended with 0" in running.text
    assert running.left() == []


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_children_end_with_a_parent_that_is_killed(start: Start) -> None:
    running = start()
    running.read_until(SCORE, SCORE_S)
    running.process.kill()
    until(lambda: running.left() == [], "the children's end")


def test_a_reader_that_leaves_ends_all(start: Start) -> None:
    running = start()
    running.read_until(SCORE, SCORE_S)
    assert running.process.stdout is not None
    running.process.stdout.close()
    assert running.process.wait(END_S + 5) == 0
    assert running.left() == []
    running.process.stdout = None


def test_a_port_that_is_taken_is_told_in_the_childs_words(start: Start) -> None:
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        running = start(http=port)
        assert running.ended() == 1
    assert f"can't listen on 127.0.0.1:{port}" in running.text
    assert 'make run ARGS="--http-port 8767 --frames-port 8766"' in running.text
    assert "collector ended with 2" in running.text
    assert running.left() == []


def test_a_child_that_dies_is_told_and_the_other_ended(start: Start) -> None:
    running = start()
    running.read_until(SCORE, SCORE_S)
    for child in psutil.Process(running.process.pid).children():
        if "trimtab.agent" in child.cmdline():
            child.kill()
    assert running.ended() == 1
    assert "the agent was ended by SIGKILL. Its last lines" in running.text
    assert "event=connected" in running.text
    assert "If a port is taken" not in running.text
    assert "collector ended with 0" in running.text


def test_settings_of_the_shell_and_of_a_manager_reach_no_child(
    start: Start, tmp_path: Path
) -> None:
    running = start(
        TRIMTAB_INTERVAL_S="never",
        TRIMTAB_STATE_DIR=str(tmp_path / "elsewhere"),
        TRIMTAB_HTTP_LISTEN="0.0.0.0:1",
        CREDENTIALS_DIRECTORY=str(tmp_path),
        NOTIFY_SOCKET="/nowhere",
    )
    running.read_until(SCORE, SCORE_S)
    running.process.terminate()
    assert running.ended() == 143
    assert not (tmp_path / "elsewhere").exists()


def test_a_second_one_on_the_same_state_touches_nothing_and_says_who_has_it(
    start: Start,
) -> None:
    first = start()
    first.read_until(SCORE, SCORE_S)
    before = first.collectors_files()
    second = start()
    assert second.ended() == 1
    assert second.text.count("\n") == 1
    pid = first.process.pid
    assert f"process {pid} already runs trimtab on {first.state}: end it" in second.text
    assert f"or kill {pid}" in second.text
    assert 'make run ARGS="--state-dir DIR --http-port 8767' in second.text
    config, log = first.collectors_files()
    assert config == before[0]
    assert log.startswith(before[1])
    assert first.process.poll() is None


def test_one_that_was_killed_leaves_the_state_to_the_next(start: Start) -> None:
    killed = start()
    killed.read_until(SCORE, SCORE_S)
    killed.process.kill()
    until(lambda: killed.left() == [], "the children's end")
    following = start()
    following.read_until(SCORE, SCORE_S)
    assert f"process {following.process.pid}" in refusal(following.state)


def refusal(state: Path) -> str:
    with pytest.raises(Held) as caught, hold(state):
        pass
    return f"process {caught.value.pid}"


def test_a_child_that_outlives_its_parent_still_holds_the_state(
    tmp_path: Path,
) -> None:
    with hold(tmp_path) as lock:
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[lock])
    assert refusal(tmp_path) == f"process {os.getpid()}"
    child.communicate()
    with hold(tmp_path):
        pass


@pytest.mark.parametrize("content", [b"", b"\0\0", b"x\n", b"\x1b[2J"])
def test_a_lock_that_names_no_process_is_one_all_the_same(
    tmp_path: Path, content: bytes
) -> None:
    with hold(tmp_path):
        (tmp_path / "lock").write_bytes(content)
        assert refusal(tmp_path) == "process None"


def test_files_that_are_removed_under_it_do_not_keep_it_from_ending(
    start: Start,
) -> None:
    running = start()
    running.read_until(SCORE, SCORE_S)
    for log in running.state.glob("*/*.log"):
        log.unlink()
    running.process.terminate()
    assert running.ended() == 143
    assert running.left() == []


def test_output_that_finds_no_room_is_told_and_ends_all(tmp_path: Path) -> None:
    http, frames = free_ports(2)
    command = [sys.executable, "-m", "trimtab.console.local"]
    command += ["--state-dir", str(tmp_path / "state")]
    command += ["--http-port", str(http), "--frames-port", str(frames)]
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            command,
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=UP_S,
        )
    assert (ran.returncode, ran.stderr) == (
        1,
        "can't print: No space left on device\n",
    )
    with hold(tmp_path / "state"):
        pass


def test_a_file_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "collector" / "collector.toml").mkdir(parents=True)
    running = Running(tmp_path, 1, 2)
    assert running.ended() == 1
    assert "can't write " in running.text
    assert "collector.toml: Is a directory" in running.text
    assert "Traceback" not in running.text


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"one\ntwo\n", ["one", "two"]),
        (b"", []),
        (b"\0" * 4096 + b"event=x\n", ["…event=x"]),  # a log that was cut
        (b"\x1b[31mred\x1b[0m\n", ["…[31mred…[0m"]),
        (b"\x7fELF\x02\xff\xfe\n\x00\x01\n", ["…ELF…"]),
        (b"a" * 9000, ["a" * 500 + "…"]),
        (b"".join(b"%d\n" % n for n in range(20)), [str(n) for n in range(12, 20)]),
    ],
)
def test_the_end_of_a_log_is_text_whatever_is_in_it(
    content: bytes, lines: list[str]
) -> None:
    assert last_lines(content) == lines


def test_state_that_can_not_be_kept_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    running = Running(tmp_path / "file", 1, 2)
    assert running.ended() == 1
    assert "can't keep state under" in running.text
