"""The GPU probe in the agent's process: it keeps a child going and never waits.

Its work is a generator that the loop goes on with (`loop.Task`): it yields until
when it waits. `section` only looks at what came last. A child that does not
answer by its deadline is replaced, for ever, with growing waits; one that can't
even be killed (stuck in the driver) is left behind, and no other is started
until it is gone: at most one is ever left. Values stay with their age while
nothing fresh comes.
"""

import os
import random
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple

from trimtab.wire import GpuInfo, Gpus, GpuState, Hole

from ..emit import Log
from ..errors import Contained
from ..loop import Loop, Task, Work
from ..paths import StrPath
from . import codes, pause
from .findings import GpuFinding, findings
from .judge import Epoch, Judge, Judged
from .presence import Presence, look
from .process import Died, Process
from .readings import Cause, Failed, Reading, Ready, Replace, Sample
from .settings import GpuSettings

COMMAND = (sys.executable, "-P", "-m", "trimtab.agent.gpu.child")
PAUSE_POLL_S = 1.0
ASLEEP_POLL_S = 10.0
# After letting go of an idle GPU, for it to fall asleep.
FALL_ASLEEP_S = 30.0
MOST_IDLE_S = 3600.0  # between attempts to let a GPU sleep that never does
WELL_S = 60.0  # of service, after which restarts are counted anew
# Values younger than this many intervals are fresh: no age is sent.
FRESH_INTERVALS = 2.5


class Outcome(NamedTuple):
    """How serving a child ended, and what to do next."""

    state: GpuState | None  # None: as it was; the next child follows at once
    reason: str
    slow: bool = False  # only an operator can mend it: don't hurry
    failed: bool = True


