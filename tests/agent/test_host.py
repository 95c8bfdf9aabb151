import errno
import os
from pathlib import Path

import pytest

from trimtab.agent.errors import Malformed, Unsupported
from trimtab.agent.host import LIMIT_BYTES, Host, Moment


def descriptors_into(folder: Path) -> int:
    links = Path("/proc/self/fd")
    targets = []
    for link in links.iterdir():
        try:
            targets.append(link.readlink())
        except FileNotFoundError:  # the descriptor that lists the folder
            continue
    return sum(target.is_relative_to(folder) for target in targets)


def test_a_file_is_opened_once_and_read_anew_each_time(tmp_path: Path) -> None:
    """A04."""
    file = tmp_path / "stat"
    file.write_bytes(b"one")
    host = Host(tmp_path, tmp_path)
    assert host.proc("stat") == b"one"
    file.write_bytes(b"another")
    assert host.proc("stat") == b"another"
    assert descriptors_into(tmp_path) == 1
    host.close()
    assert descriptors_into(tmp_path) == 0
    assert host.proc("stat") == b"another"
    host.close()


def test_both_trees_are_read_under_their_own_root(fixtures: Path) -> None:
    host = Host(fixtures / "no-psi/proc", fixtures / "no-psi/sys")
    assert host.proc("loadavg") == b"0.10 0.20 0.30 3/210 4321\n"
    assert host.sys("devices/system/cpu/online") == b"0-1\n"
    host.close()


@pytest.mark.parametrize("name", ["absent", "stat/below-a-file"])
def test_a_missing_file_is_unsupported_and_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "stat").write_bytes(b"")
    with pytest.raises(Unsupported, match=name):
        Host(tmp_path, tmp_path).proc(name)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 100_000])
def test_the_whole_file_is_read_whatever_its_size(tmp_path: Path, size: int) -> None:
    text = os.urandom(size)
    (tmp_path / "vmstat").write_bytes(text)
    host = Host(tmp_path, tmp_path)
    assert host.proc("vmstat") == text
    assert host.proc("vmstat") == text  # by now in one read
    host.close()


def test_a_procfs_file_of_many_pages_is_read_whole() -> None:
    host = Host()
    found = host.proc("self/smaps")  # comes a page at a time
    assert len(found) > 4096
    assert b"[vdso]" in found or b"[vsyscall]" in found or b"[stack]" in found
    host.close()


def test_a_file_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "stat").write_bytes(bytes(LIMIT_BYTES + 10_000))
    with pytest.raises(Malformed, match="no end"):
        Host(tmp_path, tmp_path).proc("stat")


def test_a_descriptor_gone_bad_is_opened_anew_at_the_next_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stat").write_bytes(b"one")
    host = Host(tmp_path, tmp_path)
    host.proc("stat")
    (tmp_path / "stat").unlink()
    (tmp_path / "stat").write_bytes(b"another")

    def stale(descriptor: int, size: int, offset: int) -> bytes:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with monkeypatch.context() as kernel:
        kernel.setattr(os, "pread", stale)
        with pytest.raises(OSError, match="tale"):
            host.proc("stat")
    assert host.proc("stat") == b"another"
    host.close()


def test_a_folder_in_a_file_s_place_is_an_error_not_unsupported(tmp_path: Path) -> None:
    (tmp_path / "stat").mkdir()
    with pytest.raises(IsADirectoryError):
        Host(tmp_path, tmp_path).proc("stat")


def test_within_a_moment_a_file_stands_still(tmp_path: Path) -> None:
    file = tmp_path / "stat"
    file.write_bytes(b"one")
    host = Host(tmp_path, tmp_path)
    moment = Moment(host)
    assert moment.proc("stat") == b"one"
    file.write_bytes(b"another")
    assert moment.proc("stat") == b"one"
    assert moment.sys("stat") == b"another"
    assert Moment(host).proc("stat") == b"another"
    host.close()


def test_what_is_read_seldom_is_not_kept_open(tmp_path: Path) -> None:
    file = tmp_path / "limit"
    file.write_bytes(b"one")
    host = Host(tmp_path, tmp_path)
    assert host.look("limit") == b"one"
    assert descriptors_into(tmp_path) == 0
    with pytest.raises(Unsupported, match="absent"):
        host.look("absent")


def test_what_was_forgotten_is_opened_anew(tmp_path: Path) -> None:
    for folder in ("a", "ab"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "usage").write_bytes(b"one")
    host = Host(tmp_path, tmp_path)
    host.sys("a/usage")
    host.sys("ab/usage")
    (tmp_path / "a/usage").unlink()
    (tmp_path / "a/usage").write_bytes(b"another")
    host.forget("a")
    assert descriptors_into(tmp_path) == 1
    assert host.sys("a/usage") == b"another"
    host.close()


def test_a_folder_is_listed_in_order_or_empty(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / name).write_bytes(b"")
    host = Host(tmp_path, tmp_path)
    assert list(host.names(".")) == ["a", "b", "c"]
    assert list(host.names("absent")) == list(host.names("a")) == []
    assert host.has("a")
    assert not host.has("a/b")
    assert not host.has("odd\0name")
