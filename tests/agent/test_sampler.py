import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from trimtab.agent.cgroups import Groups
from trimtab.agent.errors import Unsupported
from trimtab.agent.host import Host, Source
from trimtab.agent.probes.reading import Answer, Reading
from trimtab.agent.sampler import RETRY_S, UNITS, Sampler, Signal, probes
from trimtab.wire import (
    NUMBERS,
    SIGNALS,
    Cpu,
    Frame,
    Hole,
    Io,
    Link,
    Memory,
    Method,
    Net,
    State,
    Stream,
    encode,
)

S = 1_000_000_000


@pytest.fixture
def no_psi(fixtures: Path) -> Iterator[Host]:
    host = Host(fixtures / "no-psi/proc", fixtures / "no-psi/sys")
    yield host
    host.close()


class Scripted:
    """A probe of one signal that answers, or fails, as told."""

    signals = ("cpu.stall",)

    def __init__(self, *script: float | Exception) -> None:
        self.script = list(script)
        self.asked = 0

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        self.asked += 1
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return {"cpu.stall": Reading(step)}


def only(sampler: Sampler) -> Signal:
    (signal,) = sampler.signals()
    return signal


def test_a_container_without_psi_is_read_as_far_as_it_goes(no_psi: Host) -> None:
    """A10."""
    sampler = Sampler(no_psi)
    sampler.sample(0)
    readings = sampler.sample(S)
    assert readings.cpu == Cpu(run_queue=1.0)  # not a tick passed: no shares
    assert readings.memory == Memory(
        available=0.5, swap_in_bytes_s=0.0, swap_out_bytes_s=0.0, major_faults_s=0.0
    )
    assert (readings.io, readings.net) == (Io(), Net())
    missing = {hole.signal for hole in readings.holes}
    assert missing >= {"cpu.stall", "memory.stall_some", "io.stall_full"}
    assert {hole.state for hole in readings.holes} == {State.UNSUPPORTED}
    stall = sampler.signals()[0]
    assert "psi=1" in stall.mend
    assert "pressure/cpu" in stall.reason


def test_before_a_difference_can_be_taken_there_is_no_value_and_no_hole(
    fixtures: Path,
) -> None:
    host = Host(fixtures / "ordinary/proc", fixtures / "ordinary/sys")
    readings = Sampler(host).sample(0)
    assert readings.holes == ()
    assert readings.cpu == Cpu(run_queue=2.0, throttled=0.0, throttled_periods=0.0)
    assert readings.memory == Memory(available=0.5, high_events=0, max_events=0)
    assert (readings.io, readings.net) == (Io(), Net())
    host.close()


def test_an_ordinary_host_where_nothing_moves_is_read_in_full(fixtures: Path) -> None:
    host = Host(fixtures / "ordinary/proc", fixtures / "ordinary/sys")
    sampler = Sampler(host)
    sampler.sample(0)
    readings = sampler.sample(S)
    assert readings.holes == ()
    assert readings.cpu == Cpu(
        stall=0.0, run_queue=2.0, throttled=0.0, throttled_periods=0.0, irq_stall=0.0
    )
    assert readings.memory == Memory(0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0, 0, 0)
    assert readings.io == Io(0.0, 0.0)
    assert readings.net == Net(0.0, 0.0, 0.0, 0.0)
    host.close()


def test_an_empty_procfs_is_all_holes_and_no_crash(tmp_path: Path) -> None:
    readings = Sampler(Host(tmp_path, tmp_path)).sample(0)
    assert (readings.cpu, readings.memory) == (Cpu(), Memory())
    assert {hole.signal for hole in readings.holes} == set(UNITS)
    assert {hole.state for hole in readings.holes} == {State.UNSUPPORTED}


@pytest.mark.parametrize("fault", [OSError("gone"), ValueError("odd"), KeyError("bug")])
def test_a_probe_that_fails_is_an_error_with_its_reason_and_asked_again(
    no_psi: Host, fault: Exception
) -> None:
    probe = Scripted(0.5, fault, 0.25)
    sampler = Sampler(no_psi, [probe])
    assert sampler.sample(0).cpu.stall == 0.5
    readings = sampler.sample(S)
    assert readings.cpu.stall is None
    assert readings.holes == (Hole("cpu.stall", State.ERROR),)
    assert type(fault).__name__ in only(sampler).reason
    assert str(fault) in only(sampler).reason
    assert sampler.sample(2 * S).cpu.stall == 0.25


def test_one_failing_probe_leaves_the_others_alone(no_psi: Host) -> None:
    sampler = Sampler(no_psi, [Scripted(RuntimeError("bug")), *probes(Groups())[1:]])
    assert sampler.sample(0).memory.available == 0.5


def test_an_interrupt_is_no_fault_of_a_probe(no_psi: Host) -> None:
    class Interrupted(Scripted):
        def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Sampler(no_psi, [Interrupted()]).sample(0)


def test_what_a_host_will_never_answer_is_asked_again_rarely(no_psi: Host) -> None:
    """A10."""
    probe = Scripted(Unsupported("no such file", "boot with it"), 0.5)
    sampler = Sampler(no_psi, [probe])
    for second in range(RETRY_S):
        readings = sampler.sample(second * S)
        assert readings.holes == (Hole("cpu.stall", State.UNSUPPORTED),)
    assert probe.asked == 1
    assert only(sampler).mend == "boot with it"
    assert sampler.sample(RETRY_S * S).cpu.stall == 0.5  # the host learnt to