class GpuProbe:
    """The GPUs of one host."""

    def __init__(
        self,
        sysfs: StrPath,
        procfs: StrPath,
        dev: StrPath = "/dev",
        *,
        log: Log,
        settings: GpuSettings | None = None,
        state_dir: StrPath | None = None,
        command: Sequence[str] = COMMAND,
        environment: Mapping[str, str] | None = None,
        rng: random.Random | None = None,
        kill: Callable[[int, int], None] = os.kill,
    ) -> None:
        """Nothing is started or looked at before `start`.

        `state_dir`: where the operator's pause is looked for; None: nowhere.
        """
        self._trees = (sysfs, procfs, dev)
        self._log = log
        self._settings = settings or GpuSettings()
        self._state_dir = state_dir
        self._command = (*command, *(() if self._settings.gpm else ("--no-gpm",)))
        self._environment = os.environ if environment is None else environment
        self._rng = rng or random.Random()
        self._kill = kill
        self._judge = Judge()
        self._judged = Judged()
        self._readings: tuple[Reading, ...] = ()
        self._judged_s: float | None = None
        self._state: GpuState | None = None
        self._reason = ""
        self._children = 0
        self._restarts = 0
        self._expected = True  # that a child is to be started: no restart
        self._failures = 0
        self._recycled_s = float("-inf")
        self._paused = False
        self._was_paused = False
        self._loop: Loop | None = None  # None: not started
        self._task: Task | None = None
        self._woken = False
        self.settled = False  # there was an answer, of whatever kind
        self._left: Process | None = None
        self._idle_since_s: float | None = None
        self._vain_sleeps = 0

    def section(self, now_s: float) -> Gpus | None:
        """Return what a frame says now; None where there is no GPU.

        `now_s` is of time.monotonic.
        """
        if self._state is None:
            return None
        judged = self._judged
        return Gpus(
            state=self._state,
            age_ms=self._age_ms(now_s),
            stranding=judged.stranding,
            mig_stranding=judged.mig_stranding,
            restarts=self._restarts,
            devices=judged.devices,
        )

    def holes(self) -> tuple[Hole, ...]:
        """Return the signals that the latest values lack, and why.

        That all of them are old is said by the section's own state.
        """
        return () if self._state is None else self._judged.holes

    def infos(self) -> tuple[GpuInfo, ...]:
        """Return every GPU ever seen by this run, for the inventory."""
        return self._judged.infos

    def findings(self) -> tuple[GpuFinding, ...]:
        """Return what doctor says; empty where there is no GPU."""
        if self._state is None:
            return ()
        return tuple(findings(self._state, self._reason, self._judged, self._readings))

    def start(self, loop: Loop) -> None:
        """Work in this loop until `stop`."""
        self._loop = loop
        self._task = Task(loop, self._work())

    def stop(self, then: Callable[[], None] = lambda: None) -> None:
        """End the child, which may take a while; then call."""
        if self._task is not None and not self._task.ended:
            self._task.end(then)

    @property
    def ended(self) -> bool:
        """Whether it is stopped, and the child with it."""
        return self._task is None or self._task.ended

    def pause(self) -> None:
        """Let go of NVML, as for an operator's reset, until `resume`."""
        self._paused = True
        self._poke()

    def resume(self) -> None:
        """Open NVML again. A pause in the state directory stays one."""
        self._paused = False
        self._poke()

    def _poke(self) -> None:
        self._woken = True
        if self._task is not None:
            self._task.poke()

    def _work(self) -> Work:
        while True:
            wait_s = yield from self._turn()
            yield from self._rest(wait_s)

    def _turn(self) -> Generator[float, None, float]:
        """Do what the host allows now; return how long to rest."""
        if self._pause_asked():
            self._was_paused = True
            self._set(GpuState.PAUSED, "let go on request")
            return PAUSE_POLL_S
        if self._was_paused:
            # Whatever was wrong, an operator had it in hand.
            self._was_paused = False
            self._judge.forget()
            self._failures = 0
            self._expected = True
        there = look(*self._trees)
        if not there.gpu:
            self._drop_values()
            self._set(None, "")
            return self._settings.rare_recheck_s
        if not there.driver:
            self._drop_values()
            self._set(GpuState.ABSENT, "a GPU, but no NVIDIA driver")
            return self._settings.recheck_s
        if there.asleep:
            self._vain_sleeps = 0
            self._set(GpuState.ASLEEP, "runtime suspended")
            return ASLEEP_POLL_S
        if self._left is not None and self._left.alive:
            return self._settings.most_wait_s
        self._left = None
        lock = None
        if self._state_dir is not None:
            try:
                lock = pause.hold(self._state_dir)
            except OSError as exc:
                self._log.debug("gpu_lock_failed", reason=exc)
            else:
                if lock is None:
                    return PAUSE_POLL_S  # the operator's command is looking
                if self._pause_asked():  # it may have come and gone since
                    os.close(lock)
                    return 0.0
        return self._after((yield from self._serve(there, lock)))

    def _after(self, outcome: Outcome) -> float:
        if outcome.state is not None:
            self._set(outcome.state, outcome.reason)
        if outcome.state is GpuState.ABSENT:
            self._drop_values()
        if not outcome.failed:
            return 0.0 if outcome.state is not GpuState.ASLEEP else FALL_ASLEEP_S
        self._failures += 1
        if outcome.state is None and self._failures == 1:
            return 0.0
        if outcome.slow:
            return self._rng.uniform(0.5, 1.0) * self._settings.most_wait_s
        return wait_s(self._failures, self._settings, self._rng)

    def _serve(
        self, there: Presence, lock: int | None
    ) -> Generator[float, None, Outcome]:
        """Start a child and tick it until something ends that."""
        if self._state in (None, GpuState.PAUSED, GpuState.ASLEEP):
            self._set(GpuState.STARTING, "")
        try:
            child = self._spawned(lock)
        except OSError as exc:
            return Outcome(GpuState.CRASHED, f"can't start a child: {exc}")
        finally:
            if lock is not None:
                os.close(lock)
        self._children += 1
        self._restarts += not self._expected
        self._expected = False
        started_s = time.monotonic()
        try:
            return (yield from self._talk(child, there))
        except TimeoutError:
            return Outcome(GpuState.STALLED, "NVML did not answer by the deadline")
        except Died as exc:
            # What it died of is known once it is reaped.
            yield from child.end(self._settings.grace_s, self._settings.kill_s)
            return Outcome(GpuState.CRASHED, f"the child: {exc}, {child.status()}")
        finally:
            if time.monotonic() - started_s >= WELL_S:
                self._failures = 0
            ended = yield from child.end(self._settings.grace_s, self._settings.kill_s)
            if not ended:
                self._left = child
                self._log.error(
                    "gpu_child_left",
                    pid=child.pid,
                    reason="it survives SIGKILL, stuck in the driver",
                )

    def _spawned(self, lock: int | None) -> Process:
        if self._loop is None or self._task is None:
            raise AssertionError("not started")
        return Process(
            self._command,
            self._environment,
            lock,
            self._loop,
            self._task.poke,
            self._kill,
        )

    def _talk(self, child: Process, there: Presence) -> Generator[float, None, Outcome]:
        settings = self._settings
        opened = yield from child.message(settings.init_deadline_s)
        if not isinstance(opened, Ready):
            return _refused(opened, there)
        self._idle_since_s = None
        due = time.monotonic()
        tick = 0
        while True:
            tick += 1
            child.tick(tick)
            answer = yield from child.message(settings.tick_deadline_s)
            if not isinstance(answer, Sample):
                return _refused(answer, there)
            now_s = time.monotonic()
            with Contained() as taken:
                self._take(answer, now_s)
            if taken.fault is not None:
                why = f"the child's sample can't be used: {taken.fault!r}"
                return Outcome(GpuState.CRASHED, why)
            if answer.rss_kib > settings.rss_limit_mib * 1024 and (
                now_s - self._recycled_s >= settings.recycle_every_s
            ):
                self._recycled_s = now_s
                self._log.warning("gpu_child_recycled", rss_kib=answer.rss_kib)
                return Outcome(None, "", failed=False)
            if there.may_sleep and self._idle_for(answer, now_s):
                self._vain_sleeps += 1
                self._expected = True
                return Outcome(GpuState.ASLEEP, "idle: let go to sleep", failed=False)
            due = max(due + settings.interval_s, time.monotonic())
            yield from self._rest(due - time.monotonic())
            if self._pause_asked():
                return Outcome(None, "", failed=False)

    def _take(self, sample: Sample, now_s: float) -> None:
        self._readings = sample.devices
        epoch = Epoch(self._children, sample.enumeration)
        self._judged = self._judge.judge(sample.devices, epoch, now_s)
        self._judged_s = now_s
        self._set(GpuState.OK, "")

    def _idle_for(self, sample: Sample, now_s: float) -> bool:
        """Whether nothing has used any GPU for long enough to let go of it."""
        idle = all(r.busy == 0 and not r.processes for r in sample.devices)
        if not idle:
            self._idle_since_s = None
            self._vain_sleeps = 0
            return False
        if self._idle_since_s is None:
            self._idle_since_s = now_s
        patience_s = self._settings.idle_s * 2.0 ** min(self._vain_sleeps, 16)
        return now_s - self._idle_since_s >= min(patience_s, MOST_IDLE_S)

    def _pause_asked(self) -> bool:
        if self._paused:
            return True
        if self._state_dir is None:
            return False
        return pause.asked(self._state_dir, time.time()) is not None

    def _age_ms(self, now_s: float) -> int | None:
        if self._judged_s is None:
            return None
        age_s = now_s - self._judged_s
        if self._state is GpuState.OK and (
            age_s <= FRESH_INTERVALS * self._settings.interval_s
        ):
            return None
        return max(0, round(age_s * 1000))

    def _drop_values(self) -> None:
        self._judge.forget()
        self._judged, self._judged_s, self._readings = Judged(), None, ()

    def _set(self, state: GpuState | None, reason: str) -> None:
        self.settled |= state is not GpuState.STARTING
        if state is not self._state and (state is not None or self._state is not None):
            say = self._log.info if state in _QUIET else self._log.warning
            say(
                "gpu_state",
                state="none" if state is None else state.name.lower(),
                reason=reason or None,
            )
        self._state = state
        self._reason = reason

    def _rest(self, for_s: float) -> Work:
        """Sleep, but not through a pause, in memory or in the state directory."""
        until_s = time.monotonic() + for_s
        while not self._woken and (now_s := time.monotonic()) < until_s:
            yield min(until_s, now_s + PAUSE_POLL_S)
            if self._pause_asked():
                break
        self._woken = False


