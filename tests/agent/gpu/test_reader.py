"""The reader over minutes, by a clock of the test's, in this process.

The stub is loaded by its path before pynvml asks for its soname.
"""

import ctypes

import pytest

from trimtab.agent.gpu.asked import MustReplace
from trimtab.agent.gpu.reader import Reader
from trimtab.agent.gpu.readings import Cause


class Clock:
    now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def opened(stub, clock, monkeypatch):
    """Return a function that opens NVML on the stub; closed in the end."""
    ctypes.CDLL(str(stub.library / "libnvidia-ml.so.1"))
    for name in ("NVML_STUB_CONTROL", "NVML_STUB_CALLS"):
        monkeypatch.setenv(name, stub.environment[name])
    readers = []

    def make():
        readers.append(Reader(now_s=clock))
        return readers[-1]

    yield make
    stub.lines.clear()
    stub.control()
    for reader in readers:
        reader.close()


def test_handles_are_obtained_anew_each_minute(stub, clock, opened):
    reader = opened()
    assert reader.sample(1).enumeration == 1
    clock.now_s += 59
    assert reader.sample(2).enumeration == 1
    clock.now_s += 1
    assert reader.sample(3).enumeration == 2
    assert stub.count("nvmlInitWithFlags") == 1
    assert stub.count("nvmlGpmSampleAlloc") == 2  # the device was kept


def test_after_an_error_handles_are_obtained_anew_sooner(stub, clock, opened):
    reader = opened()
    stub.control(err__nvmlDeviceGetPowerUsage=999)
    reader.sample(1)
    clock.now_s += 9
    assert reader.sample(2).enumeration == 1
    clock.now_s += 1
    assert reader.sample(3).enumeration == 2


def test_what_is_not_supported_is_no_error(stub, clock, opened):
    reader = opened()
    stub.control(err__nvmlDeviceGetPowerUsage=3)
    reader.sample(1)
    clock.now_s += 30
    assert reader.sample(2).enumeration == 1


def test_a_lost_gpu_that_came_back_is_read_again(stub, clock, opened):
    stub.control(count=2)
    reader = opened()
    stub.control(fault__1=15)
    assert reader.sample(1).devices[1].fault == 15
    stub.control(fault__1=None)
    assert reader.sample(2).devices[1].fault == 15
    clock.now_s += 10
    assert reader.sample(3).devices[1].fault is None


def test_a_gpu_that_left_is_not_listed_and_the_others_are(stub, clock, opened):
    stub.control(count=2)
    reader = opened()
    assert len(reader.sample(1).devices) == 2
    stub.control(count=1)
    clock.now_s += 60
    assert [r.uuid for r in reader.sample(2).devices] == ["GPU-stub-0"]


def test_a22_other_mig_instances_ask_for_a_fresh_process(stub, clock, opened):
    """A22."""
    stub.gpu(0, mig=1, instances="0:0:0 0:1:0")
    reader = opened()
    assert len(reader.sample(1).devices[0].instances) == 2
    stub.gpu(0, instances="0:0:0 0:2:0")
    clock.now_s += 60
    with pytest.raises(MustReplace) as replaced:
        reader.sample(2)
    assert replaced.value.cause is Cause.LAYOUT


def test_the_same_mig_instances_do_not(stub, clock, opened):
    stub.gpu(0, mig=1, instances="0:0:0 0:1:0")
    reader = opened()
    reader.sample(1)
    stub.gpu(0, instances="0:0:1048576 0:1:2097152")
    clock.now_s += 60
    sample = reader.sample(2)
    assert [i.memory.used for i in sample.devices[0].instances] == [2**20, 2**21]


def test_seldom_questions_keep_their_answers_and_their_errors(stub, clock, opened):
    reader = opened()
    samples = [reader.sample(tick) for tick in range(1, 12)]
    assert all(s.devices[0].errors == {"remap": 3} for s in samples)
    assert stub.count("nvmlDeviceGetRemappedRows") == 2
