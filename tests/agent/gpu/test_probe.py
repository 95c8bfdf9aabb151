"""The probe's life: every way a child can fail, and the frame that never waits."""

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.agent.gpu import pause
from trimtab.agent.gpu.probe import GpuProbe, wait_s
from trimtab.agent.gpu.settings import GpuSettings
from trimtab.agent.loop import Loop
from trimtab.wire import Frame, GpuHealth, GpuState, Stream, encode

FAST = GpuSettings(
    interval_s=0.02,
    init_deadline_s=5.0,
    tick_deadline_s=0.3,
    grace_s=0.3,
    kill_s=2.0,
    first_wait_s=0.05,
    most_wait_s=0.1,
    recheck_s=0.05,
    rare_recheck_s=0.05,
)
# What a turn may take on a busy machine, where a wait would be 300 ms.
GAP_S = 0.2


@pytest.fixture
def probe_on(host, stub, log):
    """Return a function that makes a probe of the host on the stub."""

    def make(settings=FAST, **options):
        return GpuProbe(
            host.sysfs,
            host.procfs,
            host.dev,
            log=log.to,
            settings=settings,
            environment=stub.environment,
            **options,
        )

    return make


@contextmanager
def running(probe):
    probe.start(LOOP)
    try:
        yield
    finally:
        probe.stop()
        until(lambda: probe.ended)


def section(probe):
    return probe.section(time.monotonic())


def state(probe):
    found = section(probe)
    return None if found is None else found.state


def until(condition, timeout_s=10.0):
    """Turn the loop until this is so; note how long a call kept it at worst."""
    give_up_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up_s
        LOOP.turn(time.monotonic() + 0.005)
        WATCH.worst_s = max(WATCH.worst_s, time.monotonic() - LOOP.woke_s)


def until_state(probe, wanted):
    until(lambda: state(probe) is wanted)


class Watch:
    """How long a call kept the loop from its work, at worst."""

    worst_s = 0.0


LOOP, WATCH = Loop(), Watch()


@contextmanager
def watched():
    WATCH.worst_s = 0.0
    yield WATCH


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def children(stub):
    """Return the pids that opened NVML, in order."""
    return list(
        dict.fromkeys(
            int(pid) for pid, _, name in stub.calls() if name == "nvmlInitWithFlags"
        )
    )


def test_a_frame_carries_the_gpus(probe_on, stub):
    stub.control(count=2)
    stub.gpu(1, busy=70, sm=31, dram=12)

    probe = probe_on()
    with running(probe):
        until_state(probe, GpuState.OK)
        until(lambda: section(probe).devices[1].pseudo_high)
        gpus = section(probe)
    assert gpus.age_ms is None
    assert gpus.restarts == 0
    assert [gpu.health for gpu in gpus.devices] == [GpuHealth.OK] * 2
    assert gpus.devices[1].effective == pytest.approx(0.31)
    # Two alike, all but the context's 1 GiB of each free.
    assert gpus.stranding == pytest.approx(1024 / 143_271, abs=1e-4)
    assert [i.uuid for i in probe.infos()] == ["GPU-stub-0", "GPU-stub-1"]
    (frame,) = Stream().feed(encode(Frame(1, 1, gpus=gpus)))
    assert isinstance(frame, Frame)
    assert frame.gpus is not None
    assert frame.gpus.devices[1].pseudo_high is True
    assert all(f.good for f in probe.findings() if f.subject in ("gpu", "gpu 0"))
    (pid,) = children(stub)
    assert not alive(pid)


def test_without_a_gpu_nothing_is_sent_and_nothing_is_started(bare_host, log):
    probe = GpuProbe(
        bare_host.sysfs,
        bare_host.procfs,
        bare_host.dev,
        log=log.to,
        settings=FAST,
        command=("/does/not/exist",),
    )
    with running(probe):
        until(lambda: probe.settled)
        assert section(probe) is None
        assert probe.findings() == ()
        assert probe.infos() == ()
        bare_host.card()
        until_state(probe, GpuState.ABSENT)
        assert section(probe).devices == ()
    assert "crashed" not in log.text()


def test_a_driver_that_is_loaded_later_is_found(host, probe_on):
    host.no_driver()

    probe = probe_on()
    with running(probe):
        until_state(probe, GpuState.ABSENT)
        host.driver()
        until_state(probe, GpuState.OK)
        host.no_driver()
        assert state(probe) is GpuState.OK


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (4, GpuState.DENIED),
        (9, GpuState.ABSENT),
        (12, GpuState.ABSENT),
        (18, GpuState.RESTART_NEEDED),
        (999, GpuState.CONTAINER_RESTART_NEEDED),
        (17, GpuState.CRASHED),
    ],
)
def test_each_reason_not_to_open_nvml_has_its_state_and_its_end(
    probe_on, stub, code, expected
):
    stub.control(err__nvmlInitWithFlags=code)

    probe = probe_on()
    with running(probe):
        until_state(probe, expected)
        assert probe.findings()[0].mend
        stub.control(err__nvmlInitWithFlags=None)  # for ever: it comes back
        until_state(probe, GpuState.OK)
        assert section(probe).restarts >= 1


