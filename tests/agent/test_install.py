"""What an installation does to a host: the plan, and the plan carried out."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from trimtab.agent import installer, installing
from trimtab.agent.installing import (
    CONFIG,
    DROP_INS,
    GPU,
    ICMP,
    OWN_UNIT,
    STATE,
    TOKEN,
    UNIT,
    Asked,
    Found,
    Refused,
    Remove,
    Run,
    Write,
)
from trimtab.agent.settings import Address, Collectors, load

SHIPPED = {
    UNIT: "[Service]\nExecStart=/usr/bin/trimtab-agent run --config FILE\n",
    GPU: "gpu",
    ICMP: "icmp",
}
COMMAND = "/opt/trimtab/bin/trimtab-agent"
RUNNING = Found(COMMAND, systemctl=True, booted=True)
REPOSITORY = Path(__file__).resolve().parents[2]
SECRET = "tt_verysecret"  # what a token looks like


def install(asked=Asked(), found=RUNNING):  # noqa: B008 - frozen
    return installing.install(asked, found, SHIPPED)


def written(plan):
    return {step.path: step for step in plan.steps if isinstance(step, Write)}


def commands(plan):
    return [" ".join(step.argv[1:]) for step in plan.steps if isinstance(step, Run)]


def after(plan, found=RUNNING):
    """Return what is found once the plan is carried out."""
    files = dict(found.files) | {p: w.content for p, w in written(plan).items()}
    said = commands(plan)
    return found._replace(
        files=files,
        enabled=found.enabled or f"enable {UNIT}" in said,
        active=found.active or f"start {UNIT}" in said,
    )


def test_a_bare_host_gets_unit_config_and_token_and_a_running_service():
    plan = install(Asked(collector="c:7766", token=SECRET))
    assert {p: (w.mode, w.folder_mode) for p, w in written(plan).items()} == {
        OWN_UNIT: (0o644, 0o755),
        CONFIG: (0o644, 0o755),
        TOKEN: (0o600, 0o700),
    }
    assert f"ExecStart={COMMAND} run " in written(plan)[OWN_UNIT].content.decode()
    assert written(plan)[TOKEN].content == f"{SECRET}\n".encode()
    assert commands(plan) == ["daemon-reload", f"enable {UNIT}", f"start {UNIT}"]
    assert plan.left == ()


@pytest.mark.parametrize(
    "asked",
    [
        Asked(),
        Asked(collector="c:7766", name="n", mode="edge", token=SECRET, icmp=True),
        Asked(token=SECRET, start=False),
    ],
)
@pytest.mark.parametrize(
    "found",
    [
        RUNNING,
        RUNNING._replace(gpu=True),
        RUNNING._replace(packaged=True),
        RUNNING._replace(booted=False),
        Found(COMMAND),
    ],
)
def test_a_second_run_changes_nothing(asked, found):
    assert install(asked, after(install(asked, found), found)).steps == ()


def test_the_token_is_in_the_file_and_in_nothing_said():
    """A41."""
    plan = install(Asked(token=SECRET))
    said = [installing.says(step) for step in plan.steps]
    assert SECRET not in json.dumps([said, plan.already, plan.left])
    assert SECRET not in installing.as_json(plan, dry_run=False)
    assert not any(
        SECRET in word for s in plan.steps for word in getattr(s, "argv", ())
    )


@pytest.mark.parametrize(
    ("found", "config", "expected"),
    [
        (RUNNING, None, False),
        (RUNNING._replace(gpu=True), None, True),
        (RUNNING._replace(gpu=True), b"gpu = false\n", False),
        (RUNNING._replace(gpu=True), b'mode = "edge"\n', False),  # asks no GPU
    ],
)
def test_gpus_get_their_drop_in_where_they_are_asked(found, config, expected):
    files = {} if config is None else {CONFIG: config}
    plan = install(found=found._replace(files=files))
    assert (DROP_INS / GPU in written(plan)) == expected


def test_raw_icmp_is_given_only_when_asked_for():
    assert DROP_INS / ICMP not in written(install())
    assert DROP_INS / ICMP in written(install(Asked(icmp=True)))


def test_the_config_of_the_operator_is_never_overwritten():
    own = {CONFIG: b'collector = "c:7766"\nname = "mine"\n'}
    for asked in (Asked(), Asked(collector="c:7766"), Asked(name="mine")):
        plan = install(asked, RUNNING._replace(files=own))
        assert CONFIG not in written(plan)
    for asked in (Asked(collector="d:7766"), Asked(mode="edge")):
        with pytest.raises(Refused, match="never overwritten"):
            install(asked, RUNNING._replace(files=own))
    with pytest.raises(Refused, match="not TOML"):
        install(found=RUNNING._replace(files={CONFIG: b"= ="}))


def test_an_example_that_nobody_touched_takes_values():
    files = {CONFIG: installing.EXAMPLE.encode()}
    plan = install(Asked(collector="c:7766"), RUNNING._replace(files=files))
    assert b'\ncollector = "c:7766"\n' in written(plan)[CONFIG].content


def test_the_config_that_the_package_brings_takes_values():
    """It is there before anyone can have said anything."""
    there = (REPOSITORY / "packaging/deb/trimtab-agent/agent.toml").read_text()
    found = RUNNING._replace(packaged=True, files={CONFIG: there.encode()})
    assert CONFIG not in written(install(found=found))

    asked = Asked(collector="c:7766", name="n")
    plan = install(asked, found)
    expected = there.replace('#collector = "127.0.0.1:7766"', 'collector = "c:7766"')
    expected = expected.replace('#name = "node-1"', 'name = "n"')
    assert written(plan)[CONFIG].content.decode() == expected
    assert tomllib.loads(expected) == {"collector": "c:7766", "name": "n"}
    assert install(asked, after(plan, found)).steps == ()
    with pytest.raises(Refused, match="never overwritten"):
        install(Asked(collector="d:7766"), after(plan, found))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("", 'name = "n"\n'),
        ("# ours", '# ours\nname = "n"\n'),  # no newline at its end
        ('# name = "x"  # short\n', 'name = "n"  # short\n'),
        ('#name = "x"\r\n#\r\n', 'name = "n"\r\n#\r\n'),
        # What only talks of the key stays.
        ("# name = what DNS says\n", '# name = what DNS says\nname = "n"\n'),
        ('# name = "a" or "b"\n', '# name = "a" or "b"\nname = "n"\n'),
        ('#surname = "x"\n', '#surname = "x"\nname = "n"\n'),
    ],
)
def test_a_value_takes_the_place_of_its_comment_or_comes_last(config, expected):
    assert installing.filled(config, {"name": "n"}) == expected
    assert tomllib.loads(expected) == {"name": "n"}


def test_the_example_is_a_config_with_each_value_given_and_no_other(tmp_path):
    config = tmp_path / "agent.toml"
    config.write_text(installing.EXAMPLE)
    bare = load(config, {}, {})
    assert bare == load(None, {}, {})
    given = {"collector": "[::1]:1", "mode": "edge"}
    config.write_text(installing.filled(installing.EXAMPLE, given))
    collector = Collectors((Address(("::1", 1)),))
    assert load(config, {}, {}) == bare._replace(collector=collector, mode="edge")
    # And what is only a comment would be taken, too.
    lines = installing.EXAMPLE.splitlines()
    loose = [line[2:] for line in lines if line.startswith("# ") and " = " in line]
    config.write_text("\n".join(loose).replace("`systemctl", ""))
    assert load(config, {}, {}).labels == {"rack": "r7"}


def test_a_package_s_unit_is_not_hidden_by_a_copy():
    plan = install(found=RUNNING._replace(packaged=True))
    assert OWN_UNIT not in written(plan)
    assert commands(plan) == [f"enable {UNIT}", f"start {UNIT}"]


@pytest.mark.parametrize(
    ("found", "asked", "expected", "left"),
    [
        (Found(COMMAND), Asked(token=SECRET), [], "no systemctl"),
        (
            RUNNING._replace(booted=False),
            Asked(token=SECRET),
            [f"enable {UNIT}"],
            "next boot",
        ),
        (
            RUNNING,
            Asked(token=SECRET, start=False),
            ["daemon-reload", f"enable {UNIT}"],
            f"systemctl start {UNIT}",
        ),
        (
            RUNNING._replace(active=True, enabled=True),
            Asked(),
            ["daemon-reload", f"restart {UNIT}"],
            "--token-file -",
        ),
    ],
)
def test_what_it_can_not_or_may_not_do_is_left_and_said(found, asked, expected, left):
    plan = install(asked, found)
    assert commands(plan) == expected
    assert len(plan.left) == 1
    assert left in plan.left[0]


def test_a_unit_that_systemd_has_not_read_is_read_again():
    settled = after(install())
    assert install(found=settled).steps == ()
    plan = install(found=settled._replace(outdated=True))
    assert commands(plan) == ["daemon-reload"]


ALL = frozenset((*installing.LOOKED_AT, DROP_INS, *STATE))
UP = RUNNING._replace(enabled=True, active=True)


def test_uninstalling_keeps_what_is_the_operator_s_or_the_node_s():
    plan = installing.uninstall(UP, ALL, purge=False)
    removed = {s.path for s in plan.steps if isinstance(s, Remove)}
    assert not removed & {CONFIG, TOKEN, *STATE}
    assert {OWN_UNIT, DROP_INS / GPU, DROP_INS / ICMP} < removed
    assert commands(plan) == [f"stop {UNIT}", f"disable {UNIT}", "daemon-reload"]
    assert plan.steps[0] == Run(("systemctl", "stop", UNIT))
    assert len(plan.left) == 4


def test_purging_keeps_nothing_and_a_second_time_has_nothing_to_do():
    plan = installing.uninstall(UP, ALL, purge=True)
    removed = {s.path for s in plan.steps if isinstance(s, Remove)}
    assert removed >= ALL
    assert plan.left == ()
    gone = installing.uninstall(RUNNING, frozenset(), purge=True)
    assert gone.steps == ()


# Carried out, below a root of the test's own.


def command(*argv, stdin="", root):
    return subprocess.run(
        [sys.executable, "-m", "trimtab.agent", *argv, "--root", str(root)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )


def tree(root):
    """Return the modes of the files and links below a folder."""
    return {
        "/" + str(path.relative_to(root)): path.lstat().st_mode & 0o777
        for path in root.rglob("*")
        if path.is_file() or path.is_symlink()
    }


ASKED = ("--collector", "c:7766", "--token-file", "-")


def test_a_root_is_filled_and_emptied(tmp_path):
    """A41: the token comes by standard input and is readable to root alone."""
    done = command("install", *ASKED, stdin=f"{SECRET}\n", root=tmp_path)
    assert (done.stderr, done.returncode) == ("", 0)
    assert SECRET not in done.stdout
    modes = tree(tmp_path)
    assert modes[str(TOKEN)] == 0o600
    assert (tmp_path / "etc/credstore").stat().st_mode & 0o777 == 0o700
    assert modes[str(CONFIG)] == modes[str(OWN_UNIT)] == 0o644
    assert (tmp_path / "etc/credstore" / TOKEN.name).read_text() == f"{SECRET}\n"

    again = command("install", *ASKED, stdin=f"{SECRET}\n", root=tmp_path)
    assert "Nothing to change." in again.stdout
    assert tree(tmp_path) == modes

    gone = command("uninstall", root=tmp_path)
    assert gone.returncode == 0
    assert set(tree(tmp_path)) == {str(CONFIG), str(TOKEN)}
    command("uninstall", "--purge", root=tmp_path)
    assert tree(tmp_path) == {}
    assert "nothing of trimtab-agent" in command("uninstall", root=tmp_path).stdout


@pytest.fixture
def image(tmp_path):
    """Return an empty root, beside a folder that stands for the host's."""
    (tmp_path / "host").mkdir()
    root = tmp_path / "image"
    root.mkdir()
    return root


