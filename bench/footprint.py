"""What an agent costs the host it watches: ours and its peers, side by side.

    python bench/footprint.py                      all, 60 s at 1 Hz each
    python bench/footprint.py --seconds 10 --only "edge pinned" node_exporter
    python bench/footprint.py --json > footprint.json

Measured of the whole process tree, after three starts of each:
  PSS     shared pages divided among those who map them, median over the run
  alone   the same as if no other process ran Python: what a host is charged
          where the agent is its only Python; held to the same limits as PSS
  USS     pages that nobody else maps
  RSS     all pages, shared ones in full
  CPU     user and system time a sample
  wakes   context switches of all threads a second
  bytes   that leave it, a sample (ours: TCP payload, TLS and echoes included)
  start   from the start of the process to its first sample at the other end

A peer that is not installed is named; with TRIMTAB_REQUIRE_ALL=1 that is an
error. Debian: prometheus-node-exporter collectd-core zabbix-agent2
netdata-core; glances is installed from PyPI into a cache folder.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import peers, tree
from bench.report import RESULTS, Report, as_installed, load1, say, table
from bench.subjects import Certificates, Missing, Ours, Subject
from tests.processes import Fleet

SETTLE_S = 3.0
START_LIMIT_S = 60.0
BASE = "node_exporter"
OURS = ("standard", "edge pinned", "edge system")

Row = dict[str, object]

# What is wanted of each, as (column, most).
WANTED: dict[str, dict[str, float]] = {
    "standard": {"pss_mib": 18.0, "cpu_ms": 0.9, "wakes_s": 6.0},
    "edge pinned": {"pss_mib": 13.0, "cpu_ms": 0.5, "wakes_s": 1.2, "start_s": 0.25},
    "edge system": {"pss_mib": 15.0, "cpu_ms": 0.5, "wakes_s": 1.2, "start_s": 0.25},
}
CPU_RATIO = 0.5  # at most, of node_exporter's

COLUMNS = (
    *("pss_mib", "alone_mib", "uss_mib", "rss_mib"),
    *("cpu_ms", "wakes_s", "bytes", "start_s"),
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def ours(name: str, folder: Path) -> Ours:
    """Return one of our modes, with a collector of its own that runs."""
    folder = folder / name.replace(" ", "-")
    certificates = Certificates(folder / "tls")
    fleet = Fleet(folder, free_port)
    # At 1 Hz throughout, to be compared: not calmer while nothing moves.
    settings: dict[str, object] = {"calm_interval_s": 1}
    note = "TLS, one pinned CA"
    if name == "standard":
        settings["targets"] = '["127.0.0.1", "127.0.0.2", "127.0.0.3"]'
        note += ", three targets, ring"
    if name == "edge system":
        os.environ["SSL_CERT_FILE"] = str(certificates.bundle())
        note = "TLS, the system's bundle"
    else:
        settings["tls_ca"] = certificates.authority
    mode = name.split()[0]
    return Ours(
        name, folder, fleet, certificates, mode=mode, note=note, settings=settings
    )


def subjects(only: Sequence[str], folder: Path) -> Iterator[Subject]:
    for name in OURS:
        if not only or name in only:
            yield ours(name, folder)
    for peer in peers.PEERS:
        if not only or peer.name in only:
            yield peer(folder, free_port)


def started(subject: Subject) -> tuple[subprocess.Popen[bytes], float]:
    """Start it; return it and how long its first sample took."""
    begun = time.monotonic()
    process = subject.start()
    while not subject.seen():
        if process.poll() is not None:
            raise Missing(f"{subject.name}: ended with {process.returncode} at once")
        if time.monotonic() - begun > START_LIMIT_S:
            end(process)
            raise Missing(f"{subject.name}: no sample within {START_LIMIT_S:g} s")
        time.sleep(0.004)
    return process, time.monotonic() - begun


def end(process: subprocess.Popen[bytes]) -> None:
    """End it and what it started, by their ids."""
    pids = tree.tree(process.pid)
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pid in pids[1:]:
        with suppress(ProcessLookupError):
            os.kill(pid, 9)


def measure(subject: Subject, seconds: int, starts: int) -> Row:
    """Return the row of one subject."""
    begun_load = load1()
    if subject.name in OURS:  # enrols, and writes its bytecode
        end(started(subject)[0])
    took = []
    for _ in range(starts - 1):
        process, start_s = started(subject)
        took.append(start_s)
        end(process)
    process, start_s = started(subject)
    try:
        took.append(start_s)
        time.sleep(SETTLE_S)
        row = watch(subject, process, seconds)
    finally:
        end(process)
    row["start_s"] = round(statistics.median(took), 3)
    row["starts_s"] = [round(s, 3) for s in took]
    row["load1"] = [round(begun_load, 2), round(load1(), 2)]
    return row


def watch(subject: Subject, process: subprocess.Popen[bytes], seconds: int) -> Row:
    """Return what it costs over so many seconds."""
    pids = tree.tree(process.pid)
    held: list[tree.Memory] = []
    alone: list[int | None] = []
    cpu, switched = tree.cpu_ns(pids), tree.switches(pids)
    sent, frames = subject.sent_bytes(), taken(subject)
    begun = due = time.monotonic()
    for second in range(seconds):
        subject.tick()
        if second % 10 == 5 or seconds < 10:
            alone.append(tree.pss_alone(pids))
        held.append(tree.memory(pids))
        due += 1.0
        time.sleep(max(0.0, due - time.monotonic()))
    if process.poll() is not None:
        raise Missing(f"{subject.name}: ended with {process.returncode} on the way")
    pids = tree.tree(process.pid)
    elapsed_s = time.monotonic() - begun
    cpu = tree.cpu_ns(pids) - cpu
    more = tree.switches(pids)
    wakes = sum(count - switched.get(thread, 0) for thread, count in more.items())
    after = subject.sent_bytes()
    left = None if sent is None or after is None else after - sent
    known = [kib for kib in alone if kib is not None]
    mib = {
        "pss_mib": statistics.median(m.pss for m in held) / 1024,
        "alone_mib": statistics.median(known) / 1024 if known else None,
        "uss_mib": statistics.median(m.uss for m in held) / 1024,
        "rss_mib": statistics.median(m.rss for m in held) / 1024,
    }
    return {
        **{k: None if v is None else round(v, 2) for k, v in mib.items()},
        "cpu_ms": round(cpu / 1e6 / elapsed_s, 3),
        "wakes_s": round(wakes / elapsed_s, 2),
        "bytes": None if left is None else round(left / elapsed_s),
        "samples": round(elapsed_s),
        "frames": None if frames is None else (taken(subject) or 0) - frames,
        "processes": len(pids),
        "threads": tree.threads(pids),
    }


def taken(subject: Subject) -> int | None:
    return subject.frames() if isinstance(subject, Ours) else None


def verdicts(rows: dict[str, Row]) -> list[dict[str, object]]:
    """Return what was wanted of ours, what was measured, and whether it is met."""
    found: list[dict[str, object]] = []
    base = rows.get(BASE, {}).get("cpu_ms")
    for name, wanted in WANTED.items():
        row = rows.get(name)
        if row is None or "missing" in row:
            continue
        # Beside no other Python it is to be as light as beside some.
        limits = {**wanted, "alone_mib": wanted["pss_mib"]}
        if isinstance(base, float):
            limits["cpu_ratio"] = CPU_RATIO
        for column, most in limits.items():
            value = row.get(column)
            if column == "cpu_ratio" and isinstance(base, float):
                value = round(float(str(row["cpu_ms"])) / base, 3)
            if not isinstance(value, int | float):
                continue
            found.append(
                {
                    "subject": name,
                    "what": column,
                    "wanted": most,
                    "measured": value,
                    "met": value <= most,
                }
            )
    return found


def show(rows: dict[str, Row]) -> str:
    """Return the tables for people."""
    good = {name: row for name, row in rows.items() if "missing" not in row}
    lines = [
        table(
            ("", *COLUMNS),
            [(name, *(row[c] for c in COLUMNS)) for name, row in good.items()],
        )
    ]
    base = good.get(BASE)
    if base is not None:
        ratios = [
            (name, *(_ratio(row[c], base[c]) for c in COLUMNS))
            for name, row in good.items()
        ]
        lines += ["", f"As multiples of {BASE}:", table(("", *COLUMNS), ratios)]
    checks = [
        (*(v[k] for k in ("subject", "what", "measured", "wanted")), _word(v["met"]))
        for v in verdicts(rows)
    ]
    lines += ["", table(("", "what", "measured", "at most", ""), checks)]
    lines += [f"{n}: {row['missing']}" for n, row in rows.items() if "missing" in row]
    return "\n".join(lines)


def _word(met: object) -> str:
    return "met" if met else "MISSED"


def _ratio(value: object, base: object) -> float | None:
    if isinstance(value, int | float) and isinstance(base, int | float) and base:
        return round(value / base, 3)
    return None


def main(argv: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=60, help="each (default: 60)")
    parser.add_argument("--starts", type=int, default=3, help="of each (default: 3)")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--glances", metavar="PROGRAM", help="this one, not ours")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for results")
    parser.add_argument("--json", action="store_true", help="JSON in place of tables")
    args = parser.parse_args(given)
    as_installed()
    peers.Glances.program = args.glances
    report = Report("footprint", given)
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        for subject in subjects(args.only, Path(folder)):
            say(f"{subject.name}: {subject.note}, {args.seconds} s; load {load1():.2f}")
            try:
                rows[subject.name] = measure(subject, args.seconds, args.starts)
                rows[subject.name]["note"] = subject.note
            except Missing as exc:
                rows[subject.name] = {"missing": str(exc)}
                say(f"{subject.name}: MISSING: {exc}")
            finally:
                subject.close()
    text = report.keep({"rows": rows, "wanted": verdicts(rows)}, args.out)
    print(text if args.json else show(rows))
    missing = any("missing" in row for row in rows.values())
    return 1 if missing and os.environ.get("TRIMTAB_REQUIRE_ALL") == "1" else 0


if __name__ == "__main__":
    sys.exit(main())
