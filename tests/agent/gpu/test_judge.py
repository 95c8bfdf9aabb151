"""Readings become what a frame says; what outlives a child is kept here."""

import pytest

from trimtab.agent.gpu.judge import XID_WARNING_S, Epoch, Judge
from trimtab.agent.gpu.readings import Gpm, Instance, Memory, Place, Profile, Reading
from trimtab.wire import (
    GPU_REASONS,
    Frame,
    Gpu,
    GpuHealth,
    GpuInfo,
    GpuMethod,
    Gpus,
    GpuState,
    Hole,
    Mig,
    State,
    Stream,
    encode,
)

MIB = 2**20
GIB = 2**30
FIRST = Epoch(1, 1)


def reading(number=0, **values):
    known = {
        "uuid": f"GPU-{number}",
        "name": "H200",
        "memory": Memory(79 * GIB, 40 * GIB, 38 * GIB, 1 * GIB),
        "recovery": 0,
    }
    return Reading(number, **{**known, **values})


def names(gpu):
    return {text for bit, text in GPU_REASONS.items() if (gpu.reasons or 0) >> bit & 1}


def test_a_reading_becomes_a_gpu_of_the_frame():
    judged = Judge().judge(
        [
            reading(
                busy=70,
                gpm=Gpm(sm=31.0, dram=12.0),
                power_mw=210_000,
                limit_mw=700_000,
                temperature_c=51,
                clock_reasons=0x40 | 1 << 40,
                sm_mhz=990,
                max_sm_mhz=1980,
            )
        ],
        FIRST,
        0,
    )
    assert judged.devices == (
        Gpu(
            device=0,
            health=GpuHealth.LOWERED,
            free_mib=40 * 1024,
            used_mib=38 * 1024,
            reserved_mib=1024,
            busy=0.70,
            effective=0.31,
            method=GpuMethod.GPM,
            pseudo_high=False,
            clock=0.5,
            throttle=0x40,  # the low 32 bits
            power_mw=210_000,
            temperature_c=51,
            reasons=1 << 12,
        ),
    )
    assert judged.infos == (GpuInfo(0, "GPU-0", "H200", 79 * 1024, False, None),)
    section = Gpus(GpuState.OK, devices=judged.devices)
    frame = Frame(1, 2, gpus=section)
    stream = Stream()
    (back,) = stream.feed(encode(frame))
    assert isinstance(back, Frame)
    assert back.gpus is not None
    assert back.gpus.devices[0].free_mib == 40 * 1024


def test_eight_gpus_half_used_are_stranded_by_half():
    eight = [
        reading(n, memory=Memory(80 * GIB, 40 * GIB, 39 * GIB, GIB)) for n in range(8)
    ]
    assert Judge().judge(eight, FIRST, 0).stranding == pytest.approx(0.494, abs=5e-4)


def test_what_a_lost_or_divided_gpu_has_free_is_nobodys():
    """Only whole GPUs that may be used count: the largest here may not be."""
    node = [
        reading(0, memory=Memory(79 * GIB, 10 * GIB, 69 * GIB, 0)),
        reading(1, memory=Memory(79 * GIB, 10 * GIB, 69 * GIB, 0)),
        reading(2, memory=Memory(79 * GIB, 70 * GIB, 9 * GIB, 0), recovery=1),
        reading(3, memory=Memory(79 * GIB, 70 * GIB, 9 * GIB, 0), mig=True),
    ]
    assert Judge().judge(node, FIRST, 0).stranding == pytest.approx(0.5)


def test_three_samples_make_a_pseudo_high_gpu():
    judge = Judge()
    busy = [reading(busy=70, gpm=Gpm(sm=31.0, dram=12.0))]
    flags = [judge.judge(busy, FIRST, n).devices[0].pseudo_high for n in range(3)]
    assert flags == [False, False, True]


