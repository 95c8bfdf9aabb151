"""The check script for a real GPU, as far as a stub and no GPU can show."""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "bench" / "gpu_check.py"


@pytest.fixture(scope="module")
def script():
    found = importlib.util.spec_from_file_location("gpu_check", SCRIPT)
    assert found is not None
    assert found.loader is not None
    loaded = importlib.util.module_from_spec(found)
    found.loader.exec_module(loaded)
    return loaded


@pytest.mark.parametrize(
    ("free", "mix", "expected"),
    [
        # 50% take 1 GPU with 6 GiB, 30% one with 16, 20% two with 12.
        ([9, 19, 4], [(0.5, 1, 6), (0.3, 1, 16), (0.2, 2, 12)], 0.384),
        ([100], [(0.5, 1, 10), (0.3, 1, 80), (0.2, 1, 160)], 0.2),
        ([60], [(0.5, 1, 10), (0.3, 1, 80), (0.2, 1, 160)], 0.5),
    ],
)
def test_the_fragmentation_share_is_that_of_the_worked_examples(
    script, free, mix, expected
):
    assert script.fgd(free, mix) == pytest.approx(expected, abs=5e-4)


def test_without_a_gpu_it_says_so_and_is_no_failure(stub, module):
    stub.control(err__nvmlInitWithFlags=9)
    ended = module(stub, str(SCRIPT))
    answer = json.loads(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    assert answer["gpu"] is None
    assert "Driver Not Loaded" in answer["reason"]
    assert answer["steps"] == []


def test_on_a_gpu_without_torch_the_steps_of_nvml_alone_are_run(
    stub, host, module, tmp_path
):
    stub.gpu(0, field__230=0, sm=31, dram=12)
    root = host.sysfs.parent
    ended = module(
        stub,
        str(SCRIPT),
        "--quick",
        "--root",
        str(root),
        "--out",
        str(tmp_path / "out"),
    )
    answer = json.loads(ended.stdout)
    assert answer == json.loads((tmp_path / "out").read_text())
    assert answer["gpu"] == "Stub H200"
    if answer["torch"] is not None:
        pytest.skip("torch is installed, and would run on no GPU")
    steps = {step["step"]: step for step in answer["steps"]}
    assert list(steps) == list(range(1, 11))
    assert steps[1]["ok"], steps[1]
    assert steps[1]["seen"]["calls"]["power"]["p50_ms"] > 0
    assert all("torch" in steps[n]["skipped"] for n in range(2, 10))
    assert steps[10]["ok"], steps[10]
    assert steps[10]["seen"]["frames"] == 3


def test_what_is_not_as_expected_fails_the_run(stub, host, module):
    stub.gpu(0, v2="broken")
    ended = module(stub, str(SCRIPT), "--step", "1", "--quick")
    assert json.loads(ended.stdout)["ok"] is False
