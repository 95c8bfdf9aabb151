import json
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer import BadTask, Task, parse_task

FULL = {
    "class": "batch",
    "latency_budget_ms": 100.0,
    "from": "berlin",
    "cpu": 2.0,
    "memory_mib": 512.0,
    "gpus": 1,
    "gpu_memory_mib": 8000.0,
    "data": ["model-a"],
    "data_mib": 10.0,
    "egress_mib": 5.0,
    "duration_s": 3.5,
    "labels": {"zone": "a"},
    "sticky": "user-7",
    "avoid": ["rack1"],
    "failover_from": "alpha",
}
NUMBERS = (
    "latency_budget_ms",
    "cpu",
    "memory_mib",
    "gpus",
    "gpu_memory_mib",
    "data_mib",
    "egress_mib",
    "duration_s",
)


def test_every_field_is_read_and_written_back() -> None:
    assert parse_task(FULL).to_json() == FULL


def test_nothing_asked_for_is_an_interactive_task() -> None:
    assert parse_task({}) == parse_task({"cpu": None}) == Task()
    assert Task().to_json() == {"class": "interactive"}


def test_every_problem_is_reported_at_once() -> None:
    with pytest.raises(BadTask) as caught:
        parse_task({"memroy_mib": 1, "cpu": -1, "class": "urgent", "gpus": 1.5})
    problems = {problem.field: problem for problem in caught.value.problems}
    assert set(problems) == {"memroy_mib", "cpu", "class", "gpus"}
    assert "did you mean 'memory_mib'?" in problems["memroy_mib"].expected
    assert "interactive, streaming, batch, training" in problems["class"].expected
    assert problems["cpu"].value == "-1"


@pytest.mark.parametrize("field", NUMBERS)
@pytest.mark.parametrize(
    "value", [nan, inf, -inf, -1, True, "1", [], 10**400, 1e300], ids=repr
)
def test_what_is_no_sane_number_is_refused(field: str, value: object) -> None:
    with pytest.raises(BadTask) as caught:
        parse_task({field: value})
    (problem,) = caught.value.problems
    assert problem.field == field
    assert len(problem.value) <= 60


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("latency_budget_ms", 0),
        ("duration_s", 0),
        ("labels", {"zone": 1}),
        ("labels", ["zone"]),
        ("avoid", "rack1"),  # a text is no array of its letters
        ("avoid", [""]),
        ("data", [1]),
        ("from", ""),
        ("sticky", "x" * 256),
        ("class", ["batch"]),
    ],
)
def test_values_of_the_wrong_kind_are_refused(field: str, value: object) -> None:
    with pytest.raises(BadTask, match=field):
        parse_task({field: value})


@pytest.mark.parametrize("value", [None, [], "task", 1])
def test_only_an_object_is_a_task(value: object) -> None:
    with pytest.raises(BadTask, match="an object"):
        parse_task(value)


def test_the_report_on_a_hostile_object_stays_short() -> None:
    with pytest.raises(BadTask) as caught:
        parse_task({f"field{i}" * 30: i for i in range(1000)})
    assert len(str(caught.value)) < 20_000


@given(
    st.dictionaries(
        st.sampled_from(sorted(FULL)) | st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=5,
        ),
    )
)
def test_any_object_is_a_task_or_a_list_of_problems(obj: dict[str, object]) -> None:
    try:
        task = parse_task(obj)
    except BadTask:
        return
    json.dumps(task.to_json(), allow_nan=False)
    assert parse_task(task.to_json()) == task
