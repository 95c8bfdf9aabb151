"""A conversation: who is let in, what is answered, what ends it."""

import pytest

from trimtab.collector.credentials import Credentials, new_credential
from trimtab.collector.session import Rejected, Session
from trimtab.collector.states import State
from trimtab.wire import (
    Ack,
    Bye,
    Echo,
    Farewell,
    Inventory,
    Reason,
    Refused,
    Welcome,
    encode,
)


def say(session, *messages):
    return session.feed(b"".join(encode(m) for m in messages))


def refusal(session, *messages):
    with pytest.raises(Rejected) as caught:
        say(session, *messages)
    return caught.value.refused


def test_a_hello_is_welcomed_and_its_frames_are_counted(collector, hello, frame, clock):
    session = Session(collector.intake)
    (welcome,) = say(session, hello(1))
    assert welcome == Welcome("node1", int(clock.unix() * 1000))
    assert say(session, frame(1), frame(2)) == []
    clock.now += 2
    collector.tick()
    assert collector.fleet.score[session.row] > 0.9
    assert collector.intake.counts.frames == 2


def test_an_echo_comes_back_with_its_id_and_stamp_and_our_time(collector, hello, clock):
    session = Session(collector.intake)
    _, answer = say(session, hello(1), Echo(False, 7, 123456, unix_ms=5))
    assert answer == Echo(True, 7, 123456, unix_ms=round(clock.unix() * 1000))
    assert say(session, Echo(True, 7, 1)) == []  # an answer wants none


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (lambda h, f: f(1), Reason.ORDER),
        (lambda h, f: Echo(False, 1, 1), Reason.ORDER),
        (lambda h, f: Bye(), Reason.ORDER),
    ],
)
def test_nothing_is_taken_before_the_hello(collector, hello, frame, first, reason):
    refused = refusal(Session(collector.intake), first(hello, frame))
    assert refused.reason is reason
    assert "hello first" in refused.text
    assert len(collector.fleet) == 0


@pytest.mark.parametrize(
    "message", [Ack(1), Welcome("x", 1), Refused(Reason.LIMIT, "")]
)
def test_a_collectors_own_words_are_refused_from_an_agent(collector, hello, message):
    session = Session(collector.intake)
    say(session, hello(1))
    assert refusal(session, message).reason is Reason.ORDER


def test_another_nodes_hello_on_a_connection_in_use_is_refused(collector, hello):
    session = Session(collector.intake)
    say(session, hello(1))
    assert refusal(session, hello(2)).reason is Reason.ORDER
    assert len(collector.fleet) == 1


def test_a_hello_said_again_updates_the_inventory(collector, hello):
    session = Session(collector.intake)
    say(session, hello(1))
    say(session, hello(1, inventory=Inventory(cpus=8), interval_ms=5000))
    row = session.row
    assert collector.fleet.nodes[row].hello.inventory.cpus == 8
    assert collector.fleet.stale_after_s[row] == 15


def test_an_id_is_bound_to_its_key(collector, hello):
    """A43: no agent reports for another."""
    say(Session(collector.intake), hello(1))
    for key in (None, b"x" * 32):
        refused = refusal(Session(collector.intake), hello(1, key=key, name="other"))
        assert refused.reason is Reason.CREDENTIAL
        assert "bound to another key" in refused.text
    assert collector.fleet.nodes[0].name == "node1"
    say(Session(collector.intake), hello(1))  # the right key still admits


def test_a_second_holder_of_a_name_is_shown_apart_and_keeps_its_name(collector, hello):
    say(Session(collector.intake), hello(1, name="db"))
    (welcome,) = say(Session(collector.intake), hello(2, name="db"))
    assert welcome.name == "db~2"
    (again,) = say(Session(collector.intake), hello(2, name="db"))
    assert again.name == "db~2"
    (renamed,) = say(Session(collector.intake), hello(2, name="web"))
    assert renamed.name == "web"


