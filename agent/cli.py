"""`trimtab-agent`: run the service, print a sample, examine the host."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from trimtab.wire import VERSION

from .host import Host
from .settings import DEFAULT_CONFIG, BadSettings, Settings, load

EXAMPLES = """examples:
  trimtab-agent sample                               this host, now
  trimtab-agent sample --json --count 10 --interval 0.5
  trimtab-agent doctor                               what is missing, and the mend
  trimtab-agent run --collector collector.example:7766
  trimtab-agent run --procfs /host/proc --sysfs /host/sys      in a container

Settings come from /etc/trimtab/agent.toml, then TRIMTAB_... variables, then flags.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    args = _parser().parse_args(argv)
    try:
        status: int = args.command(args)
    except BadSettings as exc:
        for problem in exc.problems:
            print(f"trimtab-agent: {problem}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of `sample | head` has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trimtab-agent",
        description="Measures this host and tells the collector.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"trimtab {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run the service")
    _host_options(run)
    run.add_argument("--collector", metavar="HOST:PORT", help="where frames go")
    run.add_argument("--name", help="the node's name (default: the host's)")
    run.add_argument("--state-dir", metavar="DIR", help="where the identity is kept")
    run.set_defaults(command=_run)

    sample = commands.add_parser("sample", help="print this host's readings")
    _host_options(sample)
    sample.add_argument("--json", action="store_true", help="a JSON line a sample")
    sample.add_argument("--count", type=_count, default=1, metavar="N")
    sample.add_argument(
        "--interval", type=_interval, default=1.0, metavar="S", help="seconds between"
    )
    sample.set_defaults(command=_sample)

    doctor = commands.add_parser(
        "doctor", help="what this host can measure, and how to mend what it can't"
    )
    _host_options(doctor)
    doctor.add_argument("--collector", metavar="HOST:PORT")
    doctor.add_argument("--state-dir", metavar="DIR")
    doctor.add_argument("--json", action="store_true")
    doctor.set_defaults(command=_doctor)
    return parser


def _host_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"settings (default: {DEFAULT_CONFIG} where it exists)",
    )
    parser.add_argument("--procfs", metavar="DIR", help="the host's /proc")
    parser.add_argument("--sysfs", metavar="DIR", help="the host's /sys")


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"expected a count from 1, got {text!r}")
    return int(text)


def _interval(text: str) -> float:
    try:
        interval_s = float(text)
    except ValueError:
        interval_s = 0.0
    if not 0.05 <= interval_s <= 3600:
        raise argparse.ArgumentTypeError(f"expected 0.05 to 3600 s, got {text!r}")
    return interval_s


def _settings(args: argparse.Namespace) -> Settings:
    config = args.config
    if config is None and DEFAULT_CONFIG.exists():
        config = DEFAULT_CONFIG
    flags = {
        key: getattr(args, key, None)
        for key in ("collector", "name", "state_dir", "procfs", "sysfs")
    }
    return load(config, os.environ, flags)


def _run(args: argparse.Namespace) -> int:
    settings = _settings(args)
    from .service import CannotRun, serve

    try:
        serve(settings)
    except CannotRun as exc:
        print(f"trimtab-agent: {exc}", file=sys.stderr)
        return 2
    return 0


def _sample(args: argparse.Namespace) -> int:
    settings = _settings(args)
    from . import readout

    host = Host(settings.procfs, settings.sysfs)
    for number, readings in enumerate(readout.watch(host, args.count, args.interval)):
        if args.json:
            print(readout.as_json(readings, time.time()), flush=True)
        else:
            print(end="\n" if number else "")
            readout.as_table(readings, sys.stdout)
            sys.stdout.flush()
    host.close()
    return 0


def _doctor(args: argparse.Namespace) -> int:
    settings = _settings(args)
    from . import doctor

    findings = doctor.examine(settings)
    if args.json:
        print(doctor.as_json(findings))
    else:
        doctor.as_text(findings, sys.stdout)
    return int(doctor.status(findings))


if __name__ == "__main__":
    sys.exit(main())
