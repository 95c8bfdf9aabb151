"""A stub libnvidia-ml.so.1 of our own, compiled here, and hosts that have GPUs.

The library is found by LD_LIBRARY_PATH in a child's environment, with the real
pynvml on top. What passes here is stub-tested: it proves our handling alone.
"""

import io
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import msgpack
import pytest

from trimtab.agent.emit import Log
from trimtab.agent.gpu.probe import COMMAND
from trimtab.agent.gpu.readings import parse

SOURCE = Path(__file__).parent / "nvml_stub" / "nvml_stub.c"
FLAGS = (
    *("-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared"),
    "-Wl,-soname,libnvidia-ml.so.1",
)
WITHIN_S = 10.0


class Stub:
    """One build of the library, its control file and its log of calls."""

    def __init__(self, folder, library):
        self.folder = folder
        self.library = library
        self.lines = {}
        self.control_file = folder / "control"
        self.calls_file = folder / "calls"
        self.control()

    def control(self, **lines):
        """Set lines, with __ for a dot in a key; None takes one back."""
        self.lines |= {k.replace("__", ".").lstrip("_"): v for k, v in lines.items()}
        draft = self.folder / "control.new"
        draft.write_text(
            "".join(f"{k} {v}\n" for k, v in self.lines.items() if v is not None)
        )
        draft.replace(self.control_file)

    def gpu(self, number, **lines):
        """Set lines of one GPU."""
        self.control(
            **{f"{number}.{k.replace('__', '.')}": v for k, v in lines.items()}
        )

    @property
    def environment(self):
        return {
            **os.environ,
            "LD_LIBRARY_PATH": str(self.library),
            "NVML_STUB_CONTROL": str(self.control_file),
            "NVML_STUB_CALLS": str(self.calls_file),
        }

    def calls(self):
        """Return (pid, thread, function) of every call so far."""
        if not self.calls_file.exists():
            return []
        # The last line may be in the making.
        lines = self.calls_file.read_text().rpartition("\n")[0].splitlines()
        return [line.split() for line in lines]

    def count(self, function):
        return sum(name == function for _, _, name in self.calls())


@pytest.fixture(scope="session")
def stub_builds(tmp_path_factory):
    """The libraries built so far, by their compiler flags."""
    return tmp_path_factory.mktemp("nvml"), {}


@pytest.fixture
def build(need, stub_builds):
    """Return a function that gives the folder of a library built so."""
    compiler = need("gcc")
    folder, built = stub_builds

    def make(*flags):
        if flags not in built:
            place = folder / str(len(built))
            place.mkdir()
            subprocess.run(
                [
                    *(compiler, *FLAGS, *flags),
                    *("-o", str(place / "libnvidia-ml.so.1"), str(SOURCE)),
                ],
                check=True,
                timeout=60,
            )
            built[flags] = place
        return built[flags]

    return make


@pytest.fixture
def stub(build, tmp_path):
    folder = tmp_path / "stub"
    folder.mkdir()
    return Stub(folder, build())


@pytest.fixture
def old_driver(build, tmp_path):
    folder = tmp_path / "old"
    folder.mkdir()
    return Stub(folder, build("-DOLD_DRIVER"))


class Host:
    """A tree that says there is a GPU and a driver."""

    def __init__(self, root):
        self.sysfs, self.procfs, self.dev = root / "sys", root / "proc", root / "dev"
        for folder in (self.sysfs, self.procfs, self.dev):
            folder.mkdir(parents=True)

    def card(self, slot="0000:01:00.0", vendor="0x10de", kind="0x030200", **power):
        device = self.sysfs / "bus/pci/devices" / slot
        (device / "power").mkdir(parents=True, exist_ok=True)
        (device / "vendor").write_text(vendor + "\n")
        (device / "class").write_text(kind + "\n")
        for name, value in power.items():
            (device / "power" / name).write_text(value + "\n")

    def driver(self):
        (self.procfs / "driver/nvidia").mkdir(parents=True, exist_ok=True)
        (self.dev / "nvidiactl").touch()

    def no_driver(self):
        shutil.rmtree(self.procfs / "driver", ignore_errors=True)
        (self.dev / "nvidiactl").unlink(missing_ok=True)


@pytest.fixture
def bare_host(tmp_path):
    return Host(tmp_path / "host")


@pytest.fixture
def host(bare_host):
    bare_host.card()
    bare_host.driver()
    return bare_host


class Child:
    """A real child, spoken to by hand; every wait has an end."""

    def __init__(self, environment, *options):
        self.popen = subprocess.Popen(
            [*COMMAND, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            bufsize=0,
        )
        assert self.popen.stdin
        assert self.popen.stdout
        assert self.popen.stderr
        self.stdin, self.stdout = self.popen.stdin, self.popen.stdout
        self.pipes = (self.stdin, self.stdout, self.popen.stderr)
        self.unpacker = msgpack.Unpacker()
        self.ticks = 0

    def message(self, within_s=WITHIN_S):
        """Return the next message; None at the end of them."""
        for array in self.unpacker:
            return parse(array)
        ready, _, _ = select.select([self.stdout], [], [], within_s)
        assert ready, f"the child said nothing within {within_s:g} s"
        data = os.read(self.stdout.fileno(), 65_536)
        if not data:
            return None
        self.unpacker.feed(data)
        return self.message(within_s)

    def tick(self):
        self.ask()
        return self.message()

    def ask(self):
        self.ticks += 1
        self.stdin.write(msgpack.packb(self.ticks))

    def device(self, number=0):
        return self.tick().devices[number]

    def end(self):
        """Close its stdin; return its exit status."""
        self.stdin.close()
        return self.popen.wait(WITHIN_S)

    def close(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait(WITHIN_S)
        for pipe in self.pipes:
            pipe.close()


@pytest.fixture
def start_child():
    """Return a function that starts a child on a stub; all are ended."""
    children = []

    def start(stub, *options):
        children.append(Child(stub.environment, *options))
        return children[-1]

    yield start
    for child in children:
        child.close()


@pytest.fixture
def child(stub, start_child):
    """A child whose NVML is open."""
    started = start_child(stub)
    started.message()
    return started


@pytest.fixture
def log():
    stream = io.StringIO()
    return SimpleNamespace(to=Log(stream=stream), text=stream.getvalue)


@pytest.fixture
def module():
    """Return a function that runs a script of ours on a stub, and its result."""

    def run(stub, *argv, timeout_s=30, **more):
        return subprocess.run(
            [sys.executable, *argv],
            env={**stub.environment, **more} if stub else None,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    return run
