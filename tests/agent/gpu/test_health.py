import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.agent.gpu import health
from trimtab.agent.gpu.health import Facts, verdict
from trimtab.agent.gpu.rising import Growth
from trimtab.wire import GPU_REASONS, GpuHealth

OK, LOWERED, ZERO = GpuHealth.OK, GpuHealth.LOWERED, GpuHealth.ZERO


def names(reasons):
    return {text for bit, text in GPU_REASONS.items() if reasons >> bit & 1}


@pytest.mark.parametrize(
    ("facts", "expected", "reason"),
    [
        (Facts(fault=15), ZERO, "lost"),
        (Facts(fault=16), ZERO, "reset required"),
        (Facts(missing=True), ZERO, "missing"),
        (Facts(recovery=1), ZERO, "recovery action"),  # reset
        (Facts(recovery=2), ZERO, "recovery action"),  # reboot
        (Facts(recovery=3), LOWERED, "P2P drain"),
        (Facts(recovery=4), ZERO, "recovery action"),  # drain and reset
        (Facts(recovery=5), ZERO, "recovery action"),
        (Facts(recovery=99), ZERO, "recovery action"),  # of a newer driver
        (Facts(remap_failed=True), ZERO, "remap failed"),
        (Facts(xid_fatal=True), ZERO, "xid fatal"),
        (Facts(remap_pending=True), LOWERED, "remap pending"),
        (Facts(pages_pending=True), LOWERED, "pages pending"),
        (Facts(xid_warning=True), LOWERED, "xid warning"),
        (Facts(throttled=True), LOWERED, "throttled"),
        (Facts(query_error=True), LOWERED, "query error"),
        (Facts(fault=999), None, "query error"),  # can't be asked: no verdict
        (Facts(nvlink_replays=Growth(1, 60)), LOWERED, "link errors"),
        (Facts(nvlink_crc=Growth(6000, 60)), LOWERED, "link errors"),
        (Facts(pcie_replays=Growth(9, 60)), LOWERED, "pcie replays"),
    ],
)
def test_each_sign_has_its_effect_and_says_its_name(facts, expected, reason):
    found = verdict(facts)
    assert found.health is expected
    assert names(found.reasons) == {reason}


@pytest.mark.parametrize(
    "facts",
    [
        Facts(),  # nothing supported: neutral
        Facts(recovery=0, remap_pending=False, remap_failed=False, throttled=False),
        Facts(nvlink_crc=Growth(5999, 60)),
        Facts(nvlink_replays=Growth(0, 60)),
        Facts(pcie_replays=Growth(8, 60)),
    ],
)
def test_what_is_unsupported_or_within_limits_is_well(facts):
    assert verdict(facts) == (OK, 0)


flags = st.none() | st.booleans()
facts = st.builds(
    Facts,
    fault=st.sampled_from([None, 15, 16, 999]),
    missing=st.booleans(),
    recovery=st.none() | st.integers(0, 9),
    remap_pending=flags,
    remap_failed=flags,
    pages_pending=flags,
    throttled=flags,
    xid_fatal=st.booleans(),
    xid_warning=st.booleans(),
    query_error=st.booleans(),
)


@given(facts)
def test_only_a_gpu_with_nothing_against_it_is_ok(known):
    found = verdict(known)
    assert (found.health is OK) is (found.reasons == 0)
    assert (found.health is ZERO) is bool(found.reasons & health.ZERO)


def test_applications_own_xids_judge_nothing():
    own = {13, 31, 43, 45, 68, 109}
    assert not own & (health.FATAL_XIDS | health.WARNING_XIDS)
    assert not health.FATAL_XIDS & health.WARNING_XIDS


def test_the_bits_are_those_of_the_wire():
    bits = {
        "lost": health.LOST,
        "reset required": health.RESET,
        "missing": health.MISSING,
        "recovery action": health.RECOVERY,
        "remap failed": health.REMAP_FAILED,
        "remap pending": health.REMAP_PENDING,
        "pages pending": health.PAGES_PENDING,
        "P2P drain": health.P2P_DRAIN,
        "link errors": health.LINK_ERRORS,
        "pcie replays": health.REPLAYS,
        "xid fatal": health.XID_FATAL,
        "xid warning": health.XID_WARNING,
        "throttled": health.THROTTLED,
        "query error": health.QUERY_ERROR,
    }
    assert bits == {text: 1 << bit for bit, text in GPU_REASONS.items()}
