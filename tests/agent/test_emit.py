"""The agent's log lines."""

import io
import json
import re

import pytest

from trimtab.agent.emit import Log, logfmt


def test_logfmt_lines_have_time_level_event_and_fields():
    out = io.StringIO()
    Log(stream=out).info("connected", collector="[::1]:7766", nothing=None)
    assert re.fullmatch(
        r"timestamp=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=info "
        r"event=connected collector=\[::1\]:7766\n",
        out.getvalue(),
    )


def test_json_lines_parse():
    out = io.StringIO()
    Log("json", stream=out).error("x", path="a b", n=3)
    line = json.loads(out.getvalue())
    assert (line["level"], line["event"], line["path"], line["n"]) == (
        "error",
        "x",
        "a b",
        3,
    )


def test_what_is_below_the_level_is_not_written():
    out = io.StringIO()
    log = Log(level="warning", stream=out)
    log.debug("a")
    log.info("b")
    log.warning("c")
    assert "event=c" in out.getvalue()
    assert out.getvalue().count("\n") == 1


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("two words", '"two words"'),
        ('say "x"', '"say \\"x\\""'),
        ("a=b", '"a=b"'),
        ("line\nbreak", '"line\\nbreak"'),  # one event stays one line
        ("\x1b[31mred", '"\\u001b[31mred"'),
        ("", '""'),
        (1.5, "1.5"),
    ],
)
def test_values_are_quoted_where_they_need_it(value, shown):
    assert logfmt({"k": value}) == f"k={shown}"
