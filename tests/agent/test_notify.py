"""sd_notify over a real datagram socket."""

import socket

import pytest

from trimtab.agent.notify import Manager


def test_states_reach_the_manager(tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(2)
        told = Manager({"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "30000000"})
        told.tell("READY=1")
        assert manager.recv(100) == b"READY=1"
        assert told.watchdog_s == 30


@pytest.mark.parametrize(
    "environment",
    [{}, {"NOTIFY_SOCKET": "/nowhere/at/all"}, {"WATCHDOG_USEC": "soon"}],
)
def test_without_a_manager_nothing_happens(environment):
    manager = Manager(environment)
    manager.tell("READY=1")
    assert manager.watchdog_s is None
