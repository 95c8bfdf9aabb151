"""A fleet from JSON: every problem at once."""

import pytest

from trimtab.balancer.plan import BadFleet, parse_fleet


def test_every_problem_is_told_with_its_place_and_what_is_allowed() -> None:
    document = {
        "at_s": 0,
        "step_s": 0,
        "nodes": [
            {"node": "n", "places": 1.5, "groups": "rack"},
            {"node": "m", "places": 1, "holds": ["a", "b"], "usable": 1},
            {"node": "m", "places": 1},
            "o",
        ],
        "items": [
            {"item": "", "load_s": -1, "service_s": 0, "slots": 0, "rates": [1, -1]},
            {"item": "a", "load_s": True, "service_s": 1, "slots": 1},
        ],
    }
    with pytest.raises(BadFleet) as caught:
        parse_fleet(document)
    assert caught.value.problems == (
        "step_s: 0, but it must be a number above 0",
        "nodes[0].places: 1.5, but it must be a whole number, 0 or more",
        "nodes[0].groups: 'rack', but it must be a list",
        "nodes[1].usable: 1, but it must be true or false",
        "nodes[1].places: 1, but it must be room for what it holds and loads",
        "nodes[3]: 'o', but it must be an object",
        "nodes[3].node: None, but it must be a name",
        "nodes[3].places: None, but it must be a whole number, 0 or more",
        "items[0].item: '', but it must be a name",
        "items[0].load_s: -1, but it must be a number, 0 or more",
        "items[0].service_s: 0, but it must be a number above 0",
        "items[0].slots: 0, but it must be a whole number, 1 or more",
        "items[0].rates[1]: -1, but it must be a number, 0 or more",
        "items[1].load_s: True, but it must be a number, 0 or more",
        "nodes: 'm' is there more than once",
    )


@pytest.mark.parametrize("document", [None, [], "x", 3])
def test_what_is_no_object_is_no_fleet(document: object) -> None:
    with pytest.raises(BadFleet, match="the document"):
        parse_fleet(document)


def test_numbers_that_json_has_not_are_refused() -> None:
    document = {"at_s": float("nan"), "step_s": 1, "nodes": [], "items": []}
    with pytest.raises(BadFleet, match="at_s: nan"):
        parse_fleet(document)
