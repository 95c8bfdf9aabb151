"""The command, against a real collector: words out, statuses, and all that fails."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from trimtab.wire import VERSION, Hello, Inventory, encode

from ..client.conftest import Collector, Secure, Stray, free_ports
from .conftest import Run

COMMAND = [sys.executable, "-m", "trimtab.console.cli"]


def test_nodes_lists_the_host_and_counts_states(trimtab: Run) -> None:
    ran = trimtab("nodes")
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert lines[0].split()[:4] == ["node", "state", "score", "limiting"]
    row = next(line.split() for line in lines if line.startswith("host-one"))
    assert re.fullmatch(r"[01]\.\d\d", row[2])
    assert re.search(r"^\d+ nodes?: .*\.$", lines[-1])
    assert "\x1b" not in ran.out


def test_node_tells_all_that_is_known(trimtab: Run) -> None:
    ran = trimtab("node", "host-one")
    assert ran.status == 0
    titles = [
        line.split(" (")[0].split(",")[0]
        for line in ran.out.split("\n\n")
        for line in line.splitlines()[:1]
    ]
    assert [t for t in titles[1:] if t != "holes"] == [
        "headroom",
        "score",
        "signals",
        "links",
        "about",
    ]
    assert re.search(r"cpu +[01]\.\d\d +[█▏▎▍▌▋▊▉·]{20}", ran.out)
    assert re.search(r"gpu +– +no reading", ran.out)
    assert re.search(r"[▁▂▃▄▅▆▇█·]{30}", ran.out)
    assert re.search(r"memory\.available +\d+\.\d %", ran.out)


def test_a_decision_is_explained_now_and_again(trimtab: Run) -> None:
    ran = trimtab("route", "class=batch", "cpu=0.1", "avoid=other,another")
    assert ran.status == 0
    assert ran.out.startswith("-> host-one\nhost-one ")
    assert "task class=batch cpu=0.1 avoid=other,another" in ran.out
    found = re.search(r"decision ([0-9a-f]{16})", ran.out)
    assert found is not None
    assert trimtab("explain", found[1]) == ran


def test_a_task_comes_from_a_file_too(trimtab: Run, tmp_path: Path) -> None:
    path = tmp_path / "task.json"
    path.write_text('{"class": "training"}')
    assert "task class=training" in trimtab("route", "--task", str(path)).out


def test_no_fit_says_what_was_missed_and_is_1(trimtab: Run) -> None:
    ran = trimtab("route", "labels.gpu=a100")
    assert (ran.status, ran.err) == (1, "")
    assert ran.out.startswith("No node fits: ")
    assert "are not labelled gpu=a100: " in ran.out


@pytest.mark.parametrize(
    ("argv", "keys"),
    [
        (["nodes"], {"nodes", "next"}),
        (["node", "host-one"], {"node", "headroom", "links"}),
        (["route"], {"decision", "node", "why"}),
    ],
)
def test_json_is_the_apis_own(trimtab: Run, argv: list[str], keys: set[str]) -> None:
    ran = trimtab(*argv, "--json")
    assert ran.status == 0
    assert keys <= json.loads(ran.out).keys()


def test_no_fit_and_not_found_are_json_too(trimtab: Run) -> None:
    no_fit = trimtab("route", "labels.a=b", "--json")
    assert no_fit.status == 1
    assert json.loads(no_fit.out)["type"] == "urn:trimtab:no-fit"
    gone = trimtab("--json", "node", "nobody")
    assert gone.status == 1
    assert json.loads(gone.out)["status"] == 404
    assert "no node has the name or id 'nobody'" in gone.err


@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        (["node", "nobody"], 1, "404 Not Found: no node has the name or id"),
        (["explain", "feed"], 1, "no decision 'feed' is remembered"),
        (["node", "\x1b[2J"], 1, "no node"),
        (["route", "gpu=1"], 2, "did you mean 'gpus'"),
        (["route", "memory_mib=2G"], 2, "expected MiB"),
        (["route", "cpu"], 2, "expected KEY=VALUE"),
        (["route", "cpu=1", "--task", "-"], 2, "not both"),
        (["route", "--task", "/nowhere.json"], 2, "can't be read: No such file"),
        (["nodes", "--token-file", "/nowhere"], 2, "can't be read: No such file"),
        (["nodes", "--url", "ftp://x"], 2, "--url or TRIMTAB_URL: expected http"),
        (["nodes", "--url", "http://127.0.0.1:1"], 2, "no collector answers at"),
        (["nodes", "--url", "nowhere.invalid"], 2, "has no address: check it"),
        (["nodes", "--cacert", "/nowhere"], 2, "--cacert or TRIMTAB_CA: '/nowhere'"),
        (["nodes", "--cacert", ""], 2, "--cacert or TRIMTAB_CA: ''"),
        (["frobnicate"], 2, "invalid choice"),
        (["nodes", "\x1b[2J"], 2, "unrecognized arguments: \\x1b[2J"),
        ([], 2, "required: COMMAND; try 'trimtab --help'"),
        (["node"], 2, "required: NODE; try 'trimtab node --help'"),
    ],
)
def test_what_fails_says_so_in_a_line(
    trimtab: Run, argv: list[str], status: int, said: str
) -> None:
    ran = trimtab(*argv)
    assert (ran.status, ran.out) == (status, "")
    assert said in ran.err
    assert all(ch.isprintable() or ch == "\n" for ch in ran.err)


def test_a_wrong_server_is_2_and_its_words_are_harmless(
    trimtab: Run, stray: Callable[..., Stray]
) -> None:
    html = stray(200, "text/html", "<html>")
    ran = trimtab("nodes", "--url", html.url)
    assert ran.status == 2
    assert "no trimtab collector answers there" in ran.err
    evil = json.dumps({"type": "x", "detail": "\x1b[31m[red]boo\n\u202e"})
    ran = trimtab("nodes", "--url", stray(500, "application/problem+json", evil).url)
    assert ran.status == 2
    assert ran.err.endswith("500 Internal Server Error: \\x1b[31m[red]boo\\n\\u202e\n")


def test_a_token_comes_from_the_environment_or_a_file(
    trimtab: Run,
    closed: tuple[Collector, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collector, token = closed
    refused = trimtab("nodes", "--url", collector.url)
    assert refused.status == 2
    assert "401 Unauthorized: no token was given: a bearer token of scope read" in (
        refused.err
    )
    assert "TRIMTAB_TOKEN or by --token-file" in refused.err
    path = tmp_path / "token"
    path.write_text(f"{token}\n")
    by_file = trimtab("nodes", "--url", collector.url, "--token-file", str(path))
    assert by_file.status == 0
    assert "No node has reported yet" in by_file.out
    monkeypatch.setenv("TRIMTAB_TOKEN", token)
    assert trimtab("--url", collector.url, "nodes").status == 0
    monkeypatch.setenv("TRIMTAB_TOKEN", "wrong-one")
    wrong = trimtab("nodes", "--url", collector.url)
    assert wrong.status == 2
    assert "is not known there" in wrong.err
    assert "wrong-one" not in wrong.out + wrong.err


def test_a_private_authority_comes_from_the_environment_or_an_option(
    trimtab: Run, secure: Secure, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, cert = secure.collector.url, str(secure.certificate.cert)
    refused = trimtab("nodes", "--url", url)
    assert refused.status == 2
    assert "by --cacert, TRIMTAB_CA or SSL_CERT_FILE" in refused.err
    assert trimtab("nodes", "--url", url, "--cacert", cert).status == 0
    monkeypatch.setenv("TRIMTAB_CA", cert)
    assert trimtab("--url", url, "nodes").status == 0


def test_the_version_comes_with_the_programs_name(trimtab: Run) -> None:
    assert trimtab("--version") == (0, f"trimtab {VERSION}\n", "")


def test_help_tells_statuses_order_and_examples(trimtab: Run) -> None:
    assert "exit status:" in trimtab("--help").out
    assert "examples:" in trimtab("--help").out
    assert "worst first" in trimtab("--help").out
    assert "one to look at first on top" in trimtab("nodes", "--help").out
    assert "lease" in trimtab("route", "--help").out


def test_labels_that_look_like_markup_are_shown_as_they_are(
    trimtab: Run, closed: tuple[Collector, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    collector, _ = closed
    hello = Hello(
        node_id=b"n" * 16,
        boot_id=b"b" * 16,
        name="evil",
        key=b"k" * 32,
        token=collector.token("agent"),
        # What can't be printed the collector refuses; markup can be.
        inventory=Inventory(labels={"[red]": "[/] :smile:"}, site="[blink]"),
    )
    monkeypatch.setenv("TRIMTAB_TOKEN", collector.token("admin"))
    post = post_frames(collector, encode(hello))
    shown = trimtab("node", "evil", "--url", collector.url)
    assert post == 200
    assert shown.status == 0
    assert "[red]=[/] :smile:" in shown.out
    assert "[blink]" in trimtab("nodes", "--url", collector.url).out


def post_frames(collector: Collector, body: bytes) -> int:
    import urllib3

    headers = {"Content-Type": "application/msgpack"}
    url = f"{collector.url}/v1/frames"
    deadline = urllib3.Retry(total=20, status_forcelist=[401], backoff_factor=0.2)
    return urllib3.request(
        "POST",
        url,
        body=body,
        headers=headers,
        retries=deadline.new(allowed_methods=None, raise_on_status=False),
    ).status


def on_terminal(argv: list[str], columns: int, **environment: str) -> str:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    plain = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
    with subprocess.Popen(
        [*COMMAND, *argv],
        stdin=theirs,
        stdout=theirs,
        env=plain | {"TERM": "xterm-256color"} | environment,
    ):
        os.close(theirs)
        read = b""
        while True:
            try:
                read += os.read(ours, 65_536)
            except OSError:  # EIO: the other side is closed
                break
    os.close(ours)
    return read.decode()


@pytest.mark.parametrize("columns", [60, 100])
def test_a_terminal_gets_colour_within_its_width(
    collector: Collector, columns: int
) -> None:
    text = on_terminal(["nodes", "--url", collector.url], columns)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert text != plain
    assert max(len(line) for line in plain.splitlines()) <= columns
    assert ("network" in plain) == (columns == 100)


def test_no_color_is_honoured(collector: Collector) -> None:
    argv = ["node", "host-one", "--url", collector.url]
    text = on_terminal(argv, 80, NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3\d", text)
    assert "host-one" in text


def test_a_reader_that_has_seen_enough_is_no_error(collector: Collector) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(
        [*COMMAND, "nodes", "--url", collector.url],
        check=False,
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize(
    "argv",
    [
        ["nodes"],
        ["nodes", "--json"],
        ["node", "host-one"],
        ["node", "nobody", "--json"],  # a problem document is output too
        ["--help"],
        ["--version"],
    ],
)
def test_output_that_finds_no_room_is_told_in_a_line_and_is_2(
    collector: Collector, argv: list[str]
) -> None:
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [*COMMAND, *argv],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TRIMTAB_URL": collector.url},
        )
    said = "trimtab: the answer can't be written: No space left on device\n"
    assert (ran.returncode, ran.stderr) == (2, said)


def test_so_is_output_that_is_closed() -> None:
    ran = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "nodes"],
        check=False,
        stderr=subprocess.PIPE,
        text=True,
    )
    said = "trimtab: standard output is closed\n"
    assert (ran.returncode, ran.stderr) == (2, said)


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
def test_an_error_that_can_not_be_told_is_2_all_the_same(where: str) -> None:
    ran = subprocess.run(
        ["sh", "-c", f'exec "$@" {where}', "sh", *COMMAND, "frobnicate"],
        check=False,
        stdout=subprocess.PIPE,
    )
    assert (ran.returncode, ran.stdout) == (2, b"")


def test_a_locale_without_bars_gets_marks_instead(collector: Collector) -> None:
    ran = subprocess.run(
        [*COMMAND, "node", "host-one", "--url", collector.url],
        check=True,
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )
    assert b"host-one" in ran.stdout


def test_where_nobody_listens_it_says_how_to_start_one(trimtab: Run) -> None:
    (port,) = free_ports(1)
    ran = trimtab("nodes", "--url", f"127.0.0.1:{port}")
    assert ran.status == 2
    assert "start one with 'trimtab-collector run', or set --url" in ran.err
