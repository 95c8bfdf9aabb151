"""The child on the stub library: what it reads, and what it survives."""

import ctypes
import os
import signal
import time
from pathlib import Path

import pynvml
import pytest

from trimtab.agent.gpu.readings import (
    Cause,
    Failed,
    Gpm,
    Memory,
    Place,
    Ready,
    Replace,
    Sample,
)

MIB = 2**20
TOTAL = 143771 * MIB


@pytest.mark.parametrize(
    "name",
    [
        "c_nvmlMemory_t",
        "c_nvmlMemory_v2_t",
        "c_nvmlUtilization_t",
        "nvmlPciInfo_t",
        "c_nvmlProcessInfo_v2_t",
        "c_nvmlProcessUtilizationSample_t",
        "c_nvmlFieldValue_t",
        "c_nvmlGpuInstancePlacement_t",
        "c_nvmlGpuInstanceProfileInfo_v2_t",
        "c_nvmlGpuInstanceInfo_t",
        "c_nvmlDeviceAttributes",
        "c_nvmlEventData_t",
        "c_nvmlGpmMetric_t",
        "c_nvmlGpmSupport_t",
    ],
)
def test_the_stubs_structs_have_the_bindings_sizes(build, name):
    library = ctypes.CDLL(str(build() / "libnvidia-ml.so.1"))
    library.stub_sizeof.restype = ctypes.c_ulonglong
    assert library.stub_sizeof(name.encode()) == ctypes.sizeof(getattr(pynvml, name))


def test_nvml_is_opened_once_and_asked_by_one_thread(stub, child):
    for _ in range(20):
        assert isinstance(child.tick(), Sample)
    assert child.end() == 0
    assert stub.count("nvmlInitWithFlags") == 1
    assert stub.count("nvmlShutdown") == 1
    assert len({thread for _, thread, _ in stub.calls()}) == 1
    assert stub.count("nvmlDeviceGetPcieThroughput") == 0  # 20 ms each way


def test_a_whole_gpu_is_read(stub, child):
    stub.gpu(
        0,
        busy=70,
        power=210000,
        temperature=51,
        reasons=0x40,
        clock=990,
        field__230=0,
        field__94=12,
        field__52=3,
        field__59=4,
        field__31=1,
        remap="0 0 1 0",
        processes="1:1048576 2:-1",
    )
    r = child.device()
    assert (r.uuid, r.name, r.fault, r.errors) == ("GPU-stub-0", "Stub H200", None, {})
    assert r.memory == Memory(
        TOTAL, TOTAL - 1024 * MIB - 500 * MIB, 1024 * MIB, 500 * MIB
    )
    assert (r.busy, r.power_mw, r.limit_mw, r.temperature_c) == (
        70,
        210_000,
        700_000,
        51,
    )
    assert (r.clock_reasons, r.sm_mhz, r.max_sm_mhz) == (0x40, 990, 1980)
    assert (r.recovery, r.pcie_replays, r.nvlink_replays) == (0, 12, 7)
    assert (r.remap_pending, r.remap_failed, r.pages_pending) == (True, False, True)
    assert r.nvlink_crc is None  # of links that this GPU hasn't
    assert r.processes == 2


@pytest.mark.parametrize("variant", ["excludes", "includes"])
def test_v2_memory_is_the_same_whichever_way_it_adds_up(stub, child, variant):
    stub.gpu(0, v2=variant)
    assert child.device().memory == Memory(
        TOTAL, TOTAL - 1024 * MIB - 500 * MIB, 1024 * MIB, 500 * MIB
    )


def test_memory_that_does_not_add_up_is_asked_the_old_way(stub, child):
    stub.gpu(0, v2="broken")
    memory = child.device().memory
    assert memory == Memory(TOTAL, TOTAL - 1524 * MIB, 1524 * MIB, None)


def test_a_driver_that_lacks_functions_hides_their_metrics_alone(
    old_driver, start_child
):
    old_driver.gpu(0, busy=50, processes="1:1", reasons=0x8)
    child = start_child(old_driver)
    assert isinstance(child.message(), Ready)
    r = child.device()
    assert r.memory == Memory(TOTAL, TOTAL - 1524 * MIB, 1524 * MIB, None)
    assert (r.busy, r.power_mw, r.clock_reasons) == (50, 70_000, 0x8)
    assert r.gpm is None
    # pynvml raises an NVMLLibraryMismatchError here, which is no NVMLError.
    assert (r.processes, r.errors["processes"]) == (None, 13)


