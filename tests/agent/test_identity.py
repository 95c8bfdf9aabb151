"""Random, kept, and nobody else's to read (A18, A41)."""

import json

import pytest

from trimtab.agent.identity import (
    FILE,
    NoIdentity,
    check,
    load_or_make,
    read_token,
)


def test_an_identity_is_made_once_and_kept(tmp_path):
    folder = tmp_path / "deep" / "state"
    made = load_or_make(folder)
    assert load_or_make(folder) == made
    assert (len(made.node_id), len(made.key)) == (16, 32)
    assert (folder / FILE).stat().st_mode & 0o777 == 0o600
    assert [p.name for p in folder.iterdir()] == [FILE]  # no half-written files left


def test_two_hosts_of_one_name_differ(tmp_path):
    a, b = load_or_make(tmp_path / "a"), load_or_make(tmp_path / "b")
    assert a.node_id != b.node_id
    assert a.key != b.key


def test_a_key_that_others_can_read_is_refused_with_the_mend(tmp_path):
    load_or_make(tmp_path)
    (tmp_path / FILE).chmod(0o644)
    with pytest.raises(NoIdentity, match=r"0644.*0600"):
        load_or_make(tmp_path)


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", "null", '{"id": "zz", "key": "00"}', '{"id": "00", "key": "00"}',
     '{"id": 5, "key": 6}', "\x00"],
)  # fmt: skip
def test_a_damaged_identity_is_refused_and_left_for_the_operator(tmp_path, content):
    path = tmp_path / FILE
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(NoIdentity, match="delete it"):
        load_or_make(tmp_path)
    assert path.read_text() == content


def test_a_folder_that_cannot_be_made_says_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    for look in (load_or_make, check):
        with pytest.raises(NoIdentity, match="state_dir"):
            look(tmp_path / "file" / "state")


def test_looking_changes_nothing(tmp_path):
    assert "none yet" in check(tmp_path / "state")
    assert not (tmp_path / "state").exists()
    made = load_or_make(tmp_path)
    says = check(tmp_path)
    assert made.node_id.hex() in says
    assert made.key.hex() not in says


def test_a_token_file_is_one_private_line(tmp_path):
    path = tmp_path / "token"
    path.write_text("tt_abc\n")
    path.chmod(0o600)
    assert read_token(path) == "tt_abc"
    path.chmod(0o640)
    with pytest.raises(NoIdentity, match="0640") as caught:
        read_token(path)
    assert "tt_abc" not in str(caught.value)
    # systemd guards its credentials by an ACL, which shows as a group's mode.
    assert read_token(path, guarded=True) == "tt_abc"


@pytest.mark.parametrize("content", [b"", b"\n", b"a\nb", b"\xff\xfe", b"x" * 300])
def test_what_is_no_token_is_refused(tmp_path, content):
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(NoIdentity, match="token file"):
        read_token(path)


def test_the_identity_file_holds_what_was_promised(tmp_path):
    made = load_or_make(tmp_path)
    held = json.loads((tmp_path / FILE).read_text())
    assert held == {"id": made.node_id.hex(), "key": made.key.hex()}
    assert (tmp_path / FILE).stat().st_nlink == 1
