"""`trimtab-agent doctor`: what this host can measure, what not, and the mend.

Exit status: 0 all is well, 1 degraded (some signal or the way to the
collector is missing), 2 unusable (nothing can be measured, or no identity
can be kept).
"""

import asyncio
import json
import time
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple, TextIO

from trimtab.wire import Echo, Refused, Scope, State, Stream, encode

from .backend import sampler
from .emit import Log
from .gpu.presence import look
from .host import Host
from .identity import NoIdentity, check, read_token
from .probes.ping import Pinger
from .probes.resolve import Resolver
from .probes.targets import Target
from .sampler import Signal
from .settings import Address, Settings
from .starting import CannotRun, tls_context
from .trouble import hint, plain

BETWEEN_S = 0.5  # two looks, for signals that are differences
REACH_S = 3.0
GPU_S = 8.0  # for NVML to open and be read once


class Verdict(IntEnum):
    """How a finding weighs, and the exit status of the worst."""

    GOOD = 0
    DEGRADED = 1
    UNUSABLE = 2


class Finding(NamedTuple):
    """One thing looked at."""

    subject: str
    verdict: Verdict
    says: str
    mend: str = ""


def examine(settings: Settings) -> list[Finding]:
    """Return every finding about this host under these settings."""
    return [
        *_signals(settings),
        _identity(settings),
        *_token(settings),
        *asyncio.run(_network(settings)),
        *asyncio.run(_gpus(settings)),
    ]


def status(findings: Sequence[Finding]) -> Verdict:
    """Return the worst verdict."""
    return max((f.verdict for f in findings), default=Verdict.GOOD)


def _signals(settings: Settings) -> list[Finding]:
    host = Host(settings.procfs, settings.sysfs, settings.cgroup)
    sampling = sampler(settings, host)
    sampling.sample(time.monotonic_ns())
    time.sleep(BETWEEN_S)
    signals = sampling.sample(time.monotonic_ns()).signals
    host.close()
    findings = [_signal(signal) for signal in signals]
    if all(f.verdict is not Verdict.GOOD for f in findings):
        findings.append(
            Finding(
                "signals",
                Verdict.UNUSABLE,
                f"nothing can be read under {settings.procfs}",
                "give the agent a host's procfs: --procfs DIR",
            )
        )
    return findings


def _signal(signal: Signal) -> Finding:
    good = signal.state is State.OK
    says = signal.reason or ("read" if good else signal.state.name.lower())
    if signal.value is not None and good:
        value = (
            f"{signal.value:.1%}" if signal.unit == "share" else f"{signal.value:,.2f}"
        )
        says = f"{value} {signal.unit}" + (
            f" ({signal.reason})" if signal.reason else ""
        )
    if signal.scope is Scope.CONTAINER:
        says += " (of the control group)"
    verdict = Verdict.GOOD if good else Verdict.DEGRADED
    return Finding(signal.name, verdict, says, signal.mend)


def _identity(settings: Settings) -> Finding:
    try:
        says = check(settings.state_dir)
    except NoIdentity as exc:
        return Finding("identity", Verdict.UNUSABLE, str(exc))
    return Finding("identity", Verdict.GOOD, says)


def _token(settings: Settings) -> list[Finding]:
    if settings.token_file is None:
        return []
    try:
        read_token(settings.token_file)
    except NoIdentity as exc:
        return [Finding("token", Verdict.DEGRADED, str(exc))]
    return [Finding("token", Verdict.GOOD, f"{settings.token_file} can be read")]


async def _network(settings: Settings) -> list[Finding]:
    return list(
        await asyncio.gather(
            *(_collector(settings, address) for address in settings.collector),
            *(_target(text) for text in settings.targets),
        )
    )


