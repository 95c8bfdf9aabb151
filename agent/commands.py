"""The commands beside a plain `run`: readings, diagnosis, installation."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from trimtab.wire import VERSION

from . import cli, options
from .host import Host
from .options import Option
from .settings import Settings

IDENTITY = "identity.json"
UNITS_STATE_DIR = Path("/var/lib/trimtab-agent")

EXAMPLES = """examples:
  trimtab-agent sample                               this host, now
  trimtab-agent sample --json --count 10 --interval 0.5
  trimtab-agent doctor                               what is missing, and the mend
  trimtab-agent run --collector collector.example:7766
  trimtab-agent pause-gpu && nvidia-smi --gpu-reset -i 0
  trimtab-agent install --collector collector.example:7766 --token-file -
  trimtab-agent run --procfs /host/proc --sysfs /host/sys      in a container

Settings come from /etc/trimtab/agent.toml, then TRIMTAB_... variables, then flags.
"""


def main(argv: Sequence[str]) -> int:
    """Run a command line as argparse reads it; return the exit status."""
    args = parser().parse_args(argv)
    status: int = args.command(args)
    return status


def parser() -> argparse.ArgumentParser:
    """Return the parser of every command."""
    parser = argparse.ArgumentParser(
        prog="trimtab-agent",
        description="Measures this host and tells the collector.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run the service")
    _add(run, *options.RUN)
    run.set_defaults(command=lambda args: cli.run(_given(args, options.RUN)))

    sample = commands.add_parser("sample", help="print this host's readings")
    _add(sample, *options.HOST)
    sample.add_argument("--json", action="store_true", help="a JSON line a sample")
    sample.add_argument(
        "--count", type=_count, default=1, metavar="N", help="samples (default: 1)"
    )
    sample.add_argument(
        "--interval", type=_interval, default=1.0, metavar="S", help="seconds between"
    )
    sample.set_defaults(command=_sample)

    doctor = commands.add_parser(
        "doctor", help="what this host can measure, and how to mend what it can't"
    )
    _add(doctor, *options.HOST, options.COLLECTOR, options.STATE_DIR)
    doctor.add_argument("--json", action="store_true", help="as one JSON document")
    doctor.set_defaults(command=_doctor)
    pause = commands.add_parser(
        "pause-gpu", help="let go of the GPUs, so that they can be reset"
    )
    _add(
        pause,
        Option("--state-dir", "DIR", "of the running agent"),
        Option("--config", "FILE", "its settings"),
    )
    pause.add_argument(
        "--for",
        dest="for_s",
        type=_pause_s,
        default=1800.0,
        metavar="S",
        help="seconds until it takes them up again by itself (default: 1800)",
    )
    pause.add_argument("--resume", action="store_true", help="end the pause now")
    pause.set_defaults(command=_pause_gpu)

    install = commands.add_parser("install", help="bring the systemd service up here")
    _service_options(install)
    _add(
        install,
        options.COLLECTOR,
        Option("--token-file", "FILE", "the token to enrol with; -: standard input"),
        options.NAME,
        Option("--mode", None, "as for run", choices=options.MODES),
    )
    install.add_argument(
        "--icmp",
        action="store_true",
        help="give it CAP_NET_RAW, where doctor says that ICMP is not permitted",
    )
    install.add_argument(
        "--no-start", dest="start", action="store_false", help="enable it, no more"
    )
    install.set_defaults(command=_install)

    uninstall = commands.add_parser("uninstall", help="take the systemd service away")
    _service_options(uninstall)
    uninstall.add_argument(
        "--purge", action="store_true", help="config, token and identity go, too"
    )
    uninstall.set_defaults(command=_uninstall)
    return parser


def _service_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="of a system that is not running, such as an image",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="change nothing, say what would be done"
    )
    parser.add_argument("--json", action="store_true", help="as one JSON document")


def _add(parser: argparse.ArgumentParser, *wanted: Option) -> None:
    for option in wanted:
        parser.add_argument(
            option.flag,
            metavar=option.metavar,
            choices=option.choices or None,
            help=option.help,
        )


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"expected a count from 1, got {text!r}")
    return int(text)


def _pause_s(text: str) -> float:
    if not text.isdigit() or not 1 <= int(text) <= 7 * 86_400:
        raise argparse.ArgumentTypeError(f"expected 1 to 604800 s, got {text!r}")
    return float(text)


def _interval(text: str) -> float:
    try:
        interval_s = float(text)
    except ValueError:
        interval_s = 0.0
    if not 0.05 <= interval_s <= 3600:
        raise argparse.ArgumentTypeError(f"expected 0.05 to 3600 s, got {text!r}")
    return interval_s


def _given(args: argparse.Namespace, wanted: Sequence[Option]) -> dict[str, str | None]:
    return {option.setting: getattr(args, option.setting, None) for option in wanted}


def _settings(args: argparse.Namespace) -> Settings:
    return cli.settings(_given(args, options.RUN))


def _sample(args: argparse.Namespace) -> int:
    settings = _settings(args)
    from . import readout

    host = Host(settings.procfs, settings.sysfs, settings.cgroup)
    for number, signals in enumerate(
        readout.watch(settings, host, args.count, args.interval)
    ):
        if args.json:
            print(readout.as_json(signals, time.time()), flush=True)
        else:
            print(end="\n" if number else "")
            readout.as_table(signals, sys.stdout)
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


def _pause_gpu(args: argparse.Namespace) -> int:
    from .gpu import pause

    state_dir = Path(_settings(args).state_dir)
    if args.state_dir is None and not (state_dir / IDENTITY).exists():
        # The shipped unit keeps its state apart from a collector's.
        state_dir = UNITS_STATE_DIR
    return pause.command(state_dir, sys.stdout, for_s=args.for_s, resume=args.resume)


def _install(args: argparse.Namespace) -> int:
    from . import installer
    from .installing import Asked

    asked = Asked(
        args.collector, args.name, args.mode, icmp=args.icmp, start=args.start
    )
    return installer.install(
        asked,
        args.token_file,
        args.root.absolute(),
        sys.stdout,
        dry_run=args.dry_run,
        as_json=args.json,
    )


def _uninstall(args: argparse.Namespace) -> int:
    from . import installer

    return installer.uninstall(
        args.root.absolute(),
        sys.stdout,
        purge=args.purge,
        dry_run=args.dry_run,
        as_json=args.json,
    )
