"""`make run`: a collector and an agent on this host, shown live until Ctrl-C.

Both are the real services, as child processes on loopback. They get their
settings from here alone: a config file of this run's stands in for /etc, and
no TRIMTAB_… of the shell and nothing of a service manager reaches them.
"""

import argparse
import errno
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from trimtab.client import ApiError, Client, NodeSummary, NoFit

from .child import Child, said
from .harmless import harmless
from .nodes_view import fleet, line
from .state_lock import Held, hold
from .states import worst_first
from .stopping import Stopping
from .terminal import console, roomy
from .why import sentence

UP_S = 15.0  # by then a collector serves, or something is wrong with it
STOP_S = 4.5  # then what has not ended is killed
FIRST_LOOK_S = 0.25  # between looks, until there is a score
LOOK_S = 1.0
SAMPLE_S = 3.0  # between sample decisions, and between plain lines
Show = Callable[[Sequence[NodeSummary], str], None]  # fleet and sample decision
# Set by systemd for the one service it started, which is neither child.
_OF_THE_MANAGER = (
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "STATE_DIRECTORY",
    "CREDENTIALS_DIRECTORY",
)
_OTHER_PORTS = "--http-port 8767 --frames-port 8766"
_PORT_HINT = (
    "If a port is taken, end what holds it, or give others: "
    f'make run ARGS="{_OTHER_PORTS}"'
)


class Ended(RuntimeError):
    """A child ended, or never came up, without having been asked to end."""

    def __init__(self, child: Child, what: str, hint: str = "") -> None:
        super().__init__(f"the {child.name} {what}")
        self.child = child
        self.hint = hint


class Unstarted(RuntimeError):
    """A child could not be started; says why."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run both until a signal; return the exit status."""
    args = _parser().parse_args(argv)
    state: Path = args.state_dir.resolve()
    with ExitStack() as held:
        try:
            state.mkdir(parents=True, exist_ok=True)
            lock = held.enter_context(hold(state))
            for part in ("collector", "agent"):
                (state / part).mkdir(exist_ok=True)
        except Held as exc:
            _complain(_occupied(state, exc.pid))
            return 1
        except OSError as exc:
            _complain(f"can't keep state under {state}: {exc.strerror}")
            return 1
        return _locked(args, state, lock)


def _locked(args: argparse.Namespace, state: Path, lock: int) -> int:
    failure: Ended | Unstarted | None = None
    children: list[Child] = []
    written = True
    with Stopping() as stopping:
        try:
            _run(args, state, lock, stopping, children)
        except (Ended, Unstarted) as exc:
            failure = exc
        except OSError as exc:
            written = _silence(exc)
        finally:
            ended = _stop(children)
    try:
        status = _report(ended, failure, stopping.signal)
    except OSError as exc:
        _silence(exc)
        return 1
    return status if written else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m trimtab.console.local",
        description="A collector and an agent on this host, shown until Ctrl-C.",
        epilog=f'Under make: make run ARGS="{_OTHER_PORTS}"',
    )
    parser.add_argument("--state-dir", type=Path, required=True, metavar="DIR")
    parser.add_argument("--http-port", type=int, default=7767, metavar="PORT")
    parser.add_argument("--frames-port", type=int, default=7766, metavar="PORT")
    return parser


def _run(
    args: argparse.Namespace,
    state: Path,
    lock: int,
    stopping: Stopping,
    children: list[Child],
) -> None:
    """Start both and show them until told to stop.

    Unstarted if one can't be, Ended if one ends first, OSError of the output.
    """
    frames = f"127.0.0.1:{args.frames_port}"
    http = f"127.0.0.1:{args.http_port}"
    children.append(_collector(state, lock, frames, http))
    if not _comes_up(children[0], stopping):
        return
    children.append(_agent(state, lock, frames))
    out = console(sys.stdout)
    out.print(f"trimtab on this host: http://{http}  (Ctrl-C ends it)", soft_wrap=True)
    out.print(f"  curl -s -XPOST http://{http}/v1/route -d '{{}}'", soft_wrap=True)
    out.print(f"  state and logs: {state}\n", soft_wrap=True)
    with Client(http, timeout_s=1.0) as client, _view(out) as show:
        _watch(client, show, stopping, children)


def _watch(
    client: Client, show: Show, stopping: Stopping, children: Sequence[Child]
) -> None:
    scored, sample, sampled_at = False, "", -SAMPLE_S
    while True:
        for child in children:
            # Whoever signals every process may reach a child before us.
            if child.status is not None and not stopping.wait(LOOK_S / 4):
                raise Ended(child, said(child.status))
        try:
            nodes = client.nodes()
            scored = scored or any(node.score is not None for node in nodes)
            if scored and time.monotonic() - sampled_at >= SAMPLE_S:
                sample, sampled_at = _decide(client), time.monotonic()
            if scored:
                show(nodes, sample)
        except ApiError as exc:
            show((), harmless(str(exc)))
        if stopping.wait(LOOK_S if scored else FIRST_LOOK_S):
            return


