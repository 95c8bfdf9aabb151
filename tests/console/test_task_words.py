"""A task as words."""

from pathlib import Path
from typing import Any

import pytest

from trimtab.console.task_words import BadWords, parse_words, read_task


@pytest.mark.parametrize(
    ("words", "task"),
    [
        ("", {}),
        ("class=batch memory_mib=2000", {"class": "batch", "memory_mib": 2000}),
        ("cpu=0.5 data_mib=1e3", {"cpu": 0.5, "data_mib": 1000.0}),
        ("labels.gpu=a100 labels.n=1", {"labels": {"gpu": "a100", "n": "1"}}),
        ("avoid=n1,n2 avoid=n3", {"avoid": ["n1", "n2", "n3"]}),
        ("failover_from=7 sticky=12 from=1", None),  # texts that look like numbers
        ("memory_mib=2G", {"memory_mib": "2G"}),  # the collector says what is wrong
        ("gpus=nan", {"gpus": "nan"}),
        ("sticky=a=b", {"sticky": "a=b"}),
    ],
)
def test_words_become_the_tasks_json(words: str, task: dict[str, Any] | None) -> None:
    if task is None:
        task = {"failover_from": "7", "sticky": "12", "from": "1"}
    assert parse_words(words.split()) == task


@pytest.mark.parametrize("words", ["cpu", "=4", "cpu=1 cpu=2", "labels.a=1 labels.a=2"])
def test_words_without_a_task_in_them_are_refused(words: str) -> None:
    with pytest.raises(BadWords):
        parse_words(words.split())


@pytest.mark.parametrize("text", ["", "[]", "{", "7", "\ud800"])
def test_a_file_without_a_task_in_it_is_refused_by_name(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "task.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(BadWords, match=r"task\.json: expected"):
        read_task(str(path))
    with pytest.raises(BadWords, match="can't be read: No such file"):
        read_task(str(tmp_path / "gone"))