def test_power_stands_in_once_the_gpu_was_seen_idle():
    judge = Judge()
    working = reading(busy=70, power_mw=210_000, limit_mw=700_000)
    assert judge.judge([working], FIRST, 0).devices[0].method is GpuMethod.BUSY_ONLY
    judge.judge([reading(busy=0, power_mw=70_000)], FIRST, 1)
    gpu = judge.judge([working], FIRST, 2).devices[0]
    assert gpu.method is GpuMethod.POWER
    assert gpu.effective == pytest.approx(0.222, abs=1e-3)


def test_a21_one_lost_gpu_among_three_is_a_value_and_hides_nothing():
    """A21."""
    judge = Judge()
    judge.judge([reading(n) for n in range(3)], FIRST, 0)
    judged = judge.judge(
        [reading(0), Reading(1, "GPU-1", fault=15), reading(2)], FIRST, 1
    )
    assert [gpu.health for gpu in judged.devices] == [
        GpuHealth.OK,
        GpuHealth.ZERO,
        GpuHealth.OK,
    ]
    assert names(judged.devices[1]) == {"lost"}
    assert judged.devices[1].free_mib is None


def test_a_gpu_that_is_no_longer_listed_is_shown_with_health_zero():
    judge = Judge()
    judge.judge([reading(0), reading(1)], FIRST, 0)
    # Another child counts one less, and counts the second as the first.
    judged = judge.judge([reading(0, uuid="GPU-1")], Epoch(2, 1), 60)
    assert [(g.device, g.health) for g in judged.devices] == [
        (0, GpuHealth.ZERO),
        (1, GpuHealth.OK),
    ]
    assert names(judged.devices[0]) == {"missing"}
    judge.forget()
    assert len(judge.judge([reading(0, uuid="GPU-1")], Epoch(3, 1), 90).devices) == 1


def test_a_gpu_without_a_uuid_is_the_one_known_at_its_index():
    judge = Judge()
    judge.judge([reading(0), reading(1)], FIRST, 0)
    judged = judge.judge([reading(0), Reading(1, fault=15)], Epoch(2, 1), 9)
    assert [(g.device, g.health) for g in judged.devices] == [
        (0, GpuHealth.OK),
        (1, GpuHealth.ZERO),
    ]
    assert names(judged.devices[1]) == {"lost"}


def test_a_gpu_that_was_lost_from_the_start_gets_its_name_later():
    judge = Judge()
    assert len(judge.judge([reading(0), Reading(1, fault=15)], FIRST, 0).devices) == 2
    judged = judge.judge([reading(0), reading(1)], Epoch(2, 1), 9)
    assert [g.health for g in judged.devices] == [GpuHealth.OK] * 2


def fatal(judge, epoch=FIRST, now_s=0.0, **values):
    return judge.judge([reading(xids=(79,), **values)], epoch, now_s).devices[0]


def test_a_fatal_xid_stays_until_the_driver_says_so_of_a_new_handle():
    judge = Judge()
    gpu = fatal(judge)
    assert (gpu.health, gpu.xid, names(gpu)) == (GpuHealth.ZERO, 79, {"xid fatal"})
    same_handle = judge.judge([reading()], FIRST, 1).devices[0]
    assert same_handle.health is GpuHealth.ZERO
    still = judge.judge([reading(recovery=1)], Epoch(1, 2), 60).devices[0]
    assert names(still) == {"recovery action", "xid fatal"}
    failing = judge.judge([reading(errors={"power": 999})], Epoch(1, 3), 120)
    assert failing.devices[0].health is GpuHealth.ZERO
    well = judge.judge([reading()], Epoch(2, 1), 180).devices[0]
    assert (well.health, well.xid) == (GpuHealth.OK, 79)


def test_a_driver_too_old_to_tell_leaves_a_fatal_xid_standing_until_a_pause():
    judge = Judge()
    fatal(judge, recovery=None)
    later = judge.judge([reading(recovery=None)], Epoch(9, 9), 10**6).devices[0]
    assert later.health is GpuHealth.ZERO
    judge.forget()
    after = judge.judge([reading(recovery=None)], Epoch(10, 1), 10**6).devices[0]
    assert after.health is GpuHealth.OK


