"""Children that end with the benchmark, even where it is killed.

Each child leads a process group of its own. A shell that outlives us waits for
the end of its standard input, which comes when we are gone, however; then it
kills the groups, removes the control groups and the folder.
"""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

# $1 is the folder, the rest are control groups. Lines of standard input are
# process groups, or `done`.
WAIT = """
trap '' INT TERM HUP
while read -r word; do
  test "$word" = done && exit 0
  all="$all -$word"
done
for one in $all; do kill -9 "$one"; done
sleep 0.5
rm -rf "$1"
shift
test $# -eq 0 || rmdir "$@"
"""


class Guardian:
    """Starts and ends the benchmark's processes."""

    def __init__(self, folder: Path, groups: Sequence[Path]) -> None:
        self.folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", WAIT, "guardian", str(folder), *map(str, groups)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def start(
        self,
        argv: Sequence[str],
        *,
        log: str,
        groups: Sequence[Path] = (),
        talks: bool = False,
        environment: dict[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a child that joins these control groups before its program.

        `talks`: its standard input and output are pipes; else output goes to
        the log of that name in the folder.
        """
        joining = "for g in $0; do echo 0 > $g/cgroup.procs || exit 1; done"
        with (self.folder / log).open("ab") as said:
            out: int | IO[Any] = subprocess.PIPE if talks else said
            child = subprocess.Popen(
                [
                    *("/bin/sh", "-c", f'{joining}; exec "$@"'),
                    *(" ".join(map(str, groups)), *argv),
                ],
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=out,
                stderr=said,
                env=environment,
                # No session of its own: the scheduler gives each session an
                # equal share (sched_autogroup), however busy it is.
                process_group=0,
                bufsize=0,
            )
        self._running.append(child)
        if self._shell.stdin is not None:
            self._shell.stdin.write(f"{child.pid}\n".encode())
            self._shell.stdin.flush()
        return child

    def stop(self, child: subprocess.Popen[bytes]) -> None:
        """End a child and all that it started: in order, else by force."""
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                child.wait(3)
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
        self._running.remove(child)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for child in reversed(self._running.copy()):
            self.stop(child)
        with suppress(OSError):
            self._shell.communicate(b"done\n", timeout=5)
