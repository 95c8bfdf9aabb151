import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from bench import openb
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer.gpus import Ask, Mix, Part, RecentAsks, Room, fits, typical
from trimtab.balancer.gpus.mix import LEAST_ASKS, RECENT_ASKS, RENEWED_EVERY, unusable


def part(row: dict[str, Any]) -> Part:
    """Read one of our own rows, or one of the published."""
    models = row.get("models", [row["gpu_type"]] if row.get("gpu_type") else ())
    ask = Ask(
        row.get("cpu_milli", 0),
        0,
        row.get("devices", row.get("num_gpu", 0)),
        row.get("each", row.get("gpu_milli", 0)),
        tuple(models),
    )
    return Part(ask, row["frequency" if "frequency" in row else "freq"])


def test_fragments_worked_out_by_hand_come_out(fixtures: Path) -> None:
    known = json.loads((fixtures / "gpu-placement" / "fragments.json").read_text())
    mixes = {name: Mix(map(part, rows)) for name, rows in known["mixes"].items()}
    for case in known["cases"]:
        free = tuple(sorted(case["free"]))
        room = Room(case.get("cpu_milli", 0), 0, free, case.get("model", ""))
        mix = mixes[case["mix"]]
        assert mix.fragment(room) == pytest.approx(case["fragment"]), case["why"]
        share = case["share"]
        expected = None if share is None else pytest.approx(share)
        assert mix.share([room]) == expected, case["why"]


def test_the_published_unit_cases_come_out_exactly(recordings: Path) -> None:
    text = (recordings / "openb-gpu-2023" / "fragment_unit_cases.json").read_text()
    known = json.loads(text)
    mixes = {name: Mix(map(part, rows)) for name, rows in known["pod_sets"].items()}
    assert len(known["cases"]) == 4
    for case in known["cases"]:
        free = tuple(sorted(case["gpu_milli_left"]))
        room = Room(case["cpu_milli_left"], 0, free, case["gpu_type"])
        fragment = mixes[case["pod_set"]].fragment(room)
        wanted = pytest.approx(case["expected_fragment"], abs=known["tolerance"])
        assert fragment == wanted, case["name"]
    for case in known["per_pod_cases"]:
        found = unusable(case["gpu_milli_left"], case["pod_gpu_milli"])
        assert found == case["expected_unusable"]


def test_every_task_list_gives_the_typical_tasks_and_the_empty_clusters_fragment(
    recordings: Path,
) -> None:
    folder = recordings / "openb-gpu-2023"
    nodes = [room for _, room in openb.nodes(folder)]
    with (folder / "empty_cluster_fragment.csv").open() as file:
        known = list(csv.DictReader(file))
    assert {row["workload"] for row in known} == set(openb.WORKLOADS)
    for row in known:
        tasks = openb.asks(folder, row["workload"])
        assert len(tasks) == int(row["pods"])
        mix = typical(Counter(tasks))
        assert mix is not None
        assert len(mix.parts) == int(row["typical_pod_types"])
        fragment = sum(mix.fragment(room) for room in nodes)
        assert round(fragment) == int(row["empty_cluster_fragment_milli_gpu"])


def plain(mix: Mix, room: Room) -> float:
    """The definition, word by word."""
    total = 0.0
    for ask, frequency in mix.parts:
        runs = ask.asks_gpu and fits(room, ask._replace(memory_mib=0))
        lost = unusable(room.free, ask.each) if runs else sum(room.free)
        total += frequency * lost
    return total


asks = st.builds(
    Ask,
    st.sampled_from([0, 1000, 4000]),
    st.just(0),
    st.sampled_from([0, 1, 1, 2, 8]),
    st.sampled_from([0, 250, 500, 1000]),
    st.sampled_from([(), ("a",), ("a", "b")]),
)
rooms = st.builds(
    lambda cpu, free, model: Room(cpu, 0, tuple(sorted(free)), model),
    st.integers(0, 5000),
    st.lists(st.integers(0, 1000), max_size=8),
    st.sampled_from(["a", "b", ""]),
)


@given(st.dictionaries(asks, st.integers(1, 9), min_size=1), st.lists(rooms))
def test_the_quick_fragment_is_the_one_by_the_definition(
    counts: dict[Ask, int], fleet: list[Room]
) -> None:
    mix = typical(counts)
    assert mix is not None
    assert sum(part.frequency for part in mix.parts) == pytest.approx(1)
    for room in [*fleet, *fleet]:  # the second time from memory
        fragment = mix.fragment(room)
        assert fragment == pytest.approx(plain(mix, room))
        assert -1e-6 <= fragment <= sum(room.free) + 1e-6


def test_rare_tasks_are_not_typical_and_host_memory_tells_none_apart() -> None:
    common, rare = Ask(1000, 1, 1, 500), Ask(1000, 1, 8, 1000)
    mix = typical({common: 50, common._replace(memory_mib=2): 46, rare: 4})
    assert mix is not None
    assert mix.parts == (Part(common._replace(memory_mib=0), 1.0),)
    assert typical({}) is None


def test_a_mix_is_unknown_before_enough_was_asked_and_follows_what_is_asked() -> None:
    recent, small, large = RecentAsks(), Ask(0, 7, 1, 100), Ask(0, 0, 8, 1000)
    for _ in range(LEAST_ASKS - 1):
        recent.saw(small)
    assert recent.mix() is None
    recent.saw(small)
    first = recent.mix()
    assert first is not None
    assert first.parts == (Part(small._replace(memory_mib=0), 1.0),)
    recent.saw(large)
    assert recent.mix() is first  # not made anew for each task
    for _ in range(RECENT_ASKS + RENEWED_EVERY):
        recent.saw(large)
    last = recent.mix()
    assert last is not None
    assert last.parts == (Part(large, 1.0),)
