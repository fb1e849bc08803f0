"""Over Flower's messages the protocols give, bit for bit, what they give in one process."""

import threading

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.task_identity import TaskIdentity

from confrere.errors import FederationError, InvalidParameter, QuorumMissed
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
from confrere.federation.flower import FlowerFederation, engine, party_app
from confrere.federation.flower.engine import RECORD
from tests.unit.federation.conftest import make_data


@pytest.fixture(autouse=True)
def identity(monkeypatch):
    """Flower asks the process which task it is, which outside of a SuperLink is none."""
    monkeypatch.setattr(engine, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(TaskIdentity, "_task_id", 1)
    monkeypatch.setattr(TaskIdentity, "_run_id", 1)
    monkeypatch.setattr(TaskIdentity, "_node_id", 1)


class FakeGrid:
    """Calls every party's app directly; the bytes are those that would travel.

    ``broken`` names a node's fault: for good, or a list for one message each.
    """

    def __init__(self, parties):
        self.apps = {100 + k: party_app(lambda _, p=p: p) for k, p in enumerate(parties)}
        self.names = {100 + k: p.name for k, p in enumerate(parties)}
        self.away = set()
        self.broken = {}
        self.under_way = {}
        self.sent = 0

    def get_nodes(self):
        return [NodeInfo(node_id=node, name=self.names[node]) for node in self.get_node_ids()]

    def get_node_ids(self):
        return [node for node in self.apps if node not in self.away]

    def push_messages(self, messages):
        ids = []
        for message in messages:
            self.sent += 1
            ids.append(str(self.sent))
            message.metadata.__dict__["_message_id"] = ids[-1]
            self.under_way[ids[-1]] = message
        return ids

    def pull_messages(self, message_ids):
        replies = (self.reply(self.under_way.pop(i)) for i in message_ids if i in self.under_way)
        return [reply for reply in replies if reply is not None]

    def reply(self, message):
        node = message.metadata.dst_node_id
        faults = self.broken.get(node, [])
        fault = faults.pop(0) if isinstance(faults, list) and faults else faults
        if fault == "late":
            return None
        if fault in ("gone", "raised"):
            code = {"gone": 5, "raised": 2}[fault]
            return Message(Error(code=code, reason=fault), reply_to=message)
        context = Context(1, node, {}, RecordDict(), {})
        reply = self.apps[node](message, context)
        if fault == "garbage":
            reply.content[RECORD]["reply"] = b"garbage"
        if fault == "stranger":
            reply.content[RECORD]["party"] = "stranger"
        if fault == "empty":
            reply.content = RecordDict({"other": ConfigRecord({})})
        return reply


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
def test_the_engines_agree_bit_for_bit(make_party, protocol):
    counted = protocol is PROTOCOLS["counted"]
    relation = "add-remove" if counted else "replace-one"
    parties = parties_of(make_party, neighbours=relation)
    here = protocol(LocalFederation(parties, run="here"))
    there = protocol(FlowerFederation(FakeGrid(parties), run="there"))
    np.testing.assert_array_equal(here, there)
    again = protocol(FlowerFederation(FakeGrid(parties), run="there"))
    np.testing.assert_array_equal(again, there)
    for party in parties:
        assert party.books.ledger.spent("study") == pytest.approx(2.0)


def test_a_node_is_who_it_was_registered_as(make_party):
    parties = parties_of(make_party)
    grid = FakeGrid(parties[::-1])
    federation = FlowerFederation(grid)
    assert federation.parties() == ["a", "b", "c"]
    assert list(federation.ask("size", Payload(), to=["b"])) == ["b"]
    with pytest.raises(InvalidParameter):
        federation.ask("size", Payload(), to=["z"])
    grid.names[100], grid.names[102] = "a", ""
    assert FlowerFederation(grid).parties() == ["a", "b"]
    # The node that was registered as a is c's, and cannot answer for a.
    assert FlowerFederation(grid).ask("size", Payload())["a"] == PartyError("InvalidReply")


def test_two_nodes_cannot_be_one_party(make_party):
    party = make_party("a")
    with pytest.raises(FederationError):
        FlowerFederation(FakeGrid([party, party])).parties()


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("late", "Timeout"),
        ("gone", "Unreachable"),
        ("raised", "NodeFailed"),
        ("garbage", "InvalidReply"),
        ("stranger", "InvalidReply"),
        ("empty", "NodeFailed"),
    ],
)
def test_what_goes_wrong_has_a_code(make_party, fault, code):
    grid = FakeGrid(parties_of(make_party))
    federation = FlowerFederation(grid)
    federation.parties()
    grid.broken[101] = fault
    answers = federation.ask("size", Payload(), timeout=0.05)
    assert answers["b"] == PartyError(code)
    assert isinstance(answers["a"], Payload)
    with pytest.raises(QuorumMissed, match=f"b: {code}"):
        federation.gather("size", Payload(), timeout=0.05)