def test_a_service_that_sees_no_devices_is_told_of_the_drop_in(host, probe_on, stub):
    (host.dev / "nvidiactl").unlink()
    stub.control(err__nvmlInitWithFlags=9)

    probe = probe_on()
    with running(probe):
        until_state(probe, GpuState.DENIED)
        assert "DeviceAllow" in probe.findings()[0].mend


def test_a20_a_hanging_call_leaves_the_loop_alone_and_the_values_old(probe_on, stub):
    """A20: the frame leaves on time, and the section says that it is stale."""
    stub.gpu(0, power=123_000)

    probe = probe_on()
    with running(probe), watched() as watch:
        until_state(probe, GpuState.OK)
        stub.control(hang__nvmlDeviceGetUtilizationRates=1)
        until_state(probe, GpuState.STALLED)
        gpus = section(probe)
        assert gpus.age_ms >= 300
        assert gpus.devices[0].power_mw == 123_000
        assert probe.section(time.monotonic() + 60).age_ms > 60_000
        until(lambda: not alive(children(stub)[0]))
        stub.control(hang__nvmlDeviceGetUtilizationRates=None)
        until_state(probe, GpuState.OK)
        assert section(probe).age_ms is None
        assert section(probe).restarts >= 1
    assert watch.worst_s < GAP_S


def test_a20_opening_that_hangs_is_given_up_after_its_deadline(probe_on, stub):
    """A20."""
    stub.control(hang__nvmlInitWithFlags=1)

    probe = probe_on(replace(FAST, init_deadline_s=0.5))
    with running(probe), watched() as watch:
        until_state(probe, GpuState.STARTING)
        until_state(probe, GpuState.STALLED)
        assert section(probe).devices == ()
        assert section(probe).age_ms is None
        stub.control(hang__nvmlInitWithFlags=None)
        until_state(probe, GpuState.OK)
    assert watch.worst_s < GAP_S


def test_a_child_that_sigterm_does_not_end_is_killed(probe_on, stub):
    sent = []

    def deaf(pid, number):
        sent.append(number)
        if number == signal.SIGKILL:
            os.kill(pid, number)

    stub.control(hang__nvmlDeviceGetUtilizationRates=1)

    # The child would leave by closed stdin alone: stopped, it can't.
    probe = probe_on(kill=deaf)
    with running(probe):
        until(lambda: stub.count("nvmlDeviceGetUtilizationRates"))
        os.kill(children(stub)[0], signal.SIGSTOP)
        until_state(probe, GpuState.STALLED)
        until(lambda: not alive(children(stub)[0]))
    assert sent[:2] == [signal.SIGTERM, signal.SIGKILL]


def test_a20_a_child_that_cannot_be_killed_is_left_and_no_other_is_started(
    probe_on, stub, log
):
    """A20: as one in uninterruptible sleep: at most one is ever left behind."""

    def deaf(pid, number):
        """Send nothing while the child can't hear: it is stopped."""
        if len(children(stub)) > 1:
            os.kill(pid, number)

    stub.control(hang__nvmlDeviceGetUtilizationRates=1)

    probe = probe_on(replace(FAST, kill_s=0.2), kill=deaf)
    with running(probe), watched() as watch:
        until(lambda: stub.count("nvmlDeviceGetUtilizationRates"))
        (pid,) = children(stub)
        os.kill(pid, signal.SIGSTOP)  # deaf to its closed stdin too
        until(lambda: "gpu_child_left" in log.text())
        enough_s = time.monotonic() + 5 * FAST.most_wait_s
        until(lambda: time.monotonic() > enough_s)  # one could be started
        assert children(stub) == [pid]
        assert state(probe) is GpuState.STALLED
        stub.control(hang__nvmlDeviceGetUtilizationRates=None)
        os.kill(pid, signal.SIGKILL)  # as when the driver lets go of it
        until_state(probe, GpuState.OK)
    assert watch.worst_s < GAP_S
    assert len(children(stub)) == 2