def _decide(client: Client) -> str:
    """Return a decision in a line, its lease closed: nothing was run."""
    answer = client.route({})
    if isinstance(answer, NoFit):
        return f"sample decision: {harmless(answer.detail)}"
    client.outcome(answer.id, "ok")
    return f"sample decision: {sentence(answer)}"


@contextmanager
def _view(out: Console) -> Iterator[Show]:
    """Show in place on a terminal, else as lines every few seconds."""
    if not out.is_terminal:
        yield _Lines(out)
        return
    with Live(console=out, auto_refresh=False) as live:

        def in_place(nodes: Sequence[NodeSummary], sample: str) -> None:
            table = fleet(worst_first(nodes), roomy=roomy(out))
            live.update(Group(table, Text(f"\n{sample}")), refresh=True)

        yield in_place


class _Lines:
    def __init__(self, out: Console) -> None:
        self._out = out
        self._due_at = 0.0

    def __call__(self, nodes: Sequence[NodeSummary], sample: str) -> None:
        if time.monotonic() < self._due_at:
            return
        self._due_at = time.monotonic() + SAMPLE_S - LOOK_S / 2
        clock = time.strftime("%H:%M:%S")
        for node in nodes:
            self._out.print(f"{clock}  {line(node)}")
        self._out.print(f"{clock}  {sample}")
        self._out.file.flush()


def _collector(state: Path, lock: int, frames: str, http: str) -> Child:
    own = state / "collector"
    config = own / "collector.toml"
    settings = {
        "state_dir": str(own),
        "frames_listen": frames,
        "http_listen": http,
    }
    # A JSON text of these is a TOML one too.
    text = "".join(
        f"{key} = {json.dumps(value, ensure_ascii=False)}\n"
        for key, value in settings.items()
    )
    try:
        config.write_text(text, "utf-8")
    except OSError as exc:
        raise Unstarted(f"can't write {config}: {exc.strerror}") from exc
    return _start("collector", own, lock, "--config", str(config))


def _agent(state: Path, lock: int, frames: str) -> Child:
    own = state / "agent"
    settings = ["--config", os.devnull, "--state-dir", str(own)]
    return _start("agent", own, lock, *settings, "--collector", frames)


def _start(name: str, own: Path, lock: int, *arguments: str) -> Child:
    command = [f"trimtab.{name}", "run", *arguments]
    try:
        return Child(name, command, _environment(), own / f"{name}.log", held=[lock])
    except OSError as exc:
        where = f" {exc.filename}:" if exc.filename else ""
        raise Unstarted(f"can't start the {name}:{where} {exc.strerror}") from exc


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TRIMTAB_") and name not in _OF_THE_MANAGER
    }


def _comes_up(child: Child, stopping: Stopping) -> bool:
    """Wait until it serves; False if told to stop first.

    Its log tells, not its port: another collector may answer there.
    """
    deadline = time.monotonic() + UP_S
    while not child.up:
        if child.status is not None:
            raise Ended(child, said(child.status), _PORT_HINT)
        if time.monotonic() > deadline:
            raise Ended(child, f"did not come up in {UP_S:.0f} s")
        if stopping.wait(0.05):
            return False
    return True


def _stop(children: Sequence[Child]) -> dict[str, int]:
    """End all, the agent first, so that it can say goodbye; their statuses."""
    deadline = time.monotonic() + STOP_S
    return {child.name: child.stop(deadline) for child in reversed(children)}


def _report(
    ended: dict[str, int], failure: Ended | Unstarted | None, number: int | None
) -> int:
    if isinstance(failure, Ended):
        print(f"\n{failure}. Its last lines ({failure.child.log}):")
        for text in failure.child.tail():
            print(f"  {harmless(text)}")
        if failure.hint:
            print(failure.hint)
    elif failure is not None:
        print(f"\n{failure}")
    print("\n" + ", ".join(f"{name} {said(status)}" for name, status in ended.items()))
    sys.stdout.flush()
    if failure is not None or any(ended.values()):
        return 1
    return 0 if number is None else 128 + number


def _occupied(state: Path, pid: int | None) -> str:
    who = "another process" if pid is None else f"process {pid}"
    kill = "" if pid is None else f", or kill {pid}"
    return (
        f"{who} already runs trimtab on {state}: end it (Ctrl-C where it runs{kill}), "
        "or give this one a state directory and ports of its own: "
        f'make run ARGS="--state-dir DIR {_OTHER_PORTS}"'
    )


def _complain(text: str) -> None:
    with suppress(OSError):
        print(harmless(text), file=sys.stderr)


def _silence(why: OSError) -> bool:
    """Print nowhere from now on; return whether the reader has left, no more."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if why.errno in (errno.EIO, errno.EPIPE):
        return True
    _complain(f"can't print: {why.strerror}")
    return False


if __name__ == "__main__":
    sys.exit(main())
