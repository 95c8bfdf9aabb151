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
    assert collector.fleet.score[session.row] == pytest.approx(1.0)
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
    assert collector.intake.counts.repeated == 1
    rebooted = Session(collector.intake)
    say(rebooted, hello(1, boot_id=b"c" * 16, boot_ms=0), frame(3, boot_ms=10))
    assert collector.intake.counts.repeated == 1
    assert collector.fleet.seq[0] == 3


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
    assert collector.fleet.score[0] == pytest.approx(1.0)


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
