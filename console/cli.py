"""`trimtab`: the operator's command. Argument parsing and exit statuses."""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn, Protocol

from rich.console import Console, RenderableType

from trimtab.client import (
    DEFAULT_URL,
    ApiError,
    BadAuthority,
    BadUrl,
    Client,
    Decision,
    Event,
    Node,
    NoFit,
    NotFound,
)

from . import decision_view, events_view, intent_view, node_view, nodes_view, texts
from .bars import slots
from .durations import parse_duration
from .harmless import harmless
from .states import tally, worst_first
from .task_words import BadWords, parse_words, read_task
from .terminal import console, roomy

# The last hour in as many characters as fit on a narrow terminal.
STEP_S, STEPS = 120, 30
LAST = 20  # events shown unless told otherwise
MOST = 1000  # nodes or events that one answer holds


class Usage(ValueError):
    """An argument that can't be; says what was expected."""


class _Writable(Protocol):
    def write(self, text: str, /) -> object: ...


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and where help is; harmless, since it quotes."""
        if sys.stderr is not None:  # print_usage would take None for stdout
            self.print_usage(sys.stderr)
        _complain(f"{message}; try '{self.prog} --help'")
        sys.exit(2)

    def _print_message(self, message: str, file: _Writable | None = None) -> None:
        """Write it, and let a failure be known, which argparse passes over."""
        print(message, end="", file=file)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    if sys.stdout is None:  # how Python starts when it is closed
        _complain("standard output is closed")
        return 2
    try:
        try:
            return _answer(argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader of `nodes | head` has seen enough.
        _silence()
        return 0
    except OSError as exc:
        _silence()
        _complain(f"the answer can't be written: {exc.strerror}")
        return 2
    except KeyboardInterrupt:
        return 130


def _answer(argv: Sequence[str] | None) -> int:
    args = _parser().parse_args(argv)
    # A locale without these characters gets a mark for them, not a traceback.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    try:
        with _client(args) as client:
            status: int = args.command(args, client)
    except (BadUrl, BadWords, Usage) as exc:
        _complain(str(exc))
        return 2
    except ApiError as exc:
        if args.json and exc.problem is not None:
            _print_json(exc.problem)
        _complain(str(exc))
        return 1 if isinstance(exc, NotFound) else 2
    return status


def _complain(text: str) -> None:
    if sys.stderr is not None:  # print would take None for standard output
        with suppress(OSError):
            print(f"trimtab: {harmless(text)}", file=sys.stderr)


def _silence() -> None:
    """Let what is still buffered go nowhere, or Python would fail on it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="trimtab",
        description=texts.ABOUT,
        epilog=texts.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {version('trimtab')}"
    )
    _options(parser, default=None)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(
        name: str, run: Callable[[argparse.Namespace, Client], int]
    ) -> argparse.ArgumentParser:
        told = texts.COMMANDS[name]
        command = commands.add_parser(
            name,
            help=told.line,
            description=told.about,
            epilog=told.examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        _options(command, default=argparse.SUPPRESS)
        command.set_defaults(command=run)
        return command

    nodes = add("nodes", _nodes)
    for name in ("state", "site", "label", "limiting", "admin"):
        nodes.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar="KEY=VALUE" if name == "label" else name.upper(),
            help="only nodes with it" if name == "label" else f"only of this {name}",
        )
    nodes.add_argument(
        "--sort",
        metavar="BY",
        help="name, score, confidence, age, cpu, memory, network or gpu; "
        "with - before it the other way round (--sort=-score)",
    )
    nodes.add_argument("--limit", type=_count, metavar="N", help="at most so many")
    node = add("node", _node)
    node.add_argument("node", metavar="NODE", help="its name or id")
    route = add("route", _route)
    route.add_argument("words", nargs="*", metavar="KEY=VALUE")
    route.add_argument("--task", metavar="FILE", help="the task as JSON; - is stdin")
    explain = add("explain", _explain)
    explain.add_argument("decision", metavar="ID", help="of the decision")
    drain = add("drain", _drain)
    drain.add_argument("node", metavar="NODE", help="its name or id")
    drain.add_argument(
        "--deadline",
        type=_duration,
        metavar="TIME",
        help="when it ends at the latest, such as 90s, 10m, 1h30m",
    )
    drain.add_argument("--reason", metavar="TEXT", help="shown with the node")
    undrain = add("undrain", _undrain)
    undrain.add_argument("node", metavar="NODE", help="its name or id")
    forget = add("forget", _forget)
    forget.add_argument("node", metavar="NODE", help="its name or id")
    forget.add_argument("--reason", metavar="TEXT", help="shown with the node")
    events = add("events", _events)
    events.add_argument(
        "-f", "--follow", action="store_true", help="go on, until Ctrl-C"
    )
    since = events.add_mutually_exclusive_group()
    since.add_argument(
        "--last",
        type=_count,
        default=LAST,
        metavar="N",
        help="the newest N (default 20)",
    )
    since.add_argument(
        "--after", type=_ident, metavar="ID", help="all past the event of this number"
    )
    return parser


