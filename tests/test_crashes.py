"""kill -9 at any moment: nothing of the registry is lost, no minute of history."""

import random
import sqlite3
import time
from contextlib import closing

from .processes import until
from .senders import sending, turn


def kept(fleet):
    """Return the samples that the file holds, by node, and who is known."""
    with closing(sqlite3.connect(fleet.folder / "collector/collector.db")) as db:
        counted = dict(
            db.execute(
                "SELECT name, sum(samples) FROM nodes JOIN minutes ON id = node "
                "GROUP BY name"
            )
        )
        return counted, {name for (name,) in db.execute("SELECT name FROM nodes")}


def test_repeated_kills_under_load_lose_nothing_and_count_nothing_twice(fleet):
    rng = random.Random(4)
    process = fleet.collector(commit_s=0.1)
    with sending(8, fleet.frames_port) as senders:
        for _ in range(8):
            ends = time.monotonic() + rng.uniform(0.7, 1.6)
            while time.monotonic() < ends:
                for sender in senders:
                    if sender.socket is None:
                        sender.dial()
                    sender.sample()
                turn(senders, 0.02)
            process.kill()
            process.wait()
            process = fleet.collector(commit_s=0.1)

        def all_stored():
            for sender in senders:
                if sender.socket is None:
                    sender.dial()
            turn(senders, 0.1)
            return all(sender.stored == sender.seq for sender in senders)

        until(all_stored, 20, "all is stored")
        until(fleet.nodes, 10, "the last one serves")
    assert min(sender.seq for sender in senders) > 100
    assert fleet.stop(process) == 0
    counted, known = kept(fleet)
    assert known == {sender.name for sender in senders}
    assert counted == {sender.name: sender.seq for sender in senders}
