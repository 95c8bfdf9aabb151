"""MIG stranding, M: places for instances that fragmentation has taken.

Instances start at fixed slices, so free slices may hold none. For a profile,
M = 1 - r / ideal, with r the instances that still fit and ideal those that
would, were the free slices together: the least of the profile's count, the
free memory slices over its size and the free compute slices over its own.
0 where ideal is 0: shortage is not fragmentation.
"""

from collections.abc import Sequence

from .readings import Place, Profile


def stranding(profiles: Sequence[Profile]) -> float | None:
    """Return the worst profile's M, 0..1; None without profiles."""
    if not profiles:
        return None
    taken = [place for profile in profiles for place in profile.used]
    ends = [p.start + p.size for profile in profiles for p in profile.places]
    free_memory = max(ends, default=0) - sum(place.size for place in taken)
    free_compute = max(p.slices for p in profiles) - sum(
        p.slices * len(p.used) for p in profiles
    )
    return max(_lost(p, taken, free_memory, free_compute) for p in profiles)


def _lost(
    profile: Profile, taken: Sequence[Place], free_memory: int, free_compute: int
) -> float:
    if not profile.places or not profile.slices:
        return 0.0
    size = profile.places[0].size
    ideal = min(profile.most, free_memory // size, free_compute // profile.slices)
    if ideal <= 0:
        return 0.0
    fits = profile.remaining
    if fits is None:
        fits = apart(free_places(profile.places, taken))
    return max(0.0, 1 - fits / ideal)


def free_places(legal: Sequence[Place], taken: Sequence[Place]) -> list[Place]:
    """Return the legal places that no instance overlaps."""
    return [
        place
        for place in legal
        if not any(
            place.start < t.start + t.size and t.start < place.start + place.size
            for t in taken
        )
    ]


def apart(places: Sequence[Place]) -> int:
    """Return how many of the places can be taken together, at most.

    Taking the one that ends first is best (interval scheduling).
    """
    count = end = 0
    for place in sorted(places, key=lambda p: p.start + p.size):
        if place.start >= end:
            count += 1
            end = place.start + place.size
    return count
