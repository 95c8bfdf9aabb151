"""agent.toml, the environment and flags, with every problem at once."""

import pytest

from trimtab.agent.settings import (
    Address,
    BadSettings,
    Settings,
    default_state_dir,
    load,
    parse_address,
)


def write(tmp_path, text):
    path = tmp_path / "agent.toml"
    path.write_text(text)
    return path


def test_defaults_dial_this_host():
    settings = load(None, {}, {})
    assert settings.collector == (Address(("127.0.0.1", 7766)),)
    assert str(settings.collector) == "127.0.0.1:7766"
    assert settings.interval_s == 1.0


def test_flags_override_the_environment_and_that_the_file(tmp_path):
    path = write(tmp_path, 'name = "file"\nsite = "file"\nzone = "file"\n')
    environment = {"TRIMTAB_NAME": "env", "TRIMTAB_SITE": "env", "TRIMTAB_URL": "x"}
    settings = load(path, environment, {"name": "flag", "site": None})
    assert (settings.name, settings.site, settings.zone) == ("flag", "env", "file")


def test_lists_and_tables_come_from_the_environment_as_json():
    settings = load(
        None,
        {
            "TRIMTAB_TARGETS": '["10.0.0.1", "[::1]:22"]',
            "TRIMTAB_LABELS": '{"gpu": "a100"}',
            "TRIMTAB_INTERVAL_S": "0.5",
            "TRIMTAB_TLS": "true",
            "TRIMTAB_NAME": "123",
        },
        {},
    )
    assert settings.targets == ("10.0.0.1", "[::1]:22")
    assert settings.labels == {"gpu": "a100"}
    assert settings.interval_s == 0.5
    assert settings.tls is True
    assert settings.name == "123"  # text stays text


def test_every_problem_is_reported_at_once(tmp_path):
    path = write(
        tmp_path,
        'colector = "x"\ninterval_s = 0\nname = "a b"\ntargets = ["x y"]\n'
        'labels = {a = 1}\nspeed = nan\nslots = true\ncollector = "::1:7766"\n',
    )
    with pytest.raises(BadSettings) as caught:
        load(path, {"TRIMTAB_RING_KIB": "1"}, {"state_dir": ""})
    text = str(caught.value)
    for part in (
        "colector: no such setting; did you mean collector?",
        "interval_s = 0: expected a number 0.05 to 3600",
        "name = 'a b'",
        "targets = ['x y']",
        "labels = {'a': 1}",
        "speed = nan",
        "slots = True",
        "collector = '::1:7766': expected HOST:PORT",
        "TRIMTAB_RING_KIB: ring_kib = 1: expected an integer 16 to",
        "--state_dir",
    ):
        assert part in text, part
    assert len(caught.value.problems) == 10


@pytest.mark.parametrize(
    ("text", "says"), [("a = [", "is not TOML"), (None, "be read")]
)
def test_a_file_that_is_no_config_says_why(tmp_path, text, says):
    path = tmp_path / "agent.toml" if text is None else write(tmp_path, text)
    with pytest.raises(BadSettings, match=says):
        load(path, {}, {})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        "host:",
        ":1",
        "host:0",
        "host:65536",
        "::1:1",
        "h:x",
        "[h]x:1",
        7,
        None,
    ],
)
def test_what_is_no_address(text):
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_address(text)


def test_state_goes_where_systemd_says_first(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    given = {"STATE_DIRECTORY": "/var/lib/a:/var/lib/b", "XDG_STATE_HOME": "/x"}
    assert default_state_dir(given) == "/var/lib/a"
    assert default_state_dir({"XDG_STATE_HOME": "/x"}) == "/x/trimtab"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert default_state_dir({}) == "/var/lib/trimtab"


def test_what_the_operator_says_of_a_node_goes_into_its_inventory():
    inventory = Settings(site="s", groups=("fibre-7",), slots=4, price=0.5).inventory()
    assert inventory.site == "s"
    assert inventory.groups == ("fibre-7",)
    assert inventory.slots == 4
    assert inventory.cpus is None  # measured, not said


def test_several_collectors_are_a_list():
    settings = load(None, {"TRIMTAB_COLLECTOR": '["a:1", "[::1]:2"]'}, {})
    assert str(settings.collector) == "a:1, [::1]:2"
    assert len(settings.collector) == 2
    for wrong in ("[]", '["a"]', '["a:1", 5]'):
        with pytest.raises(BadSettings):
            load(None, {"TRIMTAB_COLLECTOR": wrong}, {})