async def _gpus(settings: Settings) -> list[Finding]:
    """Ask the GPUs as the agent would, in a child of its own."""
    trees = (settings.sysfs, settings.procfs, Path("/dev"))
    if not settings.gpu or not look(*trees).gpu:
        return []
    from .gpu.probe import GpuProbe

    probe = GpuProbe(*trees, log=Log(level="error"))
    task = asyncio.create_task(probe.run())
    await probe.settle(GPU_S)
    found = probe.findings()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return [
        Finding(f.subject, Verdict.GOOD if f.good else Verdict.DEGRADED, f.says, f.mend)
        for f in found
    ]


async def _collector(settings: Settings, collector: Address) -> Finding:
    """Dial as the agent would, and see whether frames are understood there.

    Without a hello, which would take the running agent's place: whether the
    collector admits this node shows at its first run, in its log.
    """
    try:
        tls = tls_context(settings)
    except CannotRun as exc:
        return Finding("collector", Verdict.DEGRADED, str(exc))
    host, _ = collector
    reasons = []
    try:
        for address in await Resolver(Target(*collector)).addresses(REACH_S):
            literal, port = address.sockaddr[:2]
            try:
                async with asyncio.timeout(REACH_S):
                    reader, writer = await asyncio.open_connection(
                        literal, port, ssl=tls, server_hostname=host if tls else None
                    )
                    says = await _greeting(reader, writer)
            except (OSError, ValueError) as exc:
                why = plain(exc) if str(exc) else "no answer: no welcome"
                reasons.append(f"{literal}: {why}{hint(why, exc, tls=bool(tls))}")
            else:
                return Finding("collector", Verdict.GOOD, f"{collector} {says}")
    except (OSError, UnicodeError) as exc:
        reasons.append(f"{plain(exc)}{hint(plain(exc), exc, tls=bool(tls))}")
    return Finding(
        "collector",
        Verdict.DEGRADED,
        f"{collector} can't be reached: {'; '.join(reasons)}",
    )


async def _greeting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    """Ask out of turn: a collector refuses that in words of its own."""
    try:
        writer.write(encode(Echo(reply=False, ident=1, stamp_us=0)))
        for message in Stream().feed(await reader.read(4096)):
            if isinstance(message, Refused):
                return "speaks trimtab" + (
                    " over TLS" if writer.get_extra_info("ssl_object") else ""
                )
    finally:
        writer.close()
    raise OSError("what answers there is no trimtab collector")


async def _target(target: str) -> Finding:
    pinger = Pinger(target, deadline_s=REACH_S)
    rtt_us = await pinger.probe()
    method = pinger.method.name.lower() if pinger.method else "no method"
    note = f" ({pinger.reason})" if pinger.reason else ""
    if rtt_us is None:
        says = f"no answer by {method}{note}"
        return Finding(f"target {target}", Verdict.DEGRADED, says, pinger.mend)
    return Finding(
        f"target {target}",
        Verdict.GOOD,
        f"{rtt_us / 1000:.2f} ms by {method}{note}",
        pinger.mend,
    )


def as_json(findings: Sequence[Finding]) -> str:
    """Return the findings as one JSON document."""
    return json.dumps(
        {
            "status": status(findings).name.lower(),
            "findings": [
                {
                    "subject": f.subject,
                    "verdict": f.verdict.name.lower(),
                    "says": f.says,
                    "mend": f.mend or None,
                }
                for f in findings
            ],
        },
        indent=2,
    )


def as_text(findings: Sequence[Finding], out: TextIO) -> None:
    """Print the findings for people."""
    marks = {Verdict.GOOD: "ok", Verdict.DEGRADED: "hole", Verdict.UNUSABLE: "FAIL"}
    for f in findings:
        print(f"{marks[f.verdict]:5} {f.subject:22} {f.says}", file=out)
        if f.mend and f.verdict is not Verdict.GOOD:
            print(f"{'':5} {'':22} -> {f.mend}", file=out)
    print(f"\nThis host is {_SUMMARY[status(findings)]}.", file=out)


_SUMMARY = {
    Verdict.GOOD: "measured in full",
    Verdict.DEGRADED: "usable, with the holes above",
    Verdict.UNUSABLE: "not usable as it is",
}
