"""Names looked up in a child that can't hold anything up."""

import os
import selectors
import socket
import time
from pathlib import Path

import pytest

from trimtab.agent.lookup import Lookup, NoAddress, numeric
from trimtab.agent.probes.targets import Target


def ended(lookup, timeout_s=10):
    """Wait as the loop does; return what the lookup found."""
    deadline = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        selector.register(lookup.fileno(), selectors.EVENT_READ)
        while True:
            assert selector.select(deadline - time.monotonic()), "nothing came"
            found = lookup.read()
            if found is not None:
                return found


def no_children():
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


@pytest.mark.parametrize(
    ("host", "family"),
    [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)],
)
def test_a_numeric_address_needs_no_child(host, family):
    (address,) = numeric(Target(host, 7766))
    assert address.family == family
    assert address.sockaddr[:2] == (host, 7766)
    assert numeric(Target("localhost", 7766)) == []


def test_a_name_is_found_and_the_child_is_gone():
    lookup = Lookup(Target("localhost", 7766))
    found = ended(lookup)
    assert {a.sockaddr[0] for a in found} <= {"127.0.0.1", "::1"}
    assert all(a.sockaddr[1] == 7766 for a in found)
    assert no_children()


def test_a_name_without_an_address_says_so():
    with pytest.raises(NoAddress):
        ended(Lookup(Target("no.such.name.invalid", 1)), 60)


def test_where_no_process_can_be_forked_a_name_is_found_all_the_same(monkeypatch):
    monkeypatch.delattr(os, "fork")
    lookup = Lookup(Target("localhost", 7766))
    assert ended(lookup)[0].sockaddr[1] == 7766


def test_a_lookup_given_up_leaves_no_child_and_no_descriptor():
    before = len(list(Path("/proc/self/fd").iterdir()))
    lookup = Lookup(Target("localhost", 1))
    lookup.close()
    lookup.close()
    assert no_children()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