def test_a_token_is_not_written_through_a_link_out_of_the_root(image):
    (image / "etc").mkdir()
    link = image / "etc/credstore"
    host = image.with_name("host")
    link.symlink_to(host)
    for dry in ((), ("--dry-run",)):
        done = command("install", *ASKED, *dry, stdin=f"{SECRET}\n", root=image)
        assert done.returncode == 2
        assert f"{link} is a link to {host}" in done.stderr
        assert list(host.iterdir()) == []
        assert set(tree(image)) == {"/etc/credstore"}  # nothing else either


def test_nothing_is_purged_through_a_link_out_of_the_root(image):
    host = image.with_name("host")
    kept = host / STATE[0].name / "identity"
    kept.parent.mkdir()
    kept.touch()
    (image / "var").mkdir()
    link = image / "var/lib"
    link.symlink_to(host)
    assert command("install", *ASKED, stdin=SECRET, root=image).returncode == 0
    before = tree(image)
    done = command("uninstall", "--purge", root=image)
    assert done.returncode == 2
    assert f"{link} is a link to {host}" in done.stderr
    assert kept.exists()
    assert tree(image) == before
    # Without --purge nothing behind the link is to be removed.
    assert command("uninstall", root=image).returncode == 0
    assert kept.exists()


def test_a_link_that_stays_in_the_root_is_followed(image):
    (image / "etc").mkdir()
    (image / "secrets").mkdir()
    (image / "etc/credstore").symlink_to("../secrets")
    through = image.with_name("link")  # to the root itself
    through.symlink_to(image)
    done = command("install", *ASKED, stdin=SECRET, root=through)
    assert (done.stderr, done.returncode) == ("", 0)
    assert (image / "secrets" / TOKEN.name).exists()


