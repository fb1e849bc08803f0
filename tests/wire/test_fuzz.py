"""Whatever comes over the wire, a party answers or refuses; it never crashes and never pays."""

import random

import numpy as np
import pytest

from confrere.data.frame import Frame
from confrere.errors import ConfrereError
from confrere.kernel.guarantee import Neighbours
from confrere.ledger import Ledger
from confrere.methods.asking import Sizes
from confrere.methods.average import Averaging, Expansion
from confrere_federation.parties import federation
from confrere_federation.parties.answers import Answers
from confrere_federation.parties.messages import PartyError, Payload, Question, refusal, refused
from confrere_federation.parties.party import LocalParty, PartyAccounts, Policy, serve
from confrere_federation.parties.requests import OPERATIONS, request_for
from tests.wire.conftest import make_data
from tests.wire.signed_run import STUDY, Organisations

SIZES = Sizes({"a": 40}, Neighbours.REPLACE_ONE)
#: Refused before anything is spent, whatever the bytes.
HARMLESS = ("InvalidMessage", "InvalidParameter", "OperationRefused:", "InvalidReply")


def questions():
    frame = Frame(3, feature_scale=np.array([1.0, 0.5, 2.0]))
    objective = Averaging(frame=frame, epsilon=0.5, prior=np.ones(4)).request(SIZES, np.ones(4))
    output = Averaging(frame=frame, epsilon=0.5, perturb="output").request(SIZES, None)
    requests = {
        "objective": request_for(objective).write(),
        "output": request_for(output).write(),
        "coefficients": request_for(Expansion(frame=frame, epsilon=0.5).asked(SIZES)).write(),
        "errors": Payload({"epsilon": 0.5, "intercept": 0.0}, {"coef": np.ones(3)}),
        "size": Payload(),
    }
    return [
        Question(run="run", study=STUDY, operation=name, payload=payload).encode()
        for name, payload in requests.items()
    ]


def guarded_party(tmp_path):
    """A party that may do everything, but whose account is empty: a spend would be an error."""
    ledger = Ledger(tmp_path / "books")
    ledger.open_account("study", epsilon=1e-300)
    policy = Policy(
        operations=frozenset(OPERATIONS) - {"size"},
        unit="record",
        neighbours="replace-one",
        study=STUDY,
    )
    books = PartyAccounts(
        ledger=ledger, account="study", policy=policy, answers=Answers(tmp_path / "answers")
    )
    return LocalParty("clinic", *make_data(40), books)


def mutated(content, chance):
    """Return bytes near a message: flips, cuts, doublings, splices and changed numbers."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        kind = chance.randrange(6)
        at = chance.randrange(len(data)) if data else 0
        if kind == 0 and data:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1 and data:
            data[at] = chance.randrange(256)
        elif kind == 2:
            del data[at : at + chance.randrange(1, 20)]
        elif kind == 3:
            data[at:at] = chance.randbytes(chance.randrange(1, 20))
        elif kind == 4 and data:
            data[at:at] = data[at : at + chance.randrange(1, 40)]
        else:
            old, new = chance.choice(
                [(b"0.5", b"9.5"), (b"0.4", b"4.0"), (b"3", b"4"), (b"l2", b"l1"), (b":1", b":2"),
                 (b"tight", b"wrong"), (b"<f8", b"<i8"), (b"null", b"true"), (b"run", b"nur")]
            )  # fmt: skip
            data = bytearray(bytes(data).replace(old, new))
    return bytes(data)


def fuzz(tmp_path, count, seed):
    chance = random.Random(seed)
    party = guarded_party(tmp_path)
    originals = questions()
    codes = {}
    for _ in range(count):
        if chance.random() < 0.1:
            content = chance.randbytes(chance.randrange(200))
        else:
            content = mutated(chance.choice(originals), chance)
        if content in originals:
            continue
        code = refused_code(content, party)
        codes[code] = codes.get(code, 0) + 1
    return party, codes


def refused_code(content, party):
    """Serve a question as a session does whose signature was right; return why it says no."""

    def handle():
        asked = Question.decode(content)
        where = {name: getattr(asked, name) for name in ("run", "step", "study")}
        serve(asked.operation, asked.payload, party, **where)

    with pytest.raises(ConfrereError) as caught:
        handle()
    return PartyError.of(caught.value).code


def check(party, codes):
    # A mutation may leave a fair question: that one meets the empty account, and nothing else.
    strange = [c for c in codes if not c.startswith(HARMLESS) and c != "BudgetExceeded"]
    assert strange == []
    assert {"InvalidMessage", "OperationRefused:study", "BudgetExceeded"} <= codes.keys()
    assert party.books.ledger.entries() == []
    assert party.books.answers.asked() == set()


def test_3000_mutated_messages(tmp_path):
    check(*fuzz(tmp_path, 3_000, seed=1))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_100000_mutated_messages(tmp_path):
    check(*fuzz(tmp_path, 100_000, seed=2))


def test_replies_that_are_not_refusals():
    for content in (
        b"",
        b"hello",
        Payload({"a": 1}).encode(),
        Payload({"error": "two words"}).encode(),
        Payload({"error": 1}).encode(),
        Payload({"error": "Code"}, {"more": np.ones(1)}).encode(),
    ):
        assert refused(content) is None
    assert refused(refusal(PartyError("Code"))) == PartyError("Code")


def test_an_error_inside_stays_inside(tmp_path, monkeypatch):
    there = Organisations(tmp_path)

    def broken(*args, **kwargs):
        raise ZeroDivisionError("patient 17 is 103 years old")

    monkeypatch.setattr(federation, "answer", broken)
    question = Question(run=there.run, study=STUDY, operation="size", payload=Payload())
    reply = there.sessions["a"].handle(question.sign(there.coordinator))
    assert b"103" not in reply
    assert refused(reply) == PartyError("InternalError")
