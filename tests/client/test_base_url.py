"""Where the collector is, as people write it."""

import pytest

from trimtab.client import BadUrl, parse_base


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("http://127.0.0.1:7767", "http://127.0.0.1:7767"),
        ("http://127.0.0.1:7767/", "http://127.0.0.1:7767"),
        ("https://fleet.example", "https://fleet.example"),  # the scheme's own port
        ("HTTP://Fleet.Example:80", "http://fleet.example:80"),
        ("fleet.example", "http://fleet.example:7767"),
        ("fleet.example:80", "http://fleet.example:80"),
        ("[::1]", "http://[::1]:7767"),
        ("http://[::1]:9", "http://[::1]:9"),
        ("https://proxy.example/trimtab/", "https://proxy.example/trimtab"),
    ],
)
def test_a_url_is_taken_as_it_was_meant(text: str, base: str) -> None:
    assert parse_base(text) == base


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ftp://fleet.example",
        "unix:///run/x",
        "http://",
        "http://fleet.example:99999",
        "http://fleet.example:0",
        "fleet.example:port",
        "http://[::1",
        "::1",  # needs its brackets
        "http://fleet.example/?a=b",
        "http://fleet.example/#a",
        "http://fleet example",
        "http://fleet.example\r\nX: y",
    ],
)
def test_what_is_no_collectors_url_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadUrl, match=r"expected http\(s\)://HOST:PORT, such as"):
        parse_base(text)


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(BadUrl, match="TRIMTAB_TOKEN") as caught:
        parse_base("http://admin:hunter2@fleet.example")
    assert "hunter2" not in str(caught.value)
