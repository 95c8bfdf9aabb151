import pytest

from trimtab.agent.gpu.presence import Presence, look


def seen(host):
    return look(host.sysfs, host.procfs, host.dev)


def test_a_host_without_a_gpu_has_none(bare_host):
    bare_host.card(vendor="0x8086")  # another's display
    bare_host.card("0000:02:00.0", kind="0x040300")  # NVIDIA's audio
    assert seen(bare_host) == Presence()


def test_a_host_of_which_nothing_can_be_read_has_none(tmp_path):
    assert look(tmp_path / "a", tmp_path / "b", tmp_path / "c") == Presence()


@pytest.mark.parametrize("kind", ["0x030000", "0x030200", "0x038000"])
def test_an_nvidia_display_controller_is_a_gpu_with_or_without_a_driver(
    bare_host, kind
):
    bare_host.card(kind=kind)
    assert seen(bare_host) == Presence(gpu=True)
    bare_host.driver()
    assert seen(bare_host) == Presence(gpu=True, driver=True, control=True)


def test_a_container_shows_its_driver_but_no_bus(bare_host):
    bare_host.driver()
    assert seen(bare_host) == Presence(gpu=True, driver=True, control=True)


def test_a_service_without_devices_still_shows_the_driver(host):
    (host.dev / "nvidiactl").unlink()
    assert seen(host) == Presence(gpu=True, driver=True)


def test_wsl_and_tegra_are_known_by_their_own_signs(bare_host):
    (bare_host.dev / "dxg").touch()
    assert seen(bare_host).driver
    (bare_host.dev / "dxg").unlink()
    tree = bare_host.sysfs / "firmware/devicetree/base"
    tree.mkdir(parents=True)
    (tree / "compatible").write_bytes(b"nvidia,p3737\0nvidia,tegra234\0")
    assert seen(bare_host).driver


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        (None, True),  # a driver that doesn't tell
        ("Runtime D3 status:          Enabled (fine-grained)\n", True),
        ("Runtime D3 status:          Disabled by default\n", False),
        ("Runtime D3 status:          Not supported\n", False),
        ("Video Memory:               Active\n", True),
    ],
)
def test_a_gpu_that_the_driver_keeps_awake_is_not_let_go(host, says, expected):
    host.card(runtime_status="active", control="auto")
    if says is not None:
        folder = host.procfs / "driver/nvidia/gpus/0000:01:00.0"
        folder.mkdir(parents=True)
        (folder / "power").write_text(says)
    assert seen(host).may_sleep is expected


def test_a23_a_suspended_gpu_is_asleep_only_if_all_are(host):
    """A23."""
    host.card(runtime_status="suspended", control="auto")
    assert seen(host).asleep
    assert seen(host).may_sleep
    host.card("0000:02:00.0", runtime_status="active", control="auto")
    assert not seen(host).asleep
    assert seen(host).may_sleep
    host.card("0000:02:00.0", runtime_status="active", control="on")
    assert not seen(host).may_sleep
