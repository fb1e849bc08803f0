"""Programs that end with whoever started them, tell why they failed, and leave the port free."""

import signal
import socket
import subprocess
import sys
import time

import pytest
from confrere.federation.flower.coordinator_app import is_working
from confrere.federation.flower.programs import Program, alone, make_room

from confrere.errors import EngineFailed, QuorumMissed
from confrere.federation import Averaging, Frame
from confrere.federation.flower import (
    Coordinator,
    bundle,
    coordinator_app,
    launch,
    make_authority,
    node,
    programs,
    run_coordinator,
    run_party,
)
from confrere.federation.flower.job import Job

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Stand in for Flower's programs: every one is a shell script of the test's own."""

    def write(name, text):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    monkeypatch.setattr(programs, "find_program", lambda name: str(tmp_path / "bin" / name))
    monkeypatch.setattr(bundle, "find_program", lambda name: str(tmp_path / "bin" / name))
    return write


def gone(pid, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not programs._running(pid):
            return True
        time.sleep(0.05)
    return False


PARENT = """
import importlib.util, sys, time
from pathlib import Path
spec = importlib.util.spec_from_file_location("programs", sys.argv[1])
programs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(programs)
programs.find_program = lambda name: "/bin/sleep"
programs.Program("sleep", sys.argv[3], folder=Path(sys.argv[2]))
print("started", flush=True)
time.sleep(60)
"""


def start_and_kill_a_parent(folder, word):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, programs.__file__, str(folder), word],
        stdout=subprocess.PIPE,
    )
    assert parent.stdout.readline() == b"started\n"
    pid = int((folder / "sleep.pid").read_text().split("\n")[0])
    deadline = time.monotonic() + 20
    while not programs._running(pid).startswith("/bin/sleep") and time.monotonic() < deadline:
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    return pid


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel does it on Linux")
def test_a_program_ends_with_whoever_started_it(tmp_path):
    assert gone(start_and_kill_a_parent(tmp_path, "3011"))


def test_an_orphan_of_ours_is_ended_and_nobody_else_s(tmp_path):
    ours = subprocess.Popen(["/bin/sleep", "3012"])
    other = subprocess.Popen(["/bin/sleep", "3013"])
    try:
        note = tmp_path / "sleep.pid"
        note.write_text(f"{other.pid}\n/bin/sleep 3012")
        make_room(tmp_path, "sleep", "127.0.0.1", free_port())
        assert other.poll() is None
        note.write_text(f"{ours.pid}\n/bin/sleep 3012")
        make_room(tmp_path, "sleep", "127.0.0.1", free_port())
        assert ours.wait(10) == -signal.SIGTERM
        assert not note.exists()
    finally:
        ours.kill()
        other.kill()
        ours.wait()
        other.wait()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def test_a_port_in_use_is_an_error_that_says_what_to_do(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EngineFailed, match=f"port {port} of 127.0.0.1 is in use.*--port"):
            make_room(tmp_path, "anything", "127.0.0.1", port)
    make_room(tmp_path, "anything", "127.0.0.1", port)
    with pytest.raises(EngineFailed, match="an address of this machine"):
        make_room(tmp_path, "anything", "192.0.2.1", port)


def test_a_folder_has_one_process_of_a_kind(tmp_path):
    with (
        alone(tmp_path, "node"),
        alone(tmp_path, "party"),
        pytest.raises(EngineFailed, match="another node"),
        alone(tmp_path, "node"),
    ):
        pass
    with alone(tmp_path, "node"):
        pass


def test_a_program_that_fails_names_cause_and_log(tmp_path, script):
    script("flower-thing", "echo earlier; echo 'Exit Code: 302'; echo no such key; exit 1")
    program = Program("flower-thing", folder=tmp_path)
    assert program.wait() == 1
    error = program.failed("ended with code 1")
    assert "Exit Code: 302 no such key" in str(error)
    assert "earlier" not in str(error)
    assert str(tmp_path / "flower-thing.log") in str(error)
    program.stop()
    assert not (tmp_path / "flower-thing.pid").exists()


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EngineFailed, match=r"confrere\[flower\]"):
        programs.find_program("flower-nothing")


@pytest.fixture
def party(tmp_path, monkeypatch):
    monkeypatch.setattr(node, "_AGAIN_SECONDS", 0.01)

    def run():
        run_party(
            tmp_path / "party.toml",
            superlink="127.0.0.1:1",
            authority=tmp_path / "ca.pem",
            key=tmp_path / "key",
            folder=tmp_path / "state",
            port=free_port(),
        )

    return run


REFUSE = "echo 'Exit Code: 305'; echo '[code: 2004] Failed to activate SuperNode.'; exit 1"


def test_a_node_that_is_refused_or_killed_tries_again(tmp_path, script, party, caplog):
    count = f"echo x >> {tmp_path}/count; n=$(wc -l < {tmp_path}/count)"
    script(
        "flower-supernode",
        f"{count}; [ $n = 1 ] && {{ {REFUSE}; }}; [ $n = 2 ] && kill -9 $$; exit 0",
    )
    party()
    assert (tmp_path / "count").read_text().count("x") == 3
    assert [r.message.split(";")[0] for r in caplog.records] == [
        "the coordinator refuses this node for now",
        "the node was killed",
    ]


def test_a_node_that_is_always_refused_gives_up(script, party, monkeypatch):
    monkeypatch.setattr(node, "_PATIENCE_SECONDS", 0.0)
    script("flower-supernode", REFUSE)
    with pytest.raises(EngineFailed, match="has the coordinator this key"):
        party()


def test_a_node_that_cannot_run_says_why_at_once(script, party):
    script("flower-supernode", "echo 'Exit Code: 302'; echo the key is of no use; exit 1")
    with pytest.raises(EngineFailed, match="the key is of no use; its log is"):
        party()


AWAIT_HEALTH = launch._await_health
JOB = Job(plan=Averaging(frame=Frame(3), epsilon=1.0), parties=("a",), timeout=30.0)


@pytest.fixture
def coordinator(tmp_path, monkeypatch):
    """A coordinator whose link needs no health: what is tested is what it does about deaths."""
    monkeypatch.setattr(launch, "_await_health", lambda *_: None)
    monkeypatch.setattr(launch, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(launch, "_START_SECONDS", 5.0)
    authority = make_authority(tmp_path / "keys", ["localhost"])
    key = tmp_path / "a.pub"
    key.write_text("key")
    return Coordinator(
        folder=tmp_path / "work", authority=authority, nodes={"a": key}, port=free_port()
    )


def test_a_link_that_was_killed_is_started_again(coordinator, tmp_path, script, monkeypatch):
    outcome = coordinator.folder / "outcome"
    starts = tmp_path / "starts"
    # The first dies with its app; the second lives until there is an outcome.
    script(
        "flower-superlink",
        f"echo x >> {starts}; [ $(wc -l < {starts}) = 1 ] && kill -9 $$; touch {outcome}; sleep 50",
    )
    script("flwr", "exit 0")
    monkeypatch.setattr(launch.Outcome, "from_payload", lambda payload: payload)
    monkeypatch.setattr(launch.Payload, "decode", lambda content: content)
    assert run_coordinator(coordinator, JOB) == b""
    assert starts.read_text().count("x") == 2


def test_an_app_that_died_alone_is_found_out(coordinator, script, monkeypatch):
    monkeypatch.setattr(launch, "_STARTS", 2)
    script("flower-superlink", "sleep 50")
    script("flwr", "exit 0")
    works = iter([False, True, True, False] * 2)
    monkeypatch.setattr(launch, "is_working", lambda folder: next(works))
    with pytest.raises(EngineFailed, match="ended 2 times"):
        run_coordinator(coordinator, JOB)


@pytest.mark.parametrize(
    ("failure", "error", "words"),
    [
        ("QuorumMissed: not connected: a.", QuorumMissed, "^not connected: a.$"),
        ("ValueError: odd", EngineFailed, "ValueError: odd; its log is .*flower-superlink.log"),
    ],
)
def test_the_app_s_own_error_is_told(coordinator, script, failure, error, words):
    path = coordinator.folder / "failure"
    script("flower-superlink", "sleep 50")
    script("flwr", f"[ $1 = run ] && echo '{failure}' | tr -d '\\n' > {path}; exit 0")
    with pytest.raises(error, match=words):
        run_coordinator(coordinator, JOB)


def test_a_link_that_cannot_run_says_why_at_once(coordinator, script):
    script("flower-superlink", "echo 'Exit Code: 105'; echo a database of another time; exit 1")
    script("flwr", "exit 0")
    program = Program("flower-superlink", folder=coordinator.folder)
    program.wait()
    with pytest.raises(EngineFailed, match="a database of another time"):
        AWAIT_HEALTH(coordinator, program)


def test_a_key_registered_before_a_kill_is_not_an_error(coordinator, tmp_path, script):
    calls = tmp_path / "calls"
    known = "echo Public key already in use.; exit 1"
    script("flwr", f"echo $1 >> {calls}; [ $1 = run ] || {{ {known}; }}")
    (coordinator.folder / "flower").mkdir(parents=True)
    for _ in range(2):
        bundle.submit(
            coordinator.folder,
            address=coordinator.address,
            authority=coordinator.authority.certificate,
            nodes=coordinator.nodes,
        )
    assert calls.read_text().split() == ["supernode", "run", "run"]
    assert launch.registered_keys(coordinator) == 1
    script("flwr", "echo no luck; exit 1")
    with pytest.raises(EngineFailed, match="flwr run failed: no luck"):
        bundle.submit(
            coordinator.folder,
            address=coordinator.address,
            authority=coordinator.authority.certificate,
            nodes=coordinator.nodes,
        )


def test_one_app_works_and_another_waits(tmp_path):
    assert not is_working(tmp_path)
    with coordinator_app._working(tmp_path):
        assert is_working(tmp_path)
    assert not is_working(tmp_path)
