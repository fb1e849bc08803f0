"""A real line: what was signed crosses it unchanged, and whoever is lost is found again."""

import socket
import subprocess
import sys
import threading
from contextlib import ExitStack

import httpx
import numpy as np
import pytest

from confrere.errors import EngineFailed, InvalidParameter
from confrere.federation import Averaging, Expansion, Frame, PartyError
from confrere.federation.flower import door
from confrere.federation.flower.wire import MAX_CONTENT
from confrere.progress import private, read_progress
from tests.unit.federation.flower.conftest import Echo, Wire, answering, until
from tests.unit.federation.signed_run import Organisations

PLANS = {
    "rounds": Averaging(frame=Frame(3), epsilon=1.0, rounds=3),
    "expansion": Expansion(frame=Frame(3), epsilon=1.0),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_run_over_the_line_is_the_run_in_one_process(tmp_path, wire, plan):
    there = Organisations(tmp_path, plan=plan)
    with wire.open(end=False) as carrier:
        for name, session in there.sessions.items():
            wire.send(name, session)
        federation = there.federation(carrier=carrier)
        outcome = there.protocol(federation)
        files = {"weights": outcome.weights.tobytes()}
        signatures = federation.hand_out(files, timeout=60)
        assert all(isinstance(signature, bytes) for signature in signatures.values())
        for thread in wire.threads.values():
            thread.join(60)
    assert wire.errors == {}
    assert all(session.finished for session in there.sessions.values())
    # Asked again without a line, the same parties send the same bytes.
    again = there.protocol(there.federation(journal="another"))
    np.testing.assert_array_equal(again.weights, outcome.weights)
    assert [there.spent(name) for name in there.names] == pytest.approx([1.0] * 3)


def test_what_goes_wrong_has_a_code(wire):
    with wire.open() as carrier:
        wire.send("a", Echo())
        assert carrier.await_parties(["a"], 60) == []
        answers = carrier.exchange({"a": b"1", "c": b"2"}, 2)
        assert answers == {"a": b"1", "c": PartyError("Unreachable")}
        assert wire.states[-1] == {"a": "answered", "b": "nobody yet", "c": "nobody yet"}
        slow = threading.Event()
        late = Echo()
        late.handle = lambda question: (slow.wait(60), Echo.handle(late, question))[1]
        wire.send("c", late)
        assert carrier.await_parties(["c"], 60) == []
        assert carrier.exchange({"c": b"2"}, 1) == {"c": PartyError("Timeout")}
        slow.set()
        with pytest.raises(InvalidParameter, match="beyond"):
            carrier.exchange({"a": bytes(MAX_CONTENT + 1)}, 1)
        assert carrier.connected() == ["a", "c"]


def test_a_party_that_comes_late_or_again_is_asked(wire):
    with wire.open() as carrier:
        later = threading.Timer(1.0, lambda: wire.send("c", Echo()))
        later.start()
        lost, taken = Echo(), threading.Event()
        lost.handle = lambda _: (taken.set(), threading.Event().wait(30), b"")[2]  # as if killed
        wire.send("a", lost)
        again = threading.Thread(target=lambda: (taken.wait(60), wire.send("a", Echo())))
        again.start()
        assert carrier.exchange({"a": b"1", "c": b"2"}, 60) == {"a": b"1", "c": b"2"}


def test_the_same_key_from_two_places_is_noticed(wire):
    with wire.open() as carrier:
        wire.send("a", Echo())
        assert carrier.await_parties(["a"], 60) == []
        first = wire.threads["a"]
        wire.send("a", Echo())
        first.join(30)
        assert isinstance(wire.errors["a"], EngineFailed)
        assert "another process has connected with this node key" in str(wire.errors["a"])
        assert carrier.exchange({"a": b"1"}, 30) == {"a": b"1"}


def test_a_party_finds_a_coordinator_that_was_started_again(wire):
    with wire.open(end=False) as carrier:
        home = wire.send("a", Echo())
        assert carrier.await_parties(["a"], 60) == []
    until(lambda: read_progress(home)["state"] == "nobody at this address yet")
    with wire.open() as carrier:
        assert carrier.exchange({"a": b"1"}, 60) == {"a": b"1"}
    assert read_progress(home)["state"] == "released"


def test_a_party_does_not_take_another_coordinator_for_its_own(wire, tmp_path):
    """One that was restarted in a new folder has other keys: nothing is said to it."""
    (tmp_path / "new").mkdir()
    other = Wire(tmp_path / "new", wire.names)
    other.port = wire.port
    session = Echo()
    with other.open(end=False):
        home = wire.send("a", session, patience=1.0)
        wire.threads["a"].join(30)
        assert "not the coordinator of the authority" in str(wire.errors["a"])
        assert "not the coordinator of the authority" in read_progress(home)["state"]
    assert session.asked == []


def test_nobody_is_waited_for_in_vain(wire):
    wire.send("a", Echo(), patience=0.5)
    wire.threads["a"].join(30)
    assert "no coordinator at" in str(wire.errors["a"])
    assert "nobody at this address yet" in str(wire.errors["a"])


def test_a_party_that_is_told_to_stop_does_so_while_it_waits(wire, monkeypatch):
    monkeypatch.setattr("confrere.federation.flower.link.HOLD_SECONDS", 0.2)
    over = threading.Event()
    with wire.open(end=False):
        home = wire.send("a", Echo(), stopped=over.is_set)
        until(lambda: (read_progress(home) or {}).get("state") == "connected")
        over.set()
        wire.threads["a"].join(30)
        assert not wire.threads["a"].is_alive()
    wire.send("b", Echo(), stopped=over.is_set)  # nor where nobody is there to ask
    wire.threads["b"].join(30)
    assert not wire.threads["b"].is_alive()
    assert wire.errors == {}


def test_who_is_slow_or_hoards_is_turned_away(wire, monkeypatch):
    with wire.open():
        sent = b"POST /v1/fleet/push-messages HTTP/1.1\r\nhost: x\r\n"
        monkeypatch.setattr(door, "BODY_SECONDS", 0.1)
        with wire.raw("a") as line:  # a body that never ends
            line.sendall(sent + b"content-length: 1000\r\n\r\nabc")
            assert line.recv(1000).startswith(b"HTTP/1.1 408")
        monkeypatch.setattr(door, "BODY_SECONDS", 3600.0)  # what follows is about sizes alone
        for bound, code in (("_MAX_HELD_EACH", b"429"), ("_MAX_HELD", b"503")):
            with monkeypatch.context() as patched, wire.raw("a") as line:
                patched.setattr(door, bound, 1 << 20)
                line.sendall(sent + b"transfer-encoding: chunked\r\n\r\n")
                line.sendall((b"%x\r\n" % (1 << 20) + bytes(1 << 20) + b"\r\n") * 2)
                assert line.recv(1000).startswith(b"HTTP/1.1 " + code)
        with wire.raw("a") as line:
            line.sendall(sent + b"content-length: 67108865\r\n\r\n")
            assert line.recv(1000).startswith(b"HTTP/1.1 413")


def test_one_party_does_not_take_the_places_of_the_others(wire):
    """A registered party holds as many slow requests as it can; another one speaks all the same."""
    head = b"POST /v1/fleet/pull-messages HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\na"
    with wire.open() as carrier, ExitStack() as held:
        answers = []
        for _ in range(door.MAX_CONNECTIONS):
            held.enter_context(wire.raw("a")).sendall(head)
        for _ in range(12):
            line = held.enter_context(wire.raw("a"))
            answers.append(line.recv(12))
        assert answers == [b"HTTP/1.1 429"] * 12
        wire.send("b", Echo())
        assert carrier.exchange({"b": b"1"}, None) == {"b": b"1"}


FLOODED = """
import resource, sys, time
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (160, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from confrere.federation.answers import Journal
from tests.unit.federation.flower.conftest import Echo, Wire
folder = Path(sys.argv[1])
wire = Wire(folder, ["a"])
journal = Journal(folder / "journal")
with wire.open() as carrier:
    print(wire.port, flush=True)
    sys.stdin.readline()  # the flood has begun
    for step in range(50):
        journal.keep("size", step, "", {"a": b""})
        time.sleep(0.02)
    print("kept", flush=True)
    sys.stdin.readline()  # and is over
    wire.send("a", Echo())
    print(carrier.exchange({"a": b"1"}, None), flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts files as Linux does")
def test_idle_connections_leave_the_coordinator_files_to_work_with(tmp_path):
    """More strangers connect and say nothing than the process may have files."""
    with subprocess.Popen(
        [sys.executable, "-c", FLOODED, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as flooded:
        port = int(flooded.stdout.readline())
        with ExitStack() as idle:
            for _ in range(300):
                stranger = idle.enter_context(socket.socket())
                stranger.setblocking(False)
                stranger.connect_ex(("127.0.0.1", port))
            print(file=flooded.stdin, flush=True)
            assert flooded.stdout.readline() == "kept\n"
        print(file=flooded.stdin, flush=True)
        assert flooded.stdout.readline() == f"{{'a': {b'1'!r}}}\n"
        assert flooded.wait() == 0


def test_an_answer_without_bounds_is_not_read(wire, monkeypatch):
    from confrere.federation.flower import fleet

    session = Echo()
    with wire.open() as carrier:
        monkeypatch.setattr(fleet, "MAX_BODY", 1000)
        home = wire.send("a", session)
        assert carrier.exchange({"a": bytes(10_000)}, 3)["a"] == PartyError("Timeout")
        assert session.asked == []
        until(lambda: read_progress(home) is not None)
        monkeypatch.setattr(fleet, "MAX_BODY", 1 << 20)
        assert carrier.exchange({"a": b"1"}, 30) == {"a": b"1"}


def test_nothing_is_remembered_of_what_was_answered(wire):
    with wire.open() as carrier:
        state = carrier._link.state()
        wire.send("a", Echo())
        for _ in range(20):
            assert carrier.exchange({"a": b"1"}, 60) == {"a": b"1"}
        assert carrier.exchange({"b": b"2"}, 0.1) == {"b": PartyError("Unreachable")}
        assert (state.num_message_ins(), state.num_message_res()) == (0, 0)
        assert len(state.object_store) == 0
        assert state._object_push_sessions == {}


def test_a_folder_is_for_one_and_for_nobody_else(tmp_path):
    place = tmp_path / "home"
    place.mkdir(mode=0o755)
    with private(place, "party") as home:
        assert home.stat().st_mode & 0o777 == 0o700
        (home / "x").write_text("x")
        assert (home / "x").stat().st_mode & 0o777 == 0o600
        with pytest.raises(EngineFailed, match="another party"), private(place, "party"):
            pass


def test_no_connection_is_used_or_closed_by_two_threads(wire, monkeypatch):
    """A descriptor that is closed under a thread that writes to it may be another file by then."""
    monkeypatch.setattr(answering, "BEAT_SECONDS", 0.02)
    used = {}

    def watched(name, real):
        def call(client, *args, **kwargs):
            used.setdefault(id(client), [client, set()])[1].add(threading.current_thread().name)
            if threading.current_thread().name == "confrere-beat":
                beats.set()
            return real(client, *args, **kwargs)

        monkeypatch.setattr(httpx.Client, name, call)

    beats = threading.Event()
    for name in ("send", "close"):
        watched(name, getattr(httpx.Client, name))
    with wire.open() as carrier:
        wire.send("a", Echo())
        assert carrier.await_parties(["a"], 60) == []
        assert beats.wait(60)
    until(lambda: not any(t.name == "confrere-beat" for t in threading.enumerate()))
    threads = [names for _, names in used.values()]
    assert {"confrere-beat"} in threads
    assert all(len(names) == 1 for names in threads)
    assert all(client.is_closed for client, _ in used.values())


def test_who_goes_just_when_it_is_asked_is_asked_when_it_is_back(wire, monkeypatch):
    with wire.open() as carrier:
        wire.send("a", Echo())
        assert carrier.await_parties(["a"], 60) == []
        state = carrier._link.state()
        real, refused = state.store_message_and_object_tree, []

        def once(*args):
            if refused:
                return real(*args)
            refused.append(args)
            return False, set()

        monkeypatch.setattr(state, "store_message_and_object_tree", once)
        assert carrier.exchange({"a": b"1"}, 60) == {"a": b"1"}
        assert len(refused) == 1
