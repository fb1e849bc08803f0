"""What every carrier of messages keeps to, whatever it is made of."""

import tempfile
import threading
from contextlib import contextmanager, suppress
from multiprocessing.connection import Listener
from pathlib import Path

import numpy as np
import pytest

from confrere.data.frame import Frame
from confrere.methods.average import Averaging, Expansion
from confrere_federation.engines.carrier import MAX_MESSAGE
from confrere_federation.engines.line import LineCarrier
from tests.wire.line.conftest import END, Echo, Wire
from tests.wire.signed_run import Organisations
from tests.wire.test_flare import HOST, Consortium, slow

NAMES = ("a", "b", "c")
PLANS = {
    "rounds": Averaging(frame=Frame(3), epsilon=1.0, rounds=3),
    "expansion": Expansion(frame=Frame(3), epsilon=1.0),
}


class Flare:
    """Stock FLARE, by jobs: what its sites start hands all messages to this process."""

    soon, away = 20, "Timeout"  # a site is there, whoever is behind it

    def __init__(self, folder, consortium):
        self.consortium, self.threads, self.errors = consortium, {}, {}
        short = Path(tempfile.mkdtemp())  # names of sockets are
        self.doors = {name: Listener(str(short / name)) for name in (HOST, *NAMES)}
        for name in self.doors:
            (folder / name).mkdir()
            (folder / name / "relay").symlink_to(short / name)
            link = consortium.folder / "now" / name
            link.unlink(missing_ok=True)
            link.symlink_to(folder / name)

    @contextmanager
    def open(self, *, end=True):
        admin = self.consortium.admin
        number = admin.submit_job(str(self.consortium.folder / "job"))
        with self.doors[HOST].accept() as pipe:
            carrier = LineCarrier(pipe, list(NAMES))
            yield carrier
            if end:
                carrier.exchange(dict.fromkeys(self.threads, END), 60)
        admin.monitor_job(number, timeout=300)

    def send(self, name, session):
        def work():
            while not session.finished:
                with suppress(EOFError, OSError), self.doors[name].accept() as line:
                    while not session.finished:
                        question = line.recv_bytes()
                        try:
                            line.send_bytes(session.handle(question))
                        except Killed as error:
                            self.errors[name] = error
                            return

        self.threads[name] = threading.Thread(target=work, daemon=True)
        self.threads[name].start()


@pytest.fixture(scope="module")
def consortium(tmp_path_factory):
    pytest.importorskip("nvflare")
    relay = Path(__file__).with_name("relay")
    made = Consortium(tmp_path_factory.mktemp("flare"), NAMES, str(relay))
    yield made
    made.close()


@pytest.fixture(params=["line", pytest.param("flare", marks=slow)])
def engine(request, tmp_path):
    """What opens a carrier, ``with`` whom parties can be sent to answer."""
    place = tmp_path / "engine"
    place.mkdir()
    if request.param == "line":
        return Wire(place, NAMES)
    return Flare(place, request.getfixturevalue("consortium"))


def released(there, carrier):
    """Run the protocol and hand the release out; return its bytes."""
    federation = there.federation(carrier=carrier)
    weights = there.learn(federation).weights.tobytes()
    signatures = federation.hand_out({"weights": weights}, timeout=120)
    assert all(isinstance(signature, bytes) for signature in signatures.values())
    return weights


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_run_gives_the_bytes_that_it_gives_in_one_process(tmp_path, engine, plan):
    there = Organisations(tmp_path, plan=plan)
    with engine.open(end=False) as carrier:
        for name, session in there.sessions.items():
            engine.send(name, session)
        weights = released(there, carrier)
        for thread in engine.threads.values():
            thread.join()
    assert engine.errors == {}
    assert all(session.finished for session in there.sessions.values())
    # Asked again without a carrier, the same parties send the same bytes.
    again = there.learn(there.federation(journal="another"))
    assert again.weights.tobytes() == weights
    assert [there.spent(name) for name in there.names] == pytest.approx([1.0] * 3)


class Killed(Exception):
    """The end of a process, where it hurts most."""