class TestWithTokens:
    """A collector that has credentials is not open."""

    @pytest.fixture(autouse=True)
    def _tokens(self, collector, clock):
        now = clock.unix()
        collector.credentials.replace(
            [
                new_credential("tt_agent", ["agent"], "", now, None),
                new_credential("tt_read", ["read"], "", now, None),
                new_credential("tt_admin", ["admin"], "", now, None),
                new_credential("tt_old", ["agent"], "", now, now - 1),
            ]
        )

    @pytest.mark.parametrize("token", ["tt_agent", "tt_admin"])
    def test_enrolment_needs_a_token_and_later_the_key_alone_admits(
        self, collector, hello, token
    ):
        assert say(Session(collector.intake), hello(1, token=token))
        assert say(Session(collector.intake), hello(1))

    @pytest.mark.parametrize("token", [None, "", "wrong", "tt_read", "tt_old"])
    def test_without_a_right_token_nobody_enrols(self, collector, hello, token):
        refused = refusal(Session(collector.intake), hello(1, token=token))
        assert refused.reason is Reason.CREDENTIAL
        assert "trimtab-collector token create" in refused.text
        assert len(collector.fleet) == 0

    def test_enrolment_needs_a_key_to_bind(self, collector, hello):
        refused = refusal(
            Session(collector.intake), hello(1, key=None, token="tt_agent")
        )
        assert "key" in refused.text


def test_a_collector_is_open_only_while_it_never_had_a_token():
    exposed = Credentials([], may_be_open=False)
    assert not exposed.open
    assert not exposed.allows(None, "read", 0)
    assert Credentials([], may_be_open=True).allows(None, "admin", 0)
    revoked = new_credential("tt_x", ["admin"], "", 0, None)._replace(revoked=1.0)
    closed = Credentials([revoked], may_be_open=True)
    assert not closed.open
    assert not closed.allows(None, "read", 2)
    assert not closed.allows("tt_x", "read", 2)


def test_a_new_boot_begins_its_sequence_anew(collector, hello, frame, clock):
    session = Session(collector.intake)
    say(session, hello(1), frame(500))
    say(session, frame(500))
    collector.tick()
    assert collector.intake.counts.repeated == 1
    rebooted = Session(collector.intake)
    say(rebooted, hello(1, boot_id=b"c" * 16, boot_ms=0), frame(3, boot_ms=10))
    collector.tick()
    assert collector.intake.counts.repeated == 1
    assert collector.fleet.seq[0] == 3


def test_frames_that_wait_when_a_new_boot_says_hello_count_for_the_old_one(
    collector, hello, frame
):
    session = Session(collector.intake)
    say(session, hello(1), frame(500), frame(501), frame(501))
    rebooted = Session(collector.intake)
    say(rebooted, hello(1, boot_id=b"c" * 16, boot_ms=0), frame(3, boot_ms=10))
    assert collector.intake.counts.repeated == 1
    collector.tick()
    assert collector.fleet.seq[0] == 3
    assert collector.intake.counts.repeated == 1
    assert sum(s.samples for s in collector.fleet.rollups.drain().values()) == 3


def test_a_node_that_announces_its_sleep_is_sleeping_not_lost(
    collector, hello, frame, clock
):
    session = Session(collector.intake)
    say(session, hello(1), frame(1), Bye(Farewell.SLEEP))
    assert session.ended
    clock.now += 3600
    collector.tick()  # finds itself frozen for an hour, and judges nobody
    collector.tick()
    assert collector.fleet.state[0] == State.SLEEPING


def test_a_slow_first_hello_does_not_age_every_later_frame(
    collector, hello, frame, clock
):
    # The hello took 4 s on the way, the frames hardly any time.
    session = Session(collector.intake)
    say(session, hello(1, boot_ms=5_000_000))
    say(session, frame(1, boot_ms=5_004_000))
    collector.tick()
    assert clock.now - collector.fleet.sampled_at[0] < 0.01


def test_errors_of_one_conversation_leave_the_others_alone(collector, hello, frame):
    good, bad = Session(collector.intake), Session(collector.intake)
    say(good, hello(1), frame(1))
    say(bad, hello(2))
    assert refusal_bytes(bad, b"\x93\x04\x01\xa1x").reason is Reason.MALFORMED
    say(good, frame(2))
    collector.tick()
    assert collector.fleet.score[0] > 0.9