@pytest.mark.parametrize("faults", [["gone"], ["late"], ["late", "gone", "gone"]])
def test_a_node_that_lost_the_question_is_asked_again(make_party, monkeypatch, faults):
    monkeypatch.setattr(engine, "AGAIN_SECONDS", 0.02)
    parties = parties_of(make_party)
    grid = FakeGrid(parties)
    federation = FlowerFederation(grid, run="there")
    federation.parties()
    grid.broken[101] = list(faults)
    weights = PROTOCOLS["average"](federation)
    np.testing.assert_array_equal(weights, PROTOCOLS["average"](LocalFederation(parties)))
    for party in parties:
        assert party.books.ledger.spent("study") == 2.0


def test_a_node_that_is_away_is_asked_when_it_is_back(make_party):
    grid = FakeGrid(parties_of(make_party))
    federation = FlowerFederation(grid)
    federation.parties()
    grid.away, grid.broken[101] = {102}, ["gone"]
    back = threading.Timer(0.1, grid.away.clear)
    back.start()
    before = grid.sent
    assert all(isinstance(a, Payload) for a in federation.ask("size", Payload()).values())
    assert grid.sent == before + 4
    grid.away = {102}
    assert federation.ask("size", Payload(), timeout=0.05)["c"] == PartyError("Timeout")


def test_a_party_refuses_over_the_wire_as_it_does_at_home(make_party):
    party = make_party("a", operations={"size"}, study="fingerprint")
    grid = FakeGrid([party])
    assert FlowerFederation(grid).ask("size", Payload())["a"] == PartyError(
        "OperationRefused:study"
    )
    federation = FlowerFederation(grid, schema="fingerprint")
    assert isinstance(federation.ask("size", Payload())["a"], Payload)
    assert federation.ask("errors", Payload())["a"] == PartyError("OperationRefused:operation")
    assert party.books.ledger.spent("study") == 0


def test_messages_that_are_not_ours_do_no_harm(make_party):
    party = make_party("a")
    app = party_app(lambda _: party)
    context = Context(1, 5, {}, RecordDict(), {})
    for content in (
        RecordDict(),
        RecordDict({"other": ConfigRecord({"question": b"x"})}),
        RecordDict({RECORD: ConfigRecord({"question": "text"})}),
        RecordDict({RECORD: ConfigRecord({"question": b"\x00garbage"})}),
    ):
        message = Message(content, dst_node_id=5, message_type="query.confrere")
        reply = app(message, context)
        assert reply.content[RECORD]["party"] == "a"
    assert party.books.ledger.entries() == []


def test_a_killed_coordinator_resumes_over_flower(make_party, tmp_path):
    parties = parties_of(make_party)
    plan = Averaging(frame=FRAME, epsilon=1.0, rounds=2)
    grid = FakeGrid(parties)

    def connect(run):
        return FlowerFederation(grid, run=run)

    first = average(Journalled(connect, tmp_path / "journal"), plan)
    sent = grid.sent
    second = average(Journalled(connect, tmp_path / "journal"), plan)
    assert grid.sent == sent
    np.testing.assert_array_equal(first.weights, second.weights)
    assert parties[0].books.ledger.spent("study") == 1.0


def test_the_node_configuration_names_the_party_file(tmp_path):
    from confrere.ledger import Ledger

    X, y = make_data(20)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    Ledger(tmp_path / "books.ledger").open_account("study", epsilon=1.0)
    (tmp_path / "party.toml").write_text(
        'name = "St. Anna"\ndata = "rows.npz"\nledger = "books.ledger"\naccount = "study"\n'
        'answers = "answers.db"\noperations = ["size"]\nunit = "record"\nrelation = "replace-one"\n'
    )
    context = Context(1, 5, {"party": str(tmp_path / "party.toml")}, RecordDict(), {})
    message = Message(
        RecordDict({RECORD: ConfigRecord({"question": b""})}),
        dst_node_id=5,
        message_type="query.confrere",
    )
    assert party_app()(message, context).content[RECORD]["party"] == "St. Anna"
