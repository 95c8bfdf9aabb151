"""`trimtab-collector`: run the service, manage tokens, check a config."""

import argparse
import asyncio
import json
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

import structlog

from trimtab.balancer import Router
from trimtab.wire import VERSION

from .clock import SystemClock
from .core import Collector
from .credentials import SCOPES, new_credential, new_token, valid
from .events import Kind
from .lock import CannotHold, hold
from .logs import configure, standard_streams
from .recovery import open_store
from .service import CannotServe, serve
from .settings import BadSettings, Settings, load
from .store import Credential, Store, StoreError
from .tls import BadTls, tls_context

DEFAULT_CONFIG = Path("/etc/trimtab/collector.toml")
DAY_S = 86_400

EXAMPLES = """examples:
  trimtab-collector run                            on loopback, as configured
  trimtab-collector check-config collector.toml    every problem at once
  trimtab-collector token create --scope agent     for new agents to enrol with
  trimtab-collector token create --scope read --days 30 --label grafana
  trimtab-collector token revoke 1f3a90c2
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    args = _parser().parse_args(argv)
    try:
        status: int = args.command(args)
    except (BadSettings, StoreError, CannotHold, CannotServe, BadTls) as exc:
        print(f"trimtab-collector: {exc}", file=sys.stderr)
        return 2
    except sqlite3.Error as exc:
        print(
            f"trimtab-collector: the database can't be used: {exc}. Move "
            "collector.db aside, with its -wal and -shm, to begin anew: agents "
            "enrol again by themselves where that is open, else with a token",
            file=sys.stderr,
        )
        return 2
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trimtab-collector",
        description="Turns what the agents say into health, and routes by it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run the service")
    _config_option(run)
    run.set_defaults(command=_run)

    check = commands.add_parser("check-config", help="report a config's problems")
    check.add_argument("config", type=Path)
    check.set_defaults(command=_check)

    token = commands.add_parser("token", help="manage credentials")
    actions = token.add_subparsers(required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make a token and print it, once")
    _config_option(create)
    create.add_argument(
        "--scope",
        action="append",
        required=True,
        choices=SCOPES,
        help="what it admits to; repeat for several",
    )
    create.add_argument("--label", default="", help="a word on who holds it")
    create.add_argument(
        "--days", type=_days, help="days until it expires; unset: never"
    )
    create.set_defaults(command=_token_create)
    listing = actions.add_parser("list", help="list credentials, without the tokens")
    _config_option(listing)
    listing.add_argument("--json", action="store_true", help="as a JSON array")
    listing.set_defaults(command=_token_list)
    revoke = actions.add_parser("revoke", help="end a token")
    _config_option(revoke)
    revoke.add_argument("ident", metavar="ID", help="as 'token list' shows it")
    revoke.set_defaults(command=_token_revoke)
    return parser


def _config_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"settings (default: {DEFAULT_CONFIG} where it exists)",
    )


def _days(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text) or not 0 < float(text) <= 36_500:
        raise argparse.ArgumentTypeError(f"expected days, 0 to 36500, got {text!r}")
    return float(text)


def _settings(path: Path | None) -> Settings:
    if path is None:
        # Where it can't even be looked at there is none for this user.
        with suppress(OSError):
            path = DEFAULT_CONFIG if DEFAULT_CONFIG.exists() else None
    return load(path)


def _run(args: argparse.Namespace) -> int:
    settings = _settings(args.config)
    configure(settings.log_format, settings.log_level)
    standard_streams()
    lock = hold(settings.state_dir)
    store, trouble = open_store(settings.database)
    try:
        if trouble is not None:
            structlog.get_logger().error("store_damaged", trouble=trouble)
        if settings.beyond_loopback and not (settings.insecure or store.credentials()):
            listens = " and ".join(str(a) for a in settings.beyond_loopback)
            raise CannotServe(
                f"refusing to listen on {listens} without credentials: make one with "
                f"'trimtab-collector token create --scope agent{_same(args)}', or "
                "set insecure = true if everyone who can reach it may use it"
            )
        collector = Collector(settings, store, SystemClock(), Router(Random()))
        if trouble is not None:
            collector.events.say(Kind.COLLECTOR, trouble)
        with asyncio.Runner(loop_factory=_event_loop()) as runner:
            runner.run(serve(collector))
    finally:
        store.close()
        lock.close()
    return 0


def _same(args: argparse.Namespace) -> str:
    """Return the option that makes another command use the same files."""
    return f" --config {args.config}" if args.config else ""


def _event_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None  # uvloop does not exist there
    import uvloop

    return uvloop.new_event_loop


def _check(args: argparse.Namespace) -> int:
    settings = load(args.config)
    tls_context(settings)
    print(f"{args.config}: no problem found")
    return 0


def _token_create(args: argparse.Namespace) -> int:
    store = Store(_settings(args.config).database)
    now = time.time()
    expires = None if args.days is None else now + args.days * DAY_S
    token = new_token()
    credential = new_credential(token, args.scope, args.label, now, expires)
    store.add_credential(credential)
    scopes = ", ".join(sorted(credential.scopes))
    store.notify(
        Kind.CREDENTIAL,
        f"token {credential.ident} ({credential.label or 'no label'}) made: {scopes}",
        now,
    )
    store.close()
    print(token)
    print(
        f"This is token {credential.ident}, shown this once. A running collector "
        "takes it up within 5 s.",
        file=sys.stderr,
    )
    return 0


def _token_list(args: argparse.Namespace) -> int:
    held = _held(args)
    now = time.time()
    listed = [c for c in held if valid(c, now)]
    if args.json:
        rows = [
            {
                "id": c.ident,
                "scopes": sorted(c.scopes),
                "label": c.label,
                "created": c.created,
                "expires": c.expires,
            }
            for c in listed
        ]
        print(json.dumps(rows))
        return 0
    for c in listed:
        expires = "never" if c.expires is None else _day(c.expires)
        scopes = ",".join(sorted(c.scopes))
        print(f"{c.ident}  {scopes:24}  expires {expires:10}  {c.label}")
    if not listed and held:
        print("No valid token: nobody new is let in until you make one.")
    elif not listed:
        print("No token was ever made: on loopback the collector is open.")
    return 0


def _held(args: argparse.Namespace) -> list[Credential]:
    """Return what the store holds; looking makes no store."""
    database = _settings(args.config).database
    if not database.exists():
        return []
    store = Store(database)
    try:
        return store.credentials()
    finally:
        store.close()


def _token_revoke(args: argparse.Namespace) -> int:
    known = any(c.ident == args.ident for c in _held(args))
    store = Store(_settings(args.config).database) if known else None
    now = time.time()
    found = store is not None and store.revoke_credential(args.ident, now)
    if store is not None:
        if found:
            store.notify(Kind.CREDENTIAL, f"token {args.ident} revoked", now)
        store.close()
    if not found:
        print(
            f"trimtab-collector: no valid token has the id {args.ident!r}; "
            "'trimtab-collector token list' shows them",
            file=sys.stderr,
        )
        return 1
    print(f"revoked {args.ident}; a running collector refuses it within 5 s")
    return 0


def _day(unix_s: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(unix_s))


if __name__ == "__main__":
    sys.exit(main())
