"""collector.toml and the environment, with every problem at once."""

import pytest

from trimtab.collector.address import Address, parse_address
from trimtab.collector.settings import BadSettings, load


def write(tmp_path, text):
    path = tmp_path / "collector.toml"
    path.write_text(text)
    return path


def test_defaults_stay_on_loopback():
    settings = load(None)
    assert settings.beyond_loopback == []
    assert str(settings.http_listen) == "127.0.0.1:7767"


def test_the_environment_overrides_the_file(tmp_path, monkeypatch):
    path = write(tmp_path, 'http_listen = "[::1]:1"\nlost_after_s = 5\n')
    monkeypatch.setenv("TRIMTAB_LOST_AFTER_S", "7.5")
    monkeypatch.setenv("TRIMTAB_URL", "http://elsewhere")  # the console's
    settings = load(path)
    assert settings.http_listen == Address("::1", 1)
    assert settings.lost_after_s == 7.5


def test_every_problem_is_reported_at_once_with_key_value_and_range(tmp_path):
    path = write(
        tmp_path,
        'http_lisen = "x"\nlost_after_s = -1\ntick_s = "fast"\n'
        'frames_listen = "::1:7766"\ninsecure = 7\npeers = ["a", 3]\n',
    )
    with pytest.raises(BadSettings) as caught:
        load(path)
    text = "\n".join(caught.value.problems)
    for part in (
        "http_lisen: no such setting; did you mean http_listen?",
        "lost_after_s = -1",
        "greater than 0",
        "tick_s = 'fast'",
        "IPv6 needs brackets",
        "insecure = 7",
        "peers.1 = 3",
    ):
        assert part in text
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = [", "is not TOML"),
        ('tls_cert = "c.pem"\n', "tls_cert and tls_key go together"),
        ("lost_after_s = nan\n", "finite"),
    ],
)
def test_what_can_not_be_a_config_says_why(tmp_path, text, says):
    with pytest.raises(BadSettings, match=says):
        load(write(tmp_path, text))


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(BadSettings, match="can't be read"):
        load(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("127.0.0.1:7766", "127.0.0.1", 7766, True),
        ("127.9.9.9:0", "127.9.9.9", 0, True),
        ("[::1]:80", "::1", 80, True),
        ("localhost:80", "localhost", 80, True),
        ("0.0.0.0:80", "0.0.0.0", 80, False),
        ("[::]:80", "::", 80, False),
        ("10.1.2.3:80", "10.1.2.3", 80, False),
        ("collector.example:80", "collector.example", 80, False),
    ],
)
def test_addresses(text, host, port, loopback):
    address = parse_address(text)
    assert address == Address(host, port)
    assert address.loopback is loopback
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    ["", ":80", "host", "host:", "host:x", "host:65536", "::1:80", "h:-1", "h:٣"],
)
def test_what_is_no_address(text):
    with pytest.raises(ValueError, match="expected"):
        parse_address(text)
