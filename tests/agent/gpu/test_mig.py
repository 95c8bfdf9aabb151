from collections.abc import Iterable
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.agent.gpu.mig import apart, free_places, stranding
from trimtab.agent.gpu.readings import Place, Profile

# 8 memory and 7 compute slices, as of an A100 or H100.
KINDS: dict[str, tuple[int, int, int, int, Iterable[int]]] = {
    "1g": (19, 1, 7, 1, range(7)),
    "2g": (14, 2, 3, 2, (0, 2, 4)),
    "3g": (9, 3, 2, 4, (0, 4)),
    "4g": (5, 4, 1, 4, (0,)),
    "7g": (0, 7, 1, 8, (0,)),
}


def profiles(*instances, remaining=None):
    """Return every profile of a GPU that holds these, given as ("1g", start)."""
    return [
        Profile(
            ident,
            slices,
            most,
            tuple(Place(start, size) for start in starts),
            tuple(Place(start, size) for kind, start in instances if kind == name),
            remaining.get(name) if remaining else None,
        )
        for name, (ident, slices, most, size, starts) in KINDS.items()
    ]


def lost(name, held):
    """Return M of one profile: the others are there only for what they hold."""
    return stranding(
        [p if p.ident == KINDS[name][0] else p._replace(most=0) for p in held]
    )


@pytest.mark.parametrize(
    ("profile", "expected"), [("1g", 0.0), ("2g", 0.5), ("3g", 1.0), ("7g", 0.0)]
)
def test_two_small_instances_apart_cost_the_larger_their_places(profile, expected):
    held = profiles(("1g", 1), ("1g", 5))
    assert lost(profile, held) == expected
    assert stranding(held) == 1.0  # the worst of them


def test_the_drivers_own_count_of_what_fits_is_believed():
    held = profiles(("1g", 1), ("1g", 5), remaining={"1g": 5, "2g": 2, "3g": 1})
    assert lost("2g", held) == 0
    assert lost("3g", held) == 0


def test_an_empty_and_a_full_gpu_are_not_stranded():
    assert stranding(profiles()) == 0
    assert stranding(profiles(("7g", 0))) == 0  # shortage is not fragmentation


def test_without_profiles_there_is_no_reading():
    assert stranding([]) is None


def test_a_legal_place_is_free_only_if_nothing_overlaps_it():
    legal = [Place(0, 4), Place(4, 4)]
    assert free_places(legal, [Place(3, 1)]) == [Place(4, 4)]
    assert free_places(legal, [Place(3, 2)]) == []
    assert free_places(legal, []) == legal


places = st.lists(st.builds(Place, st.integers(0, 9), st.integers(1, 5)), max_size=7)


@given(places)
def test_as_many_places_as_any_choice_could_are_taken_together(chosen):
    def disjoint(group):
        ordered = sorted(group)
        return all(a.start + a.size <= b.start for a, b in pairwise(ordered))

    best = max(
        n
        for n in range(len(chosen) + 1)
        if any(disjoint(group) for group in combinations(chosen, n))
    )
    assert apart(chosen) == best


legal = [(name, start) for name, kind in KINDS.items() for start in kind[4]]


@given(st.permutations(legal), st.integers(0, 7))
def test_m_is_a_share_for_every_layout_that_can_be_made(order, tries):
    held: list[tuple[str, int]] = []
    for name, start in order[: tries * 2]:
        size = KINDS[name][3]
        slices = sum(KINDS[n][1] for n, _ in held) + KINDS[name][1]
        taken = [Place(s, KINDS[n][3]) for n, s in held]
        if slices <= 7 and free_places([Place(start, size)], taken):
            held.append((name, start))
    found = stranding(profiles(*held))
    assert found is not None
    assert 0 <= found <= 1
