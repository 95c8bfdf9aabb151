"""`trimtab-agent doctor`: what this host can measure, what not, and the mend.

Exit status: 0 all is well, 1 degraded (some signal or the way to the
collector is missing), 2 unusable (nothing can be measured, or no identity
can be kept).
"""

import json
import time
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, TextIO

from trimtab.wire import Echo, Message, Refused, Scope, State, encode

from .backend import sampler
from .connection import Connection, Lost
from .emit import Log
from .gpu.presence import look
from .host import Host
from .identity import NoIdentity, check, read_token
from .loop import Loop
from .probes.icmp import Sockets
from .probes.ping import Pinger
from .probes.targets import Target
from .sampler import Signal
from .settings import Address, Settings
from .starting import CannotRun, tls_context
from .trouble import hint

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
        *_network(settings),
        *_gpus(settings),
    ]


def status(findings: Sequence[Finding]) -> Verdict:
    """Return the worst verdict."""
    return max((f.verdict for f in findings), default=Verdict.GOOD)


def _signals(settings: Settings) -> list[Finding]:
    host = Host(settings.procfs, settings.sysfs, settings.cgroup)
    sampling = sampler(settings, host)
    sampling.sample(time.monotonic_ns())
    time.sleep(BETWEEN_S)
    sampling.sample(time.monotonic_ns())
    signals = sampling.signals()
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


def _network(settings: Settings) -> list[Finding]:
    """Dial every collector and ping every target at once."""
    loop = Loop()
    sockets = Sockets(loop)
    try:
        dials = [Dial(loop, settings, address) for address in settings.collector]
        pingers = [
            Pinger(loop, sockets, text, deadline_s=REACH_S) for text in settings.targets
        ]
        for pinger in pingers:
            pinger.probe()
        while any(d.finding is None for d in dials) or any(p.busy for p in pingers):
            loop.turn()
        found = [dial.finding for dial in dials if dial.finding is not None]
        return [*found, *map(_target, settings.targets, pingers)]
    finally:
        sockets.close()
        loop.close()


def _gpus(settings: Settings) -> list[Finding]:
    """Ask the GPUs as the agent would, in a child of its own."""
    trees = (settings.sysfs, settings.procfs, "/dev")
    if not settings.gpu or not look(*trees).gpu:
        return []
    from .gpu.probe import GpuProbe

    loop = Loop()
    probe = GpuProbe(*trees, log=Log(level="error"))
    probe.start(loop)
    until_s = time.monotonic() + GPU_S
    while not probe.settled and time.monotonic() < until_s:
        loop.turn(until_s)
    found = probe.findings()
    probe.stop()
    while not probe.ended:
        loop.turn()
    loop.close()
    return [
        Finding(f.subject, Verdict.GOOD if f.good else Verdict.DEGRADED, f.says, f.mend)
        for f in found
    ]


class Dial:
    """A collector dialled as the agent would, to see if it understands frames.

    Without a hello, which would take the running agent's place: whether the
    collector admits this node shows at its first run, in its log. It is asked
    out of turn, which a collector refuses in words of its own.
    """

    def __init__(self, loop: Loop, settings: Settings, collector: Address) -> None:
        self.finding: Finding | None = None
        self._loop = loop
        self._collector = collector
        self._tls = settings.tls
        self._connection: Connection | None = None
        try:
            tls = tls_context(settings)
            target = Target(*collector)
            self._connection = Connection(loop, target, tls, self, dial_s=REACH_S)
        except CannotRun as exc:
            self._found(Verdict.DEGRADED, str(exc))
        except Lost as lost:
            self.lost(lost)

    def opened(self) -> None:
        """Ask out of turn."""
        if self._connection is not None:
            self._loop.at(time.monotonic() + REACH_S, self._silent)
            self._connection.send(encode(Echo(reply=False, ident=1, stamp_us=0)))

    def heard(self, messages: list[Message]) -> None:
        """Take the refusal."""
        if not messages:
            return
        if not isinstance(messages[0], Refused):
            raise Lost("what answers there is no trimtab collector")
        over = " over TLS" if self._tls else ""
        self._found(Verdict.GOOD, f"{self._collector} speaks trimtab{over}")

    def lost(self, lost: Lost) -> None:
        """Say why it can't be reached."""
        why = f"{lost}{hint(str(lost), lost.__cause__, tls=self._tls)}"
        self._found(Verdict.DEGRADED, f"{self._collector} can't be reached: {why}")

    def _silent(self) -> None:
        self.lost(Lost("no answer: no welcome"))

    def _found(self, verdict: Verdict, says: str) -> None:
        self._loop.cancel(self._silent)
        if self._connection is not None:
            self._connection.close()
        self.finding = self.finding or Finding("collector", verdict, says)


def _target(target: str, pinger: Pinger) -> Finding:
    rtt_us = pinger.link(1).rtt_us
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
