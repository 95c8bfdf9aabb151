"""`trimtab-agent`: run the service, print a sample, examine the host."""

import argparse
import functools
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from trimtab.wire import VERSION

from .host import Host
from .settings import DEFAULT_CONFIG, BadSettings, Settings, default_config, load

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
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run the service")
    _host_options(run)
    run.add_argument("--collector", metavar="HOST:PORT", help="where frames go")
    run.add_argument(
        "--mode",
        choices=("standard", "edge"),
        help="edge: least memory and traffic, sends on change",
    )
    run.add_argument("--name", help="the node's name (default: the host's)")
    run.add_argument("--state-dir", metavar="DIR", help="where the identity is kept")
    run.set_defaults(command=_run)

    sample = commands.add_parser("sample", help="print this host's readings")
    _host_options(sample)
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
    _host_options(doctor)
    doctor.add_argument("--collector", metavar="HOST:PORT", help="where frames go")
    doctor.add_argument("--state-dir", metavar="DIR", help="where the identity is kept")
    doctor.add_argument("--json", action="store_true", help="as one JSON document")
    doctor.set_defaults(command=_doctor)
    pause = commands.add_parser(
        "pause-gpu", help="let go of the GPUs, so that they can be reset"
    )
    pause.add_argument("--state-dir", metavar="DIR", help="of the running agent")
    pause.add_argument("--config", type=Path, metavar="FILE", help="its settings")
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
    install.add_argument("--collector", metavar="HOST:PORT", help="where frames go")
    install.add_argument(
        "--token-file",
        metavar="FILE",
        help="the token to enrol with; -: standard input",
    )
    install.add_argument("--name", help="the node's name (default: the host's)")
    install.add_argument("--mode", choices=("standard", "edge"), help="as for run")
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


def _host_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"settings (default: {DEFAULT_CONFIG} where it exists)",
    )
    parser.add_argument("--procfs", metavar="DIR", help="the host's /proc")
    parser.add_argument("--sysfs", metavar="DIR", help="the host's /sys")
    parser.add_argument(
        "--cgroup",
        metavar="PATH",
        help="watch this control group in place of the host, as in /proc/PID/cgroup",
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


def _settings(args: argparse.Namespace) -> Settings:
    config = args.config or default_config()
    flags = {
        key: getattr(args, key, None)
        for key in (
            "collector",
            "mode",
            "name",
            "state_dir",
            "procfs",
            "sysfs",
            "cgroup",
        )
    }
    return load(config, os.environ, flags)


def _run(args: argparse.Namespace) -> int:
    # Until the shell takes them up: both would end a process that has none.
    for name in ("SIGHUP", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    from .starting import CannotRun, prepare

    try:
        again = functools.partial(_settings, args)
        start = prepare(again(), again)
    except CannotRun as exc:
        print(f"trimtab-agent: {exc}", file=sys.stderr)
        return 2
    # Each shell loads only what it uses.
    if start.settings.mode == "edge":
        from .edge.loop import serve
    else:
        from .service import serve
    serve(start)
    return 0


def _sample(args: argparse.Namespace) -> int:
    settings = _settings(args)
    from . import readout

    host = Host(settings.procfs, settings.sysfs, settings.cgroup)
    for number, readings in enumerate(
        readout.watch(settings, host, args.count, args.interval)
    ):
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


def _pause_gpu(args: argparse.Namespace) -> int:
    from .gpu import pause

    state_dir = _settings(args).state_dir
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


if __name__ == "__main__":
    sys.exit(main())