_QUIET = (None, GpuState.OK, GpuState.STARTING, GpuState.ABSENT, GpuState.PAUSED)


def wait_s(failures: int, settings: GpuSettings, rng: random.Random) -> float:
    """Return the wait before a restart after so many failures (1 or more).

    Half is certain, half is chance, so that a rack that lost power does not
    open its GPUs in step.
    """
    doubled_s = settings.first_wait_s * 2.0 ** min(failures - 1, 16)
    cap = min(settings.most_wait_s, doubled_s)
    return rng.uniform(0.5, 1.0) * cap


def _refused(answer: Sample | Ready | Replace | Failed, there: Presence) -> Outcome:
    """Return what a child that ends itself means."""
    if isinstance(answer, Replace):
        if answer.cause is Cause.UNKNOWN:
            state = GpuState.CONTAINER_RESTART_NEEDED
            return Outcome(state, answer.text, slow=True)
        return Outcome(None, answer.text)
    if not isinstance(answer, Failed):
        return Outcome(GpuState.CRASHED, f"the child said {type(answer).__name__}")
    code, text = answer
    if code == codes.LIB_RM_VERSION_MISMATCH:
        return Outcome(GpuState.RESTART_NEEDED, text, slow=True)
    if code == codes.UNKNOWN:
        return Outcome(GpuState.CONTAINER_RESTART_NEEDED, text, slow=True)
    hidden = code == codes.DRIVER_NOT_LOADED and not there.control
    if code == codes.NO_PERMISSION or hidden:
        why = "a driver, but none of its devices to be seen" if hidden else text
        return Outcome(GpuState.DENIED, why, slow=True)
    if code in codes.ABSENT:
        return Outcome(GpuState.ABSENT, text, slow=True)
    return Outcome(GpuState.CRASHED, text)
