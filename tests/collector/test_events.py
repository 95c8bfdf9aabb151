"""Events: numbered, bounded, waited for, and never lost on the way to the store."""

import asyncio

import pytest

from trimtab.collector.events import Event, Events, Kind


@pytest.fixture
def events():
    return Events(lambda: 5.0, kept=4)


def say(events, count):
    return [events.say(Kind.STATE, f"event {i}", node="n") for i in range(count)]


def test_numbers_grow_by_one_and_go_on_after_a_restart(events):
    assert [event.ident for event in say(events, 3)] == [1, 2, 3]
    known = [Event(41, 1.0, Kind.BOOT, None, None, "", None, {})]
    again = Events(lambda: 6.0, known)
    assert again.say(Kind.BOOT, "").ident == 42
    assert [e.ident for e in again.after(0, 9)] == [41, 42]


def test_only_the_newest_are_kept(events):
    say(events, 7)
    assert (events.oldest, events.newest) == (4, 7)
    assert [e.ident for e in events.after(0, 9)] == [4, 5, 6, 7]
    assert [e.ident for e in events.after(5, 9)] == [6, 7]
    assert [e.ident for e in events.after(3, 2)] == [4, 5]
    assert events.after(7, 9) == events.after(99, 9) == []


def test_without_any_the_next_is_the_oldest(events):
    assert (events.oldest, events.newest) == (1, 0)
    assert events.after(0, 9) == []


def test_who_waits_is_woken_by_the_next(events):
    async def follow():
        waiting = asyncio.create_task(events.wait(events.newest))
        await asyncio.sleep(0)
        assert not waiting.done()
        events.say(Kind.STATE, "now")
        async with asyncio.timeout(1):
            await waiting
            await events.wait(0)  # there is one past that already

    asyncio.run(follow())


def test_what_could_not_be_stored_comes_again_before_what_is_newer(events):
    say(events, 2)
    taken = events.take_unsaved()
    say(events, 1)
    events.put_back(taken)
    assert [e.ident for e in events.take_unsaved()] == [1, 2, 3]
    assert events.take_unsaved() == []


def test_past_the_bound_the_oldest_unsaved_go(events):
    say(events, 3)
    taken = events.take_unsaved()
    say(events, 3)
    events.put_back(taken)
    assert [e.ident for e in events.take_unsaved()] == [3, 4, 5, 6]


def test_each_kind_is_counted(events):
    say(events, 2)
    events.say(Kind.CLONE, "two boots")
    assert (events.counts[Kind.STATE], events.counts[Kind.CLONE]) == (2, 1)
