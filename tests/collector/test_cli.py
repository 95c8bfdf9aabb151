"""`trimtab-collector` as people type it."""

import json
import os
import socket
import stat
import subprocess
import sys

import pytest

from trimtab.collector.cli import main


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def test_a_token_is_printed_once_listed_without_itself_and_revoked(capsys, state):
    assert main(["token", "create", "--scope", "agent", "--label", "rack 7"]) == 0
    token = capsys.readouterr().out.strip()
    assert token.startswith("tt_")
    assert main(["token", "list", "--json"]) == 0
    out = capsys.readouterr().out
    assert token not in out
    (row,) = json.loads(out)
    assert row["label"] == "rack 7"
    assert row["expires"] is None
    for file in state.iterdir():
        assert token.encode() not in file.read_bytes()
        assert not file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    assert main(["token", "revoke", row["id"]]) == 0
    assert main(["token", "revoke", row["id"]]) == 1
    assert "token list" in capsys.readouterr().err
    assert main(["token", "list"]) == 0
    assert "No valid token" in capsys.readouterr().out


def test_looking_for_tokens_makes_no_store(capsys, state):
    assert main(["token", "list"]) == 0
    assert "open" in capsys.readouterr().out
    assert main(["token", "revoke", "nope"]) == 1
    assert not state.exists()


@pytest.mark.parametrize("days", ["0", "-1", "x", "nan", "99999999"])
def test_an_expiry_that_is_none_is_refused(days, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["token", "create", "--scope", "agent", "--days", days])
    assert caught.value.code == 2


def test_check_config_reports_and_says_when_all_is_well(tmp_path, capsys):
    path = tmp_path / "c.toml"
    path.write_text("tick_s = 0.5\n")
    assert main(["check-config", str(path)]) == 0
    path.write_text('tls_cert = "/nope.pem"\ntls_key = "/nope.key"\n')
    assert main(["check-config", str(path)]) == 2
    assert "tls_cert = /nope.pem: No such file" in capsys.readouterr().err
    path.write_text("tick_s = 99\nlost_after = 1\n")
    assert main(["check-config", str(path)]) == 2
    err = capsys.readouterr().err
    assert "tick_s = 99" in err
    assert "did you mean lost_after_s" in err


def run_service(**environment):
    return subprocess.run(
        [sys.executable, "-m", "trimtab.collector", "run"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def test_it_refuses_to_be_reached_from_outside_without_credentials():
    done = run_service(TRIMTAB_HTTP_LISTEN="0.0.0.0:0")
    assert done.returncode == 2
    assert "0.0.0.0:0" in done.stderr
    assert "token create" in done.stderr
    assert "insecure" in done.stderr


def test_a_list_in_the_environment_that_is_no_json_is_said():
    done = run_service(TRIMTAB_PEERS="a,b")
    assert done.returncode == 2
    assert "peers" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_said_with_the_mend():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run_service(TRIMTAB_FRAMES_LISTEN=address)
    assert done.returncode == 2
    assert address in done.stderr
    assert "frames_listen" in done.stderr
    assert "Traceback" not in done.stderr