def test_a_masked_service_stays_masked(image):
    unit = image / OWN_UNIT.relative_to("/")
    unit.parent.mkdir(parents=True)
    unit.symlink_to("/dev/null")
    done = command("install", *ASKED, stdin=SECRET, root=image)
    assert done.returncode == 2
    assert "`systemctl unmask trimtab-agent`" in done.stderr
    assert unit.readlink() == Path("/dev/null")
    assert set(tree(image)) == {str(OWN_UNIT)}


def test_a_dry_run_says_it_as_json_and_does_nothing(tmp_path):
    argv = ("install", *ASKED, "--dry-run", "--json")
    done = command(*argv, stdin=SECRET, root=tmp_path)
    document = json.loads(done.stdout)
    assert document["dry_run"]
    assert document["changed"]
    paths = [s["path"] for s in document["steps"] if s["does"] == "write"]
    assert paths == [str(OWN_UNIT), str(CONFIG), str(TOKEN)]
    assert SECRET not in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "stdin", "says"),
    [
        (("--collector", "nonsense"), "", "HOST:PORT"),
        (("--token-file", "-"), "two\nlines\n", "one line"),
        (("--token-file", "-"), "", "one line"),
        (("--token-file", "/nowhere/token"), "", "can't be read"),
    ],
)
def test_what_can_not_be_meant_is_refused_before_anything_is_written(
    tmp_path, argv, stdin, says
):
    done = command("install", *argv, stdin=stdin, root=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_token_file_that_others_may_read_is_refused(tmp_path):
    """A41."""
    token = tmp_path / "token"
    token.write_text(SECRET)
    token.chmod(0o644)
    root = tmp_path / "root"
    done = command("install", "--token-file", str(token), root=root)
    assert done.returncode == 2
    assert "0600" in done.stderr


def test_without_root_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    status = installer.uninstall(
        Path("/"), sys.stdout, purge=False, dry_run=False, as_json=False
    )
    assert status == 2
    assert "as root" in capsys.readouterr().err


def test_a_command_that_the_service_can_not_reach_is_named(tmp_path):
    """The unit hides homes and /tmp, and runs as a user of its own."""
    assert installer.unreachable(Path("/usr/bin/env").resolve()) is None
    hidden = installer.unreachable(Path("/home/me/.venv/bin/trimtab-agent"))
    assert hidden is not None
    assert "/home" in hidden


def test_the_unit_runs_the_command_that_installs_it():
    env = Path("/usr/bin/env")  # stands for one that every user may run
    assert installer.command(Path("/"), env) == str(env.resolve())
    assert installer.command(Path("/image"), env) == "/usr/bin/trimtab-agent"
    with pytest.raises(installer.CannotInstall, match="/opt/trimtab"):
        installer.command(Path("/"), env, Path("/home/me/.venv/bin/python"))


def test_the_command_s_folders_must_be_open_to_all(tmp_path, monkeypatch):
    monkeypatch.setattr(installer, "HIDDEN", ())
    script = tmp_path / "bin" / "trimtab-agent"
    script.parent.mkdir()
    script.touch(0o755)
    script.chmod(0o755)
    # pytest's own folders are its user's alone: the outermost of those is named.
    closed = [p for p in script.parents if not p.stat().st_mode & 0o001]
    assert closed
    assert installer.unreachable(script) == (
        f"is in {closed[-1]}, which other users may not enter"
    )


def test_what_is_shipped_has_the_unit_and_each_drop_in():
    shipped = installer._shipped()
    assert {UNIT, GPU, ICMP} < set(shipped)
    changed = installing.unit(shipped[UNIT], COMMAND)
    assert f"ExecStart={COMMAND} run --config /etc/trimtab/agent.toml\n" in changed