def test_a_warning_xid_lowers_for_ten_minutes():
    judge = Judge()
    assert judge.judge([reading(xids=(63,))], FIRST, 0).devices[0].health is (
        GpuHealth.LOWERED
    )
    late = XID_WARNING_S - 1
    assert judge.judge([reading()], FIRST, late).devices[0].health is GpuHealth.LOWERED
    assert judge.judge([reading()], FIRST, late + 1).devices[0].health is GpuHealth.OK


def test_an_applications_xid_is_told_and_judges_nothing():
    gpu = Judge().judge([reading(xids=(31, 13))], FIRST, 0).devices[0]
    assert (gpu.health, gpu.xid) == (GpuHealth.OK, 13)


def test_rising_replays_lower_and_old_ones_do_not():
    judge = Judge()
    before = judge.judge([reading(pcie_replays=5000)], FIRST, 0).devices[0]
    assert before.health is GpuHealth.OK
    rising = judge.judge([reading(pcie_replays=5009)], FIRST, 30).devices[0]
    assert names(rising) == {"pcie replays"}
    calm = judge.judge([reading(pcie_replays=5009)], FIRST, 91).devices[0]
    assert calm.health is GpuHealth.OK


def test_failed_questions_are_holes_of_their_gpu_and_their_metric():
    judged = Judge().judge(
        [
            reading(0),
            reading(
                1,
                errors={
                    "busy": 3,  # not supported
                    "power": 999,
                    "remap": 3,  # neutral: other signs of health are there
                    "limit": 3,
                    "mig": 4,
                    "mig_memory": 999,
                },
            ),
        ],
        FIRST,
        0,
    )
    assert set(judged.holes) == {
        Hole("gpu.busy", State.UNSUPPORTED, peer=2),
        Hole("gpu.power", State.ERROR, peer=2),
        Hole("gpu.mig", State.ERROR, peer=2),
    }
    assert names(judged.devices[1]) == {"query error"}


def test_a_gpu_whose_memory_is_the_hosts_shows_none():
    judged = Judge().judge([reading(memory=None, errors={"memory": 3})], FIRST, 0)
    assert judged.infos[0].unified is True
    assert judged.infos[0].memory_mib is None
    assert judged.devices[0].free_mib is None
    assert judged.stranding is None


def test_a_divided_gpu_shows_its_instances_and_what_no_longer_fits():
    one = Profile(19, 1, 7, tuple(Place(s, 1) for s in range(7)), (Place(1, 1),), 5)
    three = Profile(9, 3, 2, (Place(0, 4), Place(4, 4)), (Place(4, 4),), 0)
    divided = reading(
        memory=None,
        mig=True,
        errors={"memory": 4, "busy": 3},
        instances=(
            Instance(2, 1, Memory(10 * GIB, 9 * GIB, GIB), Gpm(sm=100.0)),
            Instance(5, 3, None, Gpm(sm=20.0)),
        ),
        profiles=(one, three),
    )
    judged = Judge().judge([divided], FIRST, 0)
    gpu = judged.devices[0]
    assert gpu.mig == (Mig(2, 1, 9 * 1024, 1024), Mig(5, 3, None, None))
    assert gpu.method is GpuMethod.GPM
    assert gpu.effective == pytest.approx(0.4)
    assert judged.mig_stranding == 0  # 3 free compute slices, 3 free memory slices
    assert judged.infos[0].unified is None
    assert judged.infos[0].mig is True


def test_without_privilege_there_is_no_m():
    divided = reading(mig=True, profiles=None, instances=(Instance(1, 1),))
    judged = Judge().judge([divided], FIRST, 0)
    assert judged.mig_stranding is None
    assert judged.devices[0].mig == (Mig(1, 1),)


def test_no_more_gpus_than_a_frame_can_say():
    judged = Judge().judge([reading(n) for n in range(40)], FIRST, 0)
    assert len(judged.devices) == 32
