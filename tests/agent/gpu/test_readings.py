import msgpack
import pytest

from trimtab.agent.errors import Malformed
from trimtab.agent.gpu.readings import (
    Cause,
    Failed,
    Gpm,
    Instance,
    Memory,
    Place,
    Profile,
    Reading,
    Ready,
    Replace,
    Sample,
    pack,
    parse,
)

FULL = Reading(
    3,
    "GPU-3",
    "H200",
    errors={"power": 999},
    memory=Memory(4, 2, 1, 1),
    busy=70,
    remap_pending=True,
    xids=(79, 31),
    gpm=Gpm(1.0, None, 2.0, 3.0),
    mig=True,
    instances=(Instance(1, 2, Memory(4, 3, 1), Gpm(5.0)), Instance(2)),
    profiles=(Profile(19, 1, 7, (Place(0, 1),), (Place(1, 1),), 5),),
)


@pytest.mark.parametrize(
    "message",
    [
        Ready("580.65"),
        Sample(7, 2, 14_000, (FULL, Reading(4, fault=15))),
        Replace(Cause.LAYOUT, "MIG was switched"),
        Failed(-1, "a bug"),
    ],
)
def test_a_message_arrives_as_it_was_sent(message):
    assert parse(msgpack.unpackb(pack(message))) == message


@pytest.mark.parametrize(
    "array",
    [
        None,
        [],
        ["ready"],
        ["sample", 1, 1, 1, [[1, 2, 3] + [None] * 40]],
        ["sample", 1, 1, 1, 5],
        ["sample", 1, 1, 1, [5]],
        ["sample", 1, 1, 1, [["x", "y"]]],
        ["sample", 1, 1, 1, [[0, "uuid", "name", None, {"power": "x"}]]],
        ["sample", 1, 1, 1, [[0, "uuid", "name", None, {}, [1, 2, 3.5]]]],
        ["sample", 1, 1, 1, [[0, "uuid", "name", None, 5]]],
        ["replace", "whim", ""],
        ["other", 1],
    ],
)
def test_what_is_no_message_is_refused(array):
    with pytest.raises(Malformed):
        parse(array)