def test_a_costly_probe_rests_and_its_last_value_says_how_old_it_is(
    no_psi: Host,
) -> None:
    """A01: 25 ms a sample, where 5 ms a second may be spent."""
    clock = iter(range(0, 10**12, 25_000_000))
    probe = Scripted(0.1, 0.2, 0.3)
    sampler = Sampler(no_psi, [probe], processor_ns=lambda: next(clock))
    assert sampler.sample(0).cpu.stall == 0.1
    assert sampler.sample(S).cpu.stall == 0.2  # once may be bad luck
    for second in range(2, 6):
        readings = sampler.sample(second * S)
        assert readings.cpu.stall == 0.2
        age_ms = (second - 1) * 1000
        assert readings.holes == (Hole("cpu.stall", State.STALE, age_ms),)
        assert "25.0 ms" in only(sampler).reason
    readings = sampler.sample(6 * S)
    assert readings.cpu.stall == 0.3
    assert readings.holes == ()
    assert probe.asked == 3


def test_a_single_costly_sample_does_not_make_a_probe_rest(no_psi: Host) -> None:
    clock = iter([0, 50_000_000, 50_000_000, 50_001_000, 50_001_000, 50_002_000])
    sampler = Sampler(
        no_psi, [Scripted(0.1, 0.2, 0.3)], processor_ns=lambda: next(clock)
    )
    values = [sampler.sample(second * S).cpu.stall for second in range(3)]
    assert values == [0.1, 0.2, 0.3]


def test_events_that_were_told_are_not_told_again_while_a_probe_rests(
    no_psi: Host,
) -> None:
    class Kills(Scripted):
        signals = ("memory.oom_kills",)

        def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
            return {"memory.oom_kills": Reading(3.0)}

    clock = iter(range(0, 10**12, 25_000_000))
    sampler = Sampler(no_psi, [Kills()], processor_ns=lambda: next(clock))
    told = [sampler.sample(second * S).memory.oom_kills for second in range(7)]
    assert told == [3, 3, None, None, None, None, 3]


def test_every_signal_of_the_host_has_a_probe_and_a_unit() -> None:
    ours = {
        name for name in NUMBERS if name.startswith(("cpu.", "memory.", "io.", "nic."))
    }
    assert {name for probe in probes(Groups()) for name in probe.signals} == ours
    assert set(UNITS) == ours


def test_every_signal_has_its_row_of_the_metrics_page(fixtures: Path) -> None:
    page = (fixtures.parents[1] / "docs/metrics.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z_.]+)` \| (\d+) \|", page, re.MULTILINE))
    assert {name: int(number) for name, number in rows.items()} == NUMBERS
    assert set(rows) == set(SIGNALS.values())


def test_a_sample_of_this_very_host_fits_a_frame_of_160_bytes() -> None:
    host = Host()
    sampler = Sampler(host)
    sampler.sample(0)
    readings = sampler.sample(S)
    host.close()
    assert readings.memory.available is not None
    link = Link(0, Method.ECHO, 120_000, 100_000, 150_000, 20_000, None, 100)
    frame = Frame(
        seq=2**20,
        boot_ms=2**40,
        gaps=0,
        cpu=readings.cpu,
        memory=readings.memory,
        links=(link,),
        holes=readings.holes,
        io=readings.io,
        net=readings.net,
    )
    data = encode(frame)
    assert len(data) <= 160
    (decoded,) = Stream().feed(data)
    assert isinstance(decoded, Frame)
    assert decoded.holes == readings.holes


def test_slow_signals_are_read_seldom_and_keep_their_value(no_psi: Host) -> None:
    class Slow(Scripted):
        signals = ("memory.oom_kills",)

        def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
            (answer,) = super().sample(source, now_us).values()
            return {"memory.oom_kills": answer}

    slow, quick = Slow(2.0, 3.0), Scripted(*(0.1 * n for n in range(1, 9)))
    sampler = Sampler(no_psi, [slow, quick], slow_s=5.0)
    seen = [sampler.sample(second * S) for second in range(7)]
    assert (slow.asked, quick.asked) == (2, 7)
    # Events are told once, when they were read, and are unknown in between.
    assert [r.memory.oom_kills for r in seen] == [2, None, None, None, None, 3, None]
    assert all(not readings.holes for readings in seen)


def test_the_core_of_a_sample_of_this_very_host_fits_96_bytes() -> None:
    """CPU, memory and one link, as the agent of the first version sent them."""
    host = Host()
    sampler = Sampler(host)
    sampler.sample(0)
    readings = sampler.sample(S)
    host.close()
    core_cpu, core_memory = Cpu(*readings.cpu[:4]), Memory(*readings.memory[:6])
    assert core_memory.available is not None
    link = Link(0, Method.ECHO, 120_000, 100_000, 150_000, 20_000, None, 100)
    frame = Frame(2**42, 2**42, 5, core_cpu, core_memory, (link,))
    assert 30 < len(encode(frame)) <= 96
