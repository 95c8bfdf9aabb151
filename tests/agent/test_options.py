"""The command line of a plain start, read without argparse."""

import subprocess
import sys

import pytest

from trimtab.agent import commands, options


@pytest.mark.parametrize(
    "argv",
    [
        ["run"],
        ["run", "--mode", "edge"],
        ["run", "--mode=edge", "--collector", "a:1", "--name", "b"],
        ["run", "--config", "/etc/x.toml", "--procfs", "/p", "--sysfs=/s"],
        ["run", "--cgroup", "/a=b", "--state-dir", "/x", "--name", "a", "--name", "b"],
    ],
)
def test_a_plain_start_is_read_as_argparse_reads_it(argv):
    read = options.read(argv)
    args = vars(commands.parser().parse_args(argv))
    del args["command"]
    assert read == {name: value for name, value in args.items() if value is not None}


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["sample"],
        ["--version"],
        ["run", "--help"],
        ["run", "-h"],
        ["run", "--mode", "other"],
        ["run", "--mod", "edge"],  # an abbreviation
        ["run", "--name"],
        ["run", "--name", "--mode"],
        ["run", "edge"],
        ["run", "--collectors", "a:1"],
    ],
)
def test_all_else_is_left_to_argparse(argv):
    assert options.read(argv) is None


@pytest.mark.parametrize(
    ("argv", "status", "says"),
    [
        (["run", "--help"], 0, "watch this control group in place of the host"),
        (["run", "--mode", "other"], 2, "invalid choice: 'other'"),
        (["run", "--name"], 2, "expected one argument"),
        (["run", "--interval", "5"], 2, "unrecognized arguments: --interval 5"),
        (["run", "--name", "a b"], 2, "name = 'a b': expected 1 to 63 letters"),
        (["sample", "--count", "0"], 2, "expected a count from 1"),
    ],
)
def test_a_fault_in_the_command_line_is_explained(argv, status, says):
    done = subprocess.run(
        [sys.executable, "-m", "trimtab.agent", *argv],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    assert says in " ".join((done.stdout + done.stderr).split())


def test_each_option_is_a_setting():
    from trimtab.agent.settings import Settings

    settings = {option.setting for option in options.RUN} - {"config"}
    assert settings <= set(Settings._fields)
