"""The dashboard's parts by themselves: totals, pictures, runs, counts."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from confrere.errors import InvalidParameter
from confrere_federation.commands.dashboard import dashboard
from confrere_federation.dashboard.state import Place, Run, last_lines
from confrere_federation.progress import STATUS

# -- runs ----------------------------------------------------------------------------------------


def told(folder: Path, **facts) -> Place:
    folder.mkdir(exist_ok=True)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    (folder / STATUS).write_text(json.dumps({"at": now, "state": "asked: a"} | facts))
    return Place(folder, folder.name)


@pytest.mark.parametrize(
    "facts",
    [
        {"steps": [1, "x"]},
        {"steps": 3},
        {"steps": [{"parties": 1}]},
        {"steps": [{"operation": "x", "step": 0, "parties": {"a": 3}}]},
        {"steps": [{"operation": "x", "step": 0, "parties": {"a": {"state": "", "row": "x"}}}]},
        {"parties": [1]},
        {"at": "never"},
        {"at": 5, "state": None},
    ],
)
def test_a_hostile_status_file_breaks_nothing(tmp_path, facts):
    assert Run.read(told(tmp_path / "c", **facts).path) is None


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_folder_of_a_stranger_s_shows_no_other_file_and_waits_for_none(tmp_path, kind):
    """An archive that somebody sent may hold links to files of this machine, and pipes."""
    secret = tmp_path / "secret"
    secret.write_text('{"state": "the passphrase"}\n')
    for name in (STATUS, "line.log"):
        path = tmp_path / "run" / name
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(secret) if kind == "link" else os.mkfifo(path)
    assert Run.read(tmp_path / "run") is None
    assert last_lines(tmp_path / "run") == []


# -- where it listens ----------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_over_a_network_only_behind_a_sign_in(tmp_path, host):
    with pytest.raises(InvalidParameter, match="--sign-in-header"):
        dashboard([tmp_path], host=host)


SIGN_IN = {"sign_in_header": "X-Remote-User"}


def test_a_sign_in_has_to_prove_itself(tmp_path):
    secret = tmp_path / "secret"

    def refused(word, **facts):
        with pytest.raises(InvalidParameter, match=word):
            dashboard([tmp_path], **facts)

    refused("--front-secret", **SIGN_IN)
    refused("--sign-in-header", at_socket=tmp_path / "s")
    refused("cannot be read", front_secret=secret, **SIGN_IN)
    secret.write_text("5f0c" * 16)
    secret.chmod(0o644)
    refused("chmod 600", front_secret=secret, **SIGN_IN)
    secret.chmod(0o600)
    secret.write_text("short\n")
    refused("32 characters", front_secret=secret, **SIGN_IN)


def posted(place, length, body):
    """Send a form of another length than is announced; return the codes of what comes back."""
    head = b"POST /studies/a/b HTTP/1.1\r\nHost: dashboard\r\nOrigin: http://dashboard\r\n"
    head += b"X-Remote-User: Dr. Officer\r\nContent-Length: %d\r\n\r\n" % length
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(60)
        line.connect(str(place))
        line.sendall(head + body)
        line.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: line.recv(65536), b""))
    return re.findall(rb"HTTP/1.1 (\d+)", answer)


def test_a_dashboard_at_a_socket_answers_its_front_and_nobody_else_can_connect(tmp_path):
    place = tmp_path / "dashboard.sock"
    (tmp_path / "approvers").write_text("# the office\nDr. Officer\n")
    told = tmp_path / "told"
    options = ["dashboard", str(tmp_path), "--socket", str(place), "--name", "dashboard"]
    options += ["--sign-in-header", "X-Remote-User", "--approvers", str(tmp_path / "approvers")]
    with told.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "confrere.cli", *options], stderr=out, stdout=out
        )
    try:
        while not place.is_socket():
            assert process.poll() is None, told.read_text()
            time.sleep(0.05)
        assert place.stat().st_mode & 0o777 == 0o660
        transport = httpx.HTTPTransport(uds=str(place), retries=9)  # bound, it listens soon
        with httpx.Client(transport=transport, base_url="http://dashboard", timeout=None) as front:
            assert front.get("/").status_code == 401
            answer = front.get("/", headers={"X-Remote-User": "Dr. Officer"})
            assert (answer.status_code, "Dr. Officer" in answer.text) == (200, True)
        # Whoever announces a length is held to it: what follows is no part of the form, and what
        # does not come is not made up.
        assert posted(place, 4, b"a=b&" + bytes(1000)) == [b"403", b"400"]
        assert posted(place, 5, b"a=b&") == []
        assert "token=" not in told.read_text()
        assert "1 may decide" in told.read_text()
    finally:
        process.terminate()
        process.wait()