class Mortal:
    """A party that is killed when it has paid, before it can say what for."""

    def __init__(self, session):
        self._session = session
        self.lost = threading.Event()

    finished, state, told = False, "waiting", []

    def handle(self, question):
        self._session.handle(question)
        self.lost.set()
        raise Killed


def test_a_party_that_is_killed_after_it_paid_pays_once_and_sends_the_same(tmp_path, engine):
    there = Organisations(tmp_path, plan=PLANS["rounds"])
    dying = Mortal(there.sessions["a"])

    def reborn():
        dying.lost.wait()
        there.sessions["a"] = there.session("a")  # from what its files say
        engine.send("a", there.sessions["a"])

    with engine.open(end=False) as carrier:
        engine.send("a", dying)
        threading.Thread(target=reborn, daemon=True).start()
        for name in ("b", "c"):
            engine.send(name, there.sessions[name])
        weights = released(there, carrier)
        for thread in engine.threads.values():
            thread.join()
    assert isinstance(engine.errors["a"], Killed)
    assert there.learn(there.federation(journal="another")).weights.tobytes() == weights
    assert [there.spent(name) for name in there.names] == pytest.approx([1.0] * 3)


def test_a_coordinator_that_is_started_again_is_found_again(tmp_path, engine):
    there = Organisations(tmp_path, plan=PLANS["rounds"])
    for name, session in there.sessions.items():
        engine.send(name, session)
    with engine.open(end=False) as carrier:
        weights = there.learn(there.federation(carrier=carrier)).weights.tobytes()
    with engine.open(end=False) as carrier:
        assert released(there, carrier) == weights
        for thread in engine.threads.values():
            thread.join()
    assert engine.errors == {}
    assert [there.spent(name) for name in there.names] == pytest.approx([1.0] * 3)


BYTES = {
    "nothing": b"",
    "a zero": b"\0",
    "what ends others' messages": b"\r\n.\r\n\x04\x1a",
    "noise": np.random.default_rng(0).bytes(1_000_003),
    "as much as may be": bytes(MAX_MESSAGE),
}


def test_any_bytes_arrive_as_they_are(engine):
    with engine.open() as carrier:
        engine.send("a", Echo())
        for words, content in BYTES.items():
            assert carrier.exchange({"a": content}, None)["a"] == content, words


def test_hostile_bytes_are_answered_with_a_code_and_cost_nothing(tmp_path, engine):
    there = Organisations(tmp_path, plan=PLANS["rounds"])
    with engine.open(end=False) as carrier:
        for name, session in there.sessions.items():
            engine.send(name, session)
        replies = carrier.exchange(dict.fromkeys(NAMES, BYTES["noise"]), None)
        assert all(isinstance(reply, bytes) for reply in replies.values())
        assert [there.spent(name) for name in there.names] == [0.0] * 3
        released(there, carrier)


def test_a_party_that_is_late_or_lost_is_asked_when_it_is_here(engine):
    with engine.open() as carrier:
        lost, taken = Echo(), threading.Event()

        def handle(_):
            taken.set()
            raise Killed

        lost.handle = handle
        engine.send("a", lost)
        again = threading.Thread(
            target=lambda: (taken.wait(), [engine.send(name, Echo()) for name in "ac"])
        )
        again.start()
        assert carrier.exchange({"a": b"1", "c": b"2"}, None) == {"a": b"1", "c": b"2"}
        again.join()


def test_a_reply_that_comes_too_late_is_no_reply_to_the_next_question(engine):
    with engine.open() as carrier:
        slow, late = threading.Event(), Echo()
        late.handle = lambda question: (slow.wait(), Echo.handle(late, question))[1]
        engine.send("a", late)
        while "a" not in carrier.connected():
            pass
        codes = {"a": "Timeout", "b": engine.away}
        assert carrier.exchange(dict.fromkeys("ab", b"1"), engine.soon) == codes
        slow.set()
        assert carrier.exchange({"a": b"2"}, None) == {"a": b"2"}
        assert late.asked == [b"1", b"2"]