def _options(parser: argparse.ArgumentParser, default: str | None) -> None:
    parser.add_argument(
        "--url", default=default, help=f"the collector (default: {DEFAULT_URL})"
    )
    parser.add_argument(
        "--token-file", default=default, metavar="FILE", help="holds the token"
    )
    parser.add_argument(
        "--cacert",
        default=default,
        metavar="FILE",
        help="PEM file of the authorities to trust (default: the system's)",
    )
    parser.add_argument(
        "--json", action="store_true", default=default, help="the API's own JSON"
    )


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:10]) <= MOST):
        raise argparse.ArgumentTypeError(f"expected 1 to {MOST}, got {text[:40]!r}")
    return int(text)


def _ident(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise argparse.ArgumentTypeError(f"expected a number, got {text[:40]!r}")
    return int(text)


def _client(args: argparse.Namespace) -> Client:
    token = os.environ.get("TRIMTAB_TOKEN") or None
    if args.token_file is not None:
        try:
            token = Path(args.token_file).read_text("utf-8").strip()
        except OSError as exc:
            raise Usage(
                f"--token-file {args.token_file}: can't be read: {exc.strerror}"
            ) from exc
        except UnicodeDecodeError as exc:
            raise Usage(f"--token-file {args.token_file}: is not text") from exc
    url = args.url or os.environ.get("TRIMTAB_URL") or DEFAULT_URL
    ca_file = args.cacert
    if ca_file is None:
        ca_file = os.environ.get("TRIMTAB_CA") or None
    try:
        return Client(url, token, ca_file=ca_file)
    except BadUrl as exc:
        raise Usage(f"--url or TRIMTAB_URL: {exc}") from exc
    except BadAuthority as exc:
        raise Usage(f"--cacert or TRIMTAB_CA: {exc}") from exc
    except ValueError as exc:
        raise Usage(f"--token-file or TRIMTAB_TOKEN: {exc}") from exc


def _nodes(args: argparse.Namespace, client: Client) -> int:
    filters = {
        name: getattr(args, name)
        for name in ("state", "site", "label", "limiting", "admin")
    }
    nodes = client.nodes(**filters, sort=args.sort, limit=args.limit)
    if args.json:
        _print_json({"nodes": [node.raw for node in nodes], "next": None})
        return 0
    out = console(sys.stdout)
    if nodes:
        ordered = nodes if args.sort else worst_first(nodes)
        out.print(nodes_view.fleet(ordered, roomy=roomy(out)))
        out.print()
    elif any(filters.values()):
        out.print("No node passes these filters.")
        return 0
    out.print(tally(nodes))
    return 0


def _drain(args: argparse.Namespace, client: Client) -> int:
    return _told(
        args, client.drain(args.node, deadline_s=args.deadline, reason=args.reason)
    )


def _undrain(args: argparse.Namespace, client: Client) -> int:
    return _told(args, client.undrain(args.node))


def _forget(args: argparse.Namespace, client: Client) -> int:
    return _told(args, client.delete(args.node, reason=args.reason))


def _told(args: argparse.Namespace, node: Node) -> int:
    if args.json:
        _print_json(node.raw)
    else:
        console(sys.stdout).print(intent_view.told(node))
    return 0


def _events(args: argparse.Namespace, client: Client) -> int:
    page = client.events(args.after, limit=args.last if args.after is None else MOST)
    while True:
        for event in page.events:
            _print_event(args, event)
        if args.after is None or not page.events:
            break
        page = client.events(page.next, limit=MOST)
    if args.follow:
        for event in client.follow(page.next):
            _print_event(args, event)
    return 0


def _print_event(args: argparse.Namespace, event: Event) -> None:
    text = json.dumps(event.raw) if args.json else events_view.line(event)
    print(text, flush=True)


def _node(args: argparse.Namespace, client: Client) -> int:
    node = client.node(args.node)
    if args.json:
        _print_json(node.raw)
        return 0
    since_s = (time.time() // STEP_S - (STEPS - 1)) * STEP_S
    history = client.history(node.id, since=since_s, step=STEP_S)
    hour = slots(history, "score", since_s, STEPS)
    out = console(sys.stdout)
    _print(out, node_view.whole(node, hour, roomy=roomy(out)))
    return 0


def _route(args: argparse.Namespace, client: Client) -> int:
    if args.task is not None and args.words:
        raise Usage("give the task as KEY=VALUE words or as --task FILE, not both")
    task = parse_words(args.words) if args.task is None else read_task(args.task)
    answer = client.route(task)
    if args.json:
        _print_json(answer.raw)
    elif isinstance(answer, NoFit):
        _print(console(sys.stdout), decision_view.nowhere(answer))
    else:
        _print_decision(answer)
    return 1 if isinstance(answer, NoFit) else 0


def _explain(args: argparse.Namespace, client: Client) -> int:
    decision = client.decision(args.decision)
    if args.json:
        _print_json(decision.raw)
    else:
        _print_decision(decision)
    return 0


def _print_decision(decision: Decision) -> None:
    out = console(sys.stdout)
    _print(out, decision_view.picked(decision, roomy=roomy(out)))


def _print(out: Console, parts: Iterable[RenderableType]) -> None:
    for part in parts:
        out.print(part)


def _print_json(value: object) -> None:
    # ASCII escapes keep what a node chose from reaching the terminal raw.
    print(json.dumps(value, indent=2))


if __name__ == "__main__":
    sys.exit(main())