def test_a_crash_in_the_driver_takes_the_child_alone(probe_on, stub):
    probe = probe_on()
    with running(probe):
        until_state(probe, GpuState.OK)
        stub.control(segv__nvmlDeviceGetPowerUsage=1)
        until_state(probe, GpuState.CRASHED)
        assert "SIGSEGV" in probe.findings()[0].says
        assert section(probe).devices != ()
        assert section(probe).age_ms is not None
        stub.control(segv__nvmlDeviceGetPowerUsage=None)
        until_state(probe, GpuState.OK)


@pytest.mark.parametrize(
    "says",
    [
        "b'\\xc1'",  # no MessagePack
        "b'\\x93\\xa5ready\\x01\\x02'",  # no message
        "b'\\x92\\xa5ready\\xa1x\\x95\\xa6sample\\x01\\x01\\x01\\x91\\x92\\xa1x\\xa1y'",
        "b'\\xc6\\x7f\\xff\\xff\\xff' + bytes(3 << 20)",  # longer than any
        "b''",
    ],
)
def test_a_child_that_talks_nonsense_is_replaced(probe_on, says):
    script = f"import os, time; os.write(1, {says}); time.sleep(len({says}))"

    probe = probe_on(command=(sys.executable, "-c", script))
    with running(probe):
        until_state(probe, GpuState.CRASHED)
        until(lambda: section(probe).restarts >= 2)


def test_a_child_that_cannot_be_started_is_tried_for_ever(probe_on):
    probe = probe_on(command=("/does/not/exist",))
    with running(probe):
        until_state(probe, GpuState.CRASHED)
        assert "can't start" in probe.findings()[0].says


def test_a22_a_mismatch_is_mended_by_a_fresh_process_at_once(probe_on, stub, log):
    """A22: a library that was replaced is loaded by a new process only."""
    slow = replace(FAST, first_wait_s=60, most_wait_s=60)

    probe = probe_on(slow)
    with running(probe):
        until_state(probe, GpuState.OK)
        stub.control(err__nvmlDeviceGetUtilizationRates=18)
        until(lambda: stub.count("nvmlShutdown"))
        stub.control(err__nvmlDeviceGetUtilizationRates=None)
        until(lambda: section(probe).restarts == 1)
        until(lambda: stub.count("nvmlInitWithFlags") == 2)
        until(lambda: section(probe).age_ms is None)
        assert state(probe) is GpuState.OK
    assert "restart_needed" not in log.text()


def test_a22_mig_that_is_switched_on_is_shown_by_a_fresh_child(probe_on, stub):
    """A22."""

    probe = probe_on()
    with running(probe):
        until_state(probe, GpuState.OK)
        stub.gpu(0, mig=1, instances="0:1:0 0:5:0")
        until(lambda: section(probe).devices[0].mig)
        gpus = section(probe)
        assert [m.slices for m in gpus.devices[0].mig] == [1, 1]
        assert gpus.mig_stranding == 1.0
        assert gpus.restarts == 1
        assert probe.infos()[0].mig is True


def test_unknown_error_of_every_gpu_asks_for_the_container_to_be_restarted(
    probe_on, stub
):
    probe = probe_on()
    with running(probe):
        until_state(probe, GpuState.OK)
        stub.control(fault__0=999)
        until_state(probe, GpuState.CONTAINER_RESTART_NEEDED)
        assert "restart" in probe.findings()[0].mend


def test_a_gpu_that_fell_off_while_the_child_was_down_is_missing(probe_on, stub):
    stub.control(count=2)

    probe = probe_on()
    with running(probe):
        until_state(probe, GpuState.OK)
        stub.control(count=1, segv__nvmlDeviceGetPowerUsage=1)
        until_state(probe, GpuState.CRASHED)
        stub.control(segv__nvmlDeviceGetPowerUsage=None)
        until_state(probe, GpuState.OK)
        gone = section(probe).devices[1]
        assert (gone.device, gone.health) == (1, GpuHealth.ZERO)


def test_a_child_that_grows_is_recycled(probe_on, stub, log):
    probe = probe_on(replace(FAST, rss_limit_mib=1))
    with running(probe):
        until(lambda: len(children(stub)) == 2)
        first, second = children(stub)
        assert not alive(first)
        assert section(probe).restarts == 1
        # Once in ten minutes: a limit below what it needs is no loop.
        read = stub.count("nvmlDeviceGetPowerUsage")
        until(lambda: stub.count("nvmlDeviceGetPowerUsage") >= read + 20)
        assert children(stub) == [first, second]
    assert "gpu_child_recycled" in log.text()


