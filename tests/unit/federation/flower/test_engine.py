"""Over a real line the protocols give, bit for bit, what they give in one process."""

import threading

import numpy as np
import pytest

from confrere.errors import EngineFailed, InvalidParameter, QuorumMissed
from confrere.federation import (
    Averaging,
    Expansion,
    Frame,
    Journalled,
    LocalFederation,
    PartyError,
    Payload,
    average,
    evaluate,
    expand,
)
from confrere.federation.flower.engine import FlowerFederation
from confrere.federation.flower.progress import private, read_progress
from confrere.federation.flower.wire import MAX_CONTENT
from tests.unit.federation.flower.conftest import Served, Wire, until


def parties_of(make_party, **policy):
    return [
        make_party(name, n, seed=k, random_state=k, cap=None, **policy)
        for k, (name, n) in enumerate([("a", 60), ("b", 45), ("c", 15)])
    ]


FRAME = Frame(3, feature_scale=np.array([1.0, 0.5, 2.0]))
PROTOCOLS = {
    "average": lambda f: average(f, Averaging(frame=FRAME, epsilon=1.0)).weights,
    "rounds": lambda f: average(f, Averaging(frame=FRAME, epsilon=1.0, rounds=3)).weights,
    "laplace noise": lambda f: (
        average(f, Averaging(frame=Frame(3, norm="l1"), epsilon=1.0)).weights
    ),
    "output": lambda f: average(f, Averaging(frame=FRAME, epsilon=1.0, perturb="output")).weights,
    "counted": lambda f: average(f, Averaging(frame=FRAME, epsilon=1.0, count_epsilon=0.2)).weights,
    "expansion": lambda f: expand(f, Expansion(frame=FRAME, epsilon=1.0)).weights,
    "evaluation": lambda f: np.array(list(evaluate(f, np.ones(3), epsilon=1.0).errors.values())),
}


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_the_engines_agree_bit_for_bit(make_party, connected, protocol):
    counted = protocol is PROTOCOLS["counted"]
    parties = parties_of(make_party, neighbours="add-remove" if counted else "replace-one")
    carrier = connected(parties)
    here = protocol(LocalFederation(parties, run="here"))
    there = protocol(FlowerFederation(carrier, "cab", run="there"))
    np.testing.assert_array_equal(here, there)
    again = protocol(FlowerFederation(carrier, "bca", run="there"))
    np.testing.assert_array_equal(again, there)
    for party in parties:
        assert party.books.ledger.spent("study") == pytest.approx(2.0)


def test_what_goes_wrong_has_a_code(make_party, wire):
    parties = parties_of(make_party)
    with wire.open() as carrier:
        wire.send("a", Served(parties[0]))
        wire.send("b", Served(parties[1], [b"garbage", b""]))
        federation = FlowerFederation(carrier, "abc")
        carrier.await_parties(["a", "b"], 60)
        answers = federation.ask("size", Payload(), timeout=2)
        assert isinstance(answers["a"], Payload)
        assert answers["b"] == PartyError("InvalidReply")
        assert answers["c"] == PartyError("Unreachable")
        assert wire.states[-1] == {"a": "answered", "b": "answered", "c": "nobody yet"}
        with pytest.raises(QuorumMissed, match="b: InvalidReply, c: Unreachable"):
            federation.gather("size", Payload(), timeout=2)
        slow = threading.Event()
        late = Served(parties[2])
        late.handle = lambda question: (slow.wait(60), Served.handle(late, question))[1]
        wire.send("c", late)
        carrier.await_parties(["c"], 60)
        assert federation.ask("size", Payload(), to="c", timeout=1)["c"] == PartyError("Timeout")
        slow.set()
        with pytest.raises(InvalidParameter, match="beyond"):
            carrier.exchange({"a": bytes(MAX_CONTENT + 1)}, 1)