class TestToldLater:
    """A sender that can be told later: its frames are read on the tick."""

    @pytest.fixture
    def told(self):
        return []

    @pytest.fixture
    def session(self, collector, hello, told):
        session = Session(collector.intake, told.append)
        say(session, hello(1))
        return session

    def test_its_frames_wait_and_count_on_the_tick(self, collector, session, frame):
        assert say(session, frame(1), frame(2)) == []
        assert collector.intake.counts.frames == 2
        assert len(collector.fleet.waiting) == 2
        assert collector.fleet.seq[0] == -1
        collector.tick()
        assert collector.fleet.seq[0] == 2
        assert collector.fleet.score[0] > 0.9

    @pytest.mark.parametrize(
        ("bad", "reason", "text"),
        [
            (b"\x93\x04\x01\xa1x", Reason.MALFORMED, "frame.boot_ms: expected an int"),
            (b"\x93\x04\xca\x7f\xc0\x00\x00\x01", Reason.MALFORMED, "frame.seq: exp"),
            (
                b"\x94\x04\x01\x01\xdc\x01\x41" + b"\x01" * 321,
                Reason.LIMIT,
                "message: 321 exceeds max_array_len",
            ),
        ],
    )
    def test_a_wrong_one_is_refused_then_with_the_reason_it_always_had(
        self, collector, hello, session, told, frame, bad, reason, text
    ):
        assert session.feed(encode(frame(1)) + bad + encode(frame(2))) == []
        other = Session(collector.intake, told.append)
        say(other, hello(2), frame(7))
        assert told == []
        collector.tick()
        (refused,) = told
        assert refused.reason is reason
        assert refused.text.startswith(text)
        assert collector.fleet.seq[:2].tolist() == [1, 7]
        assert collector.intake.counts.refused[reason] == 1
        at_once = Session(collector.intake)
        say(at_once, hello(3))
        assert refusal_bytes(at_once, bad) == refused

    def test_other_messages_are_answered_at_once_between_frames(
        self, collector, session, frame
    ):
        first, second = encode(frame(1)), encode(frame(2))
        (echo,) = session.feed(first + encode(Echo(False, 7, 1)) + second)
        assert (echo.reply, echo.ident) == (True, 7)
        collector.tick()
        assert collector.fleet.seq[0] == 2

    @pytest.mark.parametrize("piece", [1, 3, 50, 100])
    def test_the_cut_of_reads_changes_nothing(self, collector, session, frame, piece):
        data = b"".join(encode(frame(n)) for n in range(1, 6))
        data += encode(Echo(False, 1, 1)) + encode(frame(6))
        answers = []
        for start in range(0, len(data), piece):
            answers += session.feed(data[start : start + piece])
        assert len(answers) == 1
        assert session.partial_bytes == 0
        assert collector.intake.counts.frames == 6
        collector.tick()
        assert collector.fleet.seq[0] == 6

    def test_a_frame_that_never_ends_is_too_large(self, session):
        begin = b"\x94\x04\x01\x01" + b"\x91\x9f" * 3
        assert session.feed(begin) == []
        assert session.partial_bytes == len(begin)
        text = "x" * 2000
        endless = b"".join(b"\xda\x07\xd0" + text.encode() for _ in range(40))
        refused = refusal_bytes(session, endless)
        assert refused.reason is Reason.LIMIT

    def test_a_sleep_after_frames_is_the_last_word(
        self, collector, session, frame, clock
    ):
        say(session, frame(1), Bye(Farewell.SLEEP))
        assert collector.fleet.seq[0] == 1  # the bye wants to know what is stored
        collector.tick()
        assert collector.fleet.state[0] == State.SLEEPING

    def test_a_hello_again_makes_no_backfill_of_what_was_sampled_since_the_first(
        self, collector, hello, session, frame, clock
    ):
        clock.now += 10
        say(session, hello(1, boot_ms=5_010_000), frame(8))
        collector.tick()
        assert collector.fleet.frames[0] == 1

    def test_many_frames_are_not_left_to_a_late_tick(
        self, collector, session, frame, monkeypatch
    ):
        monkeypatch.setattr("trimtab.collector.session.MOST_WAITING", 50)
        say(session, *(frame(n) for n in range(1, 50)))
        assert len(collector.fleet.waiting) == 49
        say(session, frame(50))
        assert len(collector.fleet.waiting) == 0
        assert collector.fleet.seq[0] == 50


def refusal_bytes(session, data):
    with pytest.raises(Rejected) as caught:
        session.feed(data)
    return caught.value.refused


def test_a_protocol_of_another_age_is_refused_as_such(collector):
    refused = refusal_bytes(Session(collector.intake), b"\x92\x01\x63")
    assert refused.reason is Reason.PROTOCOL
    assert "protocol 1" in refused.text


def test_a_full_fleet_refuses_newcomers_and_keeps_its_own(collector, hello, settings):
    collector.intake.settings = settings.model_copy(update={"max_nodes": 1})
    say(Session(collector.intake), hello(1))
    refused = refusal(Session(collector.intake), hello(2))
    assert refused.reason is Reason.LIMIT
    assert "max_nodes" in refused.text
    say(Session(collector.intake), hello(1))