def test_a_pause_lets_go_and_keeps_the_values_with_their_age(probe_on, stub):
    probe = probe_on()
    with running(probe):
        until_state(probe, GpuState.OK)
        probe.pause()
        until_state(probe, GpuState.PAUSED)
        assert not alive(children(stub)[0])
        assert section(probe).age_ms is not None
        assert len(section(probe).devices) == 1
        probe.resume()
        until_state(probe, GpuState.OK)
        assert section(probe).restarts == 0  # nothing failed


def test_the_operators_pause_reaches_the_running_agent(probe_on, stub, tmp_path):
    """A42: by a file in its state directory, not by a channel."""
    folder = tmp_path / "state"
    folder.mkdir()

    probe = probe_on(state_dir=folder)
    with running(probe):
        until_state(probe, GpuState.OK)
        with (tmp_path / "out").open("w+") as out, ThreadPoolExecutor(1) as pool:
            asked = pool.submit(pause.command, folder, out, for_s=60)
            until(asked.done)
        assert asked.result() == 0
        assert not alive(children(stub)[0])
        until_state(probe, GpuState.PAUSED)
        (folder / pause.PAUSE).unlink()
        until_state(probe, GpuState.OK)


def test_a_pause_from_before_the_start_is_kept(probe_on, stub, tmp_path):
    (tmp_path / pause.PAUSE).touch()

    probe = probe_on(state_dir=tmp_path)
    with running(probe):
        until(lambda: probe.settled)
        assert state(probe) is GpuState.PAUSED
    assert children(stub) == []


def test_a_state_directory_that_cannot_be_written_stops_nothing(probe_on, tmp_path):
    probe = probe_on(state_dir=tmp_path / "none")
    with running(probe):
        until_state(probe, GpuState.OK)


def test_a23_a_suspended_gpu_is_not_woken(host, probe_on, stub):
    """A23."""
    host.card(runtime_status="suspended", control="auto")

    probe = probe_on()
    with running(probe):
        until_state(probe, GpuState.ASLEEP)
        assert section(probe).devices == ()
    assert children(stub) == []


def test_a23_an_idle_gpu_that_may_sleep_is_let_go(host, probe_on, stub):
    """A23: an open NVML would keep it awake."""
    host.card(runtime_status="active", control="auto")

    probe = probe_on(replace(FAST, idle_s=0.2))
    with running(probe):
        until_state(probe, GpuState.ASLEEP)
        assert not alive(children(stub)[0])
        assert section(probe).age_ms is not None


@pytest.mark.parametrize(
    ("power", "work"),
    [
        ("on", {}),  # it never sleeps: nothing is gained
        ("auto", {"busy": 1}),
        ("auto", {"processes": "1:1048576"}),
    ],
)
def test_a_gpu_in_use_or_that_never_sleeps_is_not_let_go(
    host, probe_on, stub, power, work
):
    host.card(runtime_status="active", control=power)
    stub.gpu(0, **work)

    probe = probe_on(replace(FAST, idle_s=0.1))
    with running(probe):
        until_state(probe, GpuState.OK)
        read = stub.count("nvmlDeviceGetPowerUsage")
        until(lambda: stub.count("nvmlDeviceGetPowerUsage") >= read + 20)
        assert len(children(stub)) == 1
        assert state(probe) is GpuState.OK


def test_the_child_goes_with_its_agent(probe_on, stub):
    probe = probe_on()
    with running(probe):
        until_state(probe, GpuState.OK)
        assert alive(children(stub)[0])
    assert not alive(children(stub)[0])
    assert stub.count("nvmlShutdown") == 1


def test_a_killed_agent_leaves_no_child(host, stub, module, tmp_path):
    script = """
import os, signal, sys
from trimtab.agent.emit import Log
from trimtab.agent.gpu.probe import GpuProbe
from trimtab.agent.loop import Loop
loop, probe = Loop(), GpuProbe(*sys.argv[1:], log=Log())
probe.start(loop)
while not probe.settled:
    loop.turn()
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = module(stub, "-c", script, *map(str, (host.sysfs, host.procfs, host.dev)))
    assert ended.returncode == -signal.SIGKILL
    (pid,) = children(stub)
    deadline = time.monotonic() + 5
    while alive(pid):
        assert time.monotonic() < deadline, "the child outlived its agent"
        time.sleep(0.02)


@given(st.integers(1, 10_000), st.randoms(use_true_random=False))
def test_waits_grow_to_a_minute_and_never_end(failures, rng):
    settings = GpuSettings()
    wait = wait_s(failures, settings, rng)
    cap = min(60.0, 2.0 ** min(failures - 1, 20))
    assert cap / 2 <= wait <= cap


def test_waits_are_spread():
    waits = {wait_s(7, GpuSettings(), Random(seed)) for seed in range(20)}
    assert len(waits) == 20
