"""The psutil backend, forced on Linux, beside what procfs says."""

import json
import os
import subprocess
import sys

import pytest
from tests.processes import Fleet, until

from trimtab.agent import inventory, portable
from trimtab.agent.host import Host
from trimtab.agent.sampler import UNITS, Sampler
from trimtab.wire import State

S = 1_000_000_000


def test_every_signal_is_answered_or_unsupported():
    names = [name for probe in portable.probes() for name in probe.signals]
    assert sorted(names) == sorted(UNITS)


def test_it_agrees_with_procfs_on_what_both_know():
    host = Host()
    ours, theirs = Sampler(host), Sampler(host, portable.probes())
    for sampler in (ours, theirs):
        sampler.sample(0)
    total = 0
    for n in range(3_000_000):  # something to see
        total += n
    a, b = ours.sample(S), theirs.sample(S)
    assert b.cpu.busy == pytest.approx(a.cpu.busy, abs=0.25)
    assert b.memory.available == pytest.approx(a.memory.available, abs=0.02)
    assert b.memory.swap_in_bytes_s == a.memory.swap_in_bytes_s
    assert b.net.errors_s == a.net.errors_s
    states = {signal.name: signal.state for signal in theirs.signals()}
    assert states["cpu.stall"] is State.UNSUPPORTED
    assert b.cpu.stall is None
    host.close()


def test_inventory_agrees_too():
    host = Host()
    assert portable.usable_cpus() == os.cpu_count()
    assert portable.memory_mib() == inventory.memory_mib(host)
    assert portable.boot_id() == portable.boot_id()
    assert len(portable.boot_id()) == 16
    host.close()


def test_sample_and_run_work_through_it(tmp_path, free_port):
    done = subprocess.run(
        [sys.executable, "-m", "trimtab.agent", "sample", "--json", "--interval=0.1"],
        env=os.environ | {"TRIMTAB_BACKEND": "psutil"},
        capture_output=True,
        text=True,
        check=True,
    )
    signals = json.loads(done.stdout)["signals"]
    assert signals["memory.available"]["value"] > 0
    assert signals["cpu.stall"]["state"] == "unsupported"
    fleet = Fleet(tmp_path, free_port)
    try:
        fleet.collector()
        fleet.agent("mac", backend="psutil", interval_s=0.2)
        until(
            lambda: fleet.nodes().get("mac", {}).get("score") is not None, 10, "scored"
        )
        node = fleet.ask("/v1/nodes/mac")
        assert node["signals"]["cpu.stall"] is None
        assert node["cpus"] == os.cpu_count()
        assert node["confidence"] < 0.7
    finally:
        fleet.close()