def test_a_party_that_comes_late_or_again_is_asked(make_party, wire):
    parties = parties_of(make_party)
    with wire.open() as carrier:
        later = threading.Timer(1.0, lambda: wire.send("c", Served(parties[2])))
        later.start()
        lost = Served(parties[0])
        taken = threading.Event()
        lost.handle = lambda _: (taken.set(), threading.Event().wait(30), b"")[2]  # as if killed
        wire.send("a", lost)
        wire.send("b", Served(parties[1]))
        again = threading.Thread(
            target=lambda: (taken.wait(60), wire.send("a", Served(parties[0])))
        )
        again.start()
        answers = FlowerFederation(carrier, "abc").ask("size", Payload(), timeout=60)
        assert all(isinstance(a, Payload) for a in answers.values())


def test_the_same_key_from_two_places_is_noticed(make_party, wire):
    party = make_party("a")
    with wire.open() as carrier:
        wire.send("a", Served(party))
        assert carrier.await_parties(["a"], 60) == []
        first = wire.threads["a"]
        wire.send("a", Served(party))
        first.join(30)
        assert isinstance(wire.errors["a"], EngineFailed)
        assert "another process has connected with this node key" in str(wire.errors["a"])
        assert isinstance(FlowerFederation(carrier, "a").ask("size", Payload())["a"], Payload)


def test_a_party_finds_a_coordinator_that_was_started_again(make_party, wire):
    with wire.open(end=False) as carrier:
        home = wire.send("a", Served(make_party("a")))
        assert carrier.await_parties(["a"], 60) == []
    until(
        lambda: "nobody" in read_progress(home)["state"] or "lost" in read_progress(home)["state"]
    )
    with wire.open() as carrier:
        assert carrier.await_parties(["a"], 60) == []
        assert isinstance(FlowerFederation(carrier, "a").ask("size", Payload())["a"], Payload)
    assert read_progress(home)["state"] == "released"


def test_a_party_does_not_take_another_coordinator_for_its_own(make_party, wire, tmp_path):
    """One that was restarted in a new folder has other keys: nothing is said to it."""
    (tmp_path / "new").mkdir()
    other = Wire(tmp_path / "new", wire.names)
    other.port = wire.port
    session = Served(make_party("a"))
    with other.open(end=False):
        home = wire.send("a", session, patience=1.0)
        wire.threads["a"].join(30)
        assert "not the coordinator of the authority" in str(wire.errors["a"])
        assert "not the coordinator of the authority" in read_progress(home)["state"]
    assert session.asked == []


def test_nobody_is_waited_for_in_vain(make_party, wire):
    wire.send("a", Served(make_party("a")), patience=0.5)
    wire.threads["a"].join(30)
    assert "no coordinator at" in str(wire.errors["a"])
    assert "nobody at this address yet" in str(wire.errors["a"])


def test_a_party_refuses_over_the_wire_as_it_does_at_home(make_party, connected):
    party = make_party("a", operations={"size"}, study="fingerprint")
    carrier = connected([party])
    asked = FlowerFederation(carrier, "a").ask("size", Payload())
    assert asked["a"] == PartyError("OperationRefused:study")
    federation = FlowerFederation(carrier, "a", schema="fingerprint")
    assert isinstance(federation.ask("size", Payload())["a"], Payload)
    assert federation.ask("errors", Payload())["a"] == PartyError("OperationRefused:operation")
    assert isinstance(carrier.exchange({"a": b"\x00garbage"})["a"], bytes)
    assert party.books.ledger.entries() == []


def test_a_killed_coordinator_resumes(make_party, connected, tmp_path):
    parties = parties_of(make_party)
    plan = Averaging(frame=FRAME, epsilon=1.0, rounds=2)
    carrier = connected(parties)

    def connect(run):
        return FlowerFederation(carrier, "abc", run=run)

    first = average(Journalled(connect, tmp_path / "journal"), plan)
    second = average(Journalled(connect, tmp_path / "journal"), plan)
    np.testing.assert_array_equal(first.weights, second.weights)
    assert parties[0].books.ledger.spent("study") == 1.0


def test_a_folder_is_for_one_and_for_nobody_else(tmp_path):
    place = tmp_path / "home"
    place.mkdir(mode=0o755)
    with private(place, "party") as home:
        assert home.stat().st_mode & 0o777 == 0o700
        (home / "x").write_text("x")
        assert (home / "x").stat().st_mode & 0o777 == 0o600
        with pytest.raises(EngineFailed, match="another party"), private(place, "party"):
            pass