def test_one_failing_metric_hides_nothing_else(stub, child):
    stub.control(err__nvmlDeviceGetPowerUsage=999)
    r = child.device()
    assert (r.power_mw, r.errors["power"]) == (None, 999)
    assert r.memory is not None
    assert r.temperature_c == 35


@pytest.mark.parametrize("code", [3, 4, 9, 10, 17, 20, 999])
def test_every_code_of_a_failing_question_is_told(stub, child, code):
    stub.control(err__nvmlDeviceGetTemperature=code)
    r = child.device()
    assert (r.temperature_c, r.errors["temperature"], r.fault) == (None, code, None)


def test_memory_that_is_the_hosts_is_no_reading(stub, child):
    """GB10 and Jetson answer NotSupported."""
    stub.control(err__nvmlDeviceGetMemoryInfo=3, err__nvmlDeviceGetMemoryInfo_v2=3)
    r = child.device()
    assert (r.memory, r.errors["memory"]) == (None, 3)


@pytest.mark.parametrize("code", [15, 16])
def test_a21_one_lost_gpu_of_three_hides_no_other(stub, start_child, code):
    """A21."""
    stub.control(count=3)
    child = start_child(stub)
    child.message()
    stub.control(fault__1=code)
    for _ in range(2):
        sample = child.tick()
        assert [r.fault for r in sample.devices] == [None, code, None]
        assert [r.uuid for r in sample.devices] == [f"GPU-stub-{n}" for n in range(3)]
        assert sample.devices[2].memory is not None


def test_a_lost_gpu_is_asked_nothing_more_until_handles_are_obtained_anew(stub, child):
    """Drivers have crashed when a lost GPU was asked (nvitop#139)."""
    stub.control(fault__0=15)
    child.tick()
    before = len(stub.calls())
    child.tick()
    assert [name for _, _, name in stub.calls()[before:]] == ["nvmlEventSetWait_v2"]


def test_a_gpu_that_is_lost_from_the_start_has_only_its_number(stub, start_child):
    stub.control(count=2, fault__0=15)
    child = start_child(stub)
    child.message()
    lost, well = child.tick().devices
    assert (lost.number, lost.uuid, lost.fault) == (0, "", 15)
    assert well.memory is not None


def test_xids_are_drained_each_tick_without_waiting(stub, start_child):
    stub.control(count=2, xids="0:13")  # before: nobody was listening
    child = start_child(stub)
    child.message()
    assert child.device().xids == ()
    stub.control(xids="0:13 1:79 0:31 1:48")
    started = time.monotonic()
    assert [r.xids for r in child.tick().devices] == [(31,), (79, 48)]
    assert time.monotonic() - started < 0.5
    assert [r.xids for r in child.tick().devices] == [(), ()]


def test_gpm_is_the_time_between_samples_over_100_ms_apart(stub, child):
    stub.gpu(0, sm=31, dram=12.5, occupancy=20, tensor=7)
    assert child.device().gpm == Gpm()  # the first has nothing before it
    assert child.device().gpm == Gpm()  # some ms later: too early
    time.sleep(0.15)
    assert child.device().gpm == Gpm(31.0, 20.0, 7.0, 12.5)
    stub.gpu(0, sm=90, dram="nan")
    assert child.device().gpm == Gpm(31.0, 20.0, 7.0, 12.5)  # still the last
    time.sleep(0.15)
    assert child.device().gpm == Gpm(90.0, 20.0, 7.0, None)
    assert stub.count("too-close") == 0


def test_gpm_can_be_left_alone(stub, start_child):
    child = start_child(stub, "--no-gpm")
    child.message()
    assert child.device().gpm is None
    assert stub.count("nvmlGpmSampleAlloc") == 0


def test_a_gpu_without_gpm_says_so(stub, start_child):
    stub.gpu(0, gpm=0)
    child = start_child(stub)
    child.message()
    assert child.device().gpm is None


