"""What the agent waits on: descriptors, deadlines, signals, and tasks over them."""

import os
import signal
import socket
import time

import pytest

from trimtab.agent.loop import NEVER, READ, WRITE, Ended, Loop, Task


@pytest.fixture
def loop():
    opened = Loop()
    yield opened
    opened.close()


@pytest.fixture
def pair():
    both = socket.socketpair()
    yield both
    for each in both:
        each.close()


def test_a_call_comes_when_it_is_due_and_once(loop):
    called = []
    loop.at(time.monotonic() + 0.02, lambda: called.append(time.monotonic()))
    began_s = time.monotonic()
    loop.turn()
    assert called
    assert called[0] - began_s >= 0.02
    loop.turn(0.0)
    assert len(called) == 1


def test_a_later_wish_of_the_same_call_takes_the_place_of_the_first(loop):
    called: list[int] = []
    loop.at(0.0, called.clear)
    loop.at(time.monotonic() + 60, called.clear)
    assert next(iter(loop._due.values())) > time.monotonic()
    loop.cancel(called.clear)
    loop.cancel(called.clear)  # of nothing
    assert loop._due == {}


def test_calls_may_take_each_other_back_and_ask_for_more(loop):
    called = []

    def first():
        called.append("first")
        loop.cancel(second)
        loop.at(0.0, third)

    def second():
        called.append("second")

    def third():
        called.append("third")

    loop.at(0.0, first)
    loop.at(0.0, second)
    loop.turn()
    assert called == ["first"]
    loop.turn()
    assert called == ["first", "third"]


def test_a_descriptor_is_watched_for_what_is_wanted_until_it_is_ignored(loop, pair):
    ours, theirs = pair
    called = []
    loop.watch(ours.fileno(), READ, lambda: called.append("read"))
    loop.turn(0.0)
    assert called == []
    theirs.send(b"x")
    loop.turn()
    loop.watch(ours.fileno(), WRITE, lambda: called.append("write"))
    loop.turn()
    loop.ignore(ours.fileno())
    loop.ignore(ours.fileno())  # of nothing
    loop.turn(0.0)
    assert called == ["read", "write"]


def test_what_one_call_closes_is_not_called_in_the_same_turn(loop, pair):
    """Even if another descriptor has its number by then."""
    called = []

    def close(which, other):
        called.append(which)
        number = other.fileno()
        loop.ignore(number)
        other.close()
        opened = os.dup(which.fileno())
        loop.watch(opened, READ, lambda: called.append("new"))
        assert opened == number
        loop.ignore(which.fileno())

    ours, theirs = pair
    loop.watch(ours.fileno(), READ, lambda: close(ours, theirs))
    loop.watch(theirs.fileno(), READ, lambda: close(theirs, ours))
    ours.send(b"x")
    theirs.send(b"x")
    loop.turn()
    assert len(called) == 1
    for number in list(loop._calls):
        loop.ignore(number)
        os.close(number)


def test_a_signal_wakes_the_loop_and_is_handled_outside_of_what_it_stopped(loop):
    called = []
    before = signal.getsignal(signal.SIGUSR2)
    try:
        loop.on_signal(signal.SIGUSR2, lambda: called.append(1))
        os.kill(os.getpid(), signal.SIGUSR2)
        assert called == []
        loop.turn(time.monotonic() + 5)
        assert called == [1]
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_a_task_goes_on_when_its_wait_is_over_or_it_is_poked(loop):
    passed = []

    def work():
        passed.append("began")
        yield time.monotonic() + 0.01
        passed.append("waited")
        yield NEVER
        passed.append("poked")

    task = Task(loop, work())
    loop.turn()
    loop.turn()
    assert passed == ["began", "waited"]
    task.poke()
    loop.turn()
    assert passed == ["began", "waited", "poked"]
    task.poke()  # it has ended
    assert loop._due == {}


def test_a_task_that_is_ended_may_wait_to_tidy_up(loop):
    passed = []

    def work():
        try:
            yield NEVER
        except Ended:
            passed.append("told")
            yield time.monotonic() + 0.01
            passed.append("tidy")
            raise

    task = Task(loop, work())
    loop.turn()
    task.end(lambda: passed.append("ended"))
    assert passed == ["told"]
    loop.turn()
    assert passed == ["told", "tidy", "ended"]
    assert loop._due == {}


def test_a_fault_in_a_task_is_seen(loop):
    def work():
        yield 0.0
        raise RuntimeError("a bug")

    Task(loop, work())
    loop.turn()
    with pytest.raises(RuntimeError, match="a bug"):
        loop.turn()
