"""The file that names a private authority."""

from pathlib import Path

import pytest

from trimtab.client import BadAuthority, Client


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "can't be read: No such file"),
        (b"", "expected certificates in PEM"),  # not: trust whom the system trusts
        (b"\x00\xff", "expected certificates in PEM"),
        (b"-----BEGIN CERTIFICATE-----\nx\n", "expected certificates in PEM"),
    ],
)
def test_a_file_without_a_certificate_is_refused_at_once(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadAuthority, match=said) as caught:
        Client("https://fleet.example", ca_file=path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("path", ["", "\0", "/"])
def test_what_can_be_no_file_is_refused_too(path: str) -> None:
    with pytest.raises(BadAuthority):
        Client("https://fleet.example", ca_file=path)