def divided(stub):
    """1g at slices 1 and 5, as in the worked example of docs/gpu.md."""
    stub.gpu(0, mig=1, instances="0:1:1048576 0:5:0")


def test_mig_instances_are_read_by_their_handles(stub, start_child):
    divided(stub)
    child = start_child(stub)
    child.message()
    r = child.device()
    assert (r.mig, r.busy, r.errors["busy"]) == (True, None, 3)
    assert [(i.instance, i.slices, i.memory.used) for i in r.instances] == [
        (1, 1, MIB),
        (2, 1, 0),
    ]
    assert r.instances[0].memory.total == TOTAL // 8
    one, two, three, *_ = r.profiles
    assert (one.ident, one.slices, one.most, one.remaining) == (19, 1, 7, 5)
    assert one.used == (Place(1, 1), Place(5, 1))
    assert (two.remaining, two.places) == (1, (Place(0, 2), Place(2, 2), Place(4, 2)))
    assert three.remaining == 0


def test_mig_gpm_is_read_for_each_instance(stub, start_child):
    divided(stub)
    stub.gpu(0, sm=50, dram=10)
    child = start_child(stub)
    child.message()
    child.tick()
    time.sleep(0.15)
    r = child.device()
    assert r.gpm is None
    assert [i.gpm.sm for i in r.instances] == [50.0, 50.0]


def test_without_root_mig_has_instances_but_no_profiles(stub, start_child):
    divided(stub)
    stub.control(root=0)
    child = start_child(stub)
    child.message()
    r = child.device()
    assert (r.profiles, r.errors["mig"]) == (None, 4)
    assert [i.slices for i in r.instances] == [1, 1]


def test_a22_switching_mig_asks_for_a_fresh_process(stub, child):
    """A22."""
    child.tick()
    divided(stub)
    answer = child.tick()
    assert isinstance(answer, Replace)
    assert answer.cause is Cause.LAYOUT
    assert child.end() == 0
    assert stub.count("nvmlShutdown") == 1


def test_a22_a_library_that_no_longer_fits_asks_for_a_fresh_process(stub, child):
    """A22."""
    child.tick()
    stub.control(err__nvmlDeviceGetUtilizationRates=18)
    answer = child.tick()
    assert isinstance(answer, Replace)
    assert answer.cause is Cause.MISMATCH


def test_unknown_error_of_every_gpu_is_told_apart_from_one_of_some(stub, start_child):
    stub.control(count=2)
    child = start_child(stub)
    child.message()
    stub.control(fault__0=999)
    assert child.tick().devices[1].memory is not None
    stub.control(fault__1=999)
    answer = child.tick()
    assert isinstance(answer, Replace)
    assert answer.cause is Cause.UNKNOWN


@pytest.mark.parametrize("code", [4, 9, 10, 18, 999])
def test_why_nvml_could_not_be_opened_is_told(stub, start_child, code):
    stub.control(err__nvmlInitWithFlags=code)
    answer = start_child(stub).message()
    assert isinstance(answer, Failed)
    assert answer.code == code


def test_without_the_library_it_says_so(stub, start_child, tmp_path):
    stub.library = tmp_path
    answer = start_child(stub).message()
    assert isinstance(answer, Failed)
    assert answer.code == 12


def test_the_child_ends_when_its_agent_does_even_in_a_hanging_call(stub, child):
    stub.control(hang__nvmlDeviceGetPowerUsage=1)
    child.ask()
    deadline = time.monotonic() + 5
    while not stub.count("nvmlDeviceGetPowerUsage"):
        assert time.monotonic() < deadline
    assert child.end() == 0
    assert stub.count("nvmlShutdown") == 0  # not while a call is in flight


def test_sigterm_ends_it_in_order_and_ctrl_c_is_its_agents(stub, child):
    os.kill(child.popen.pid, signal.SIGINT)
    assert isinstance(child.tick(), Sample)
    child.popen.terminate()
    assert child.popen.wait(10) == 0
    assert stub.count("nvmlShutdown") == 1


def test_what_a_library_prints_is_no_message(stub, child):
    """The child's own stdout is stderr: messages go out by another descriptor."""
    held = Path(f"/proc/{child.popen.pid}/fd")
    assert (held / "1").readlink() == (held / "2").readlink()
