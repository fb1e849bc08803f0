"""The party's side: policy, charge, answer, in that order, once; and what a kill leaves."""

from base64 import b64encode

import numpy as np
import pytest

from confrere.data.frame import Frame
from confrere.errors import FederationError, InvalidParameter, OperationRefused, QuorumMissed
from confrere.kernel.accountants import Logistic
from confrere.ledger import Ledger
from confrere.methods.asking import Size
from confrere.methods.average import Averaging, Weights
from confrere_federation.parties.answers import Answers, Key
from confrere_federation.parties.messages import Question, split_parts
from confrere_federation.parties.party import PartyAccounts, Policy, serve
from confrere_federation.parties.requests import request_for
from tests.wire.signed_run import COLUMNS, Loopback, Organisations
from tests.world import each

KEY = Key("run", "objective", 0)


@pytest.fixture
def answers(tmp_path):
    return Answers(tmp_path / "clinic.answers")


def claim(answers, key=KEY, *, question="q", epsilon=1.0, cap=None):
    return answers.claim(key, question=question, epsilon=epsilon, cap=cap)


def test_the_first_answer_stays(answers):
    assert claim(answers).answer is None
    assert answers.keep(KEY, b"first") == b"first"
    assert answers.keep(KEY, b"second") == b"first"
    assert claim(answers).answer == b"first"
    assert answers.fail(KEY, "Late") == b"first"
    assert claim(answers).failure is None


def test_a_failure_stays(answers):
    claim(answers)
    assert answers.fail(KEY, "Broken") is None
    assert claim(answers).failure == "Broken"
    with pytest.raises(FederationError):
        answers.keep(KEY, b"late")


def test_a_claim_can_be_withdrawn_until_it_is_answered(answers):
    claim(answers)
    answers.withdraw(KEY)
    assert answers.asked() == set()
    claim(answers, question="other")
    answers.keep(KEY, b"x")
    answers.withdraw(KEY)
    assert claim(answers, question="other").answer == b"x"
    with pytest.raises(OperationRefused):
        claim(answers)


def test_who_asks_for_ever_fills_no_disk(answers):
    for _ in range(100):
        claim(answers)
        answers.withdraw(KEY)
    size = answers.path.stat().st_size
    with pytest.raises(OperationRefused):
        claim(answers)
    assert answers.path.stat().st_size == size
    claim(answers, KEY._replace(step=7))


def test_a_file_that_was_changed_or_put_back_is_refused(answers, tmp_path):
    claim(answers)
    before = answers.path.read_bytes()
    answers.keep(KEY, b"first")
    whole = answers.path.read_bytes()
    changed = whole.replace(b64encode(b"first"), b64encode(b"other"))
    assert changed != whole
    (tmp_path / "changed").write_bytes(changed)
    with pytest.raises(FederationError, match="was changed"):
        Answers(tmp_path / "changed")
    answers.path.write_bytes(before)
    with pytest.raises(FederationError, match="rolled back"):
        claim(answers)


def test_what_a_kill_left_of_a_row_is_no_row(answers, tmp_path):
    claim(answers)
    answers.keep(KEY, b"first")
    for cut in range(1, 60, 7):
        (tmp_path / f"cut{cut}").write_bytes(answers.path.read_bytes()[:-cut])
        left = Answers(tmp_path / f"cut{cut}")
        assert claim(left).answer is None
        assert left.keep(KEY, b"second") == b"second"


def release(epsilon=0.5, *, d=3, **changes):
    settings = {"frame": Frame(d), "epsilon": epsilon, "ridge": 5.0, "loss": Logistic(0.5)}
    settings |= {"neighbours": "replace-one", "declared": 0} | changes
    return request_for(Weights(**settings))


#: Whoever answers does not tell how many records there are.
HIDDEN = release(neighbours="add-remove", declared=50)


def spent(party):
    return party.books.ledger.spent("study")


def states(party):
    return [entry.state for entry in party.books.ledger.entries("study")]


@pytest.mark.parametrize(
    ("policy", "asked", "reason"),
    [
        # The coordinator chooses neither relation (under add-remove noise was half) nor unit.
        ({}, {"asked": HIDDEN}, "relation"),
        ({"neighbours": "add-remove"}, {}, "relation"),
        ({"neighbours": "add-remove"}, {"asked": request_for(Size())}, "relation"),
        ({"unit": "party"}, {}, "unit"),
        ({"unit": "party"}, {"asked": request_for(Size())}, "relation"),
        ({"delta_per_answer": 1e-7}, {"asked": release(delta=1e-6)}, "price"),
        ({"operations": {"size"}}, {}, "operation"),
        ({"operations": set()}, {}, "operation"),
        ({"epsilon_per_run": 0.4}, {}, "price"),
        ({"study": "abc"}, {}, "study"),
        ({"study": "abc"}, {"study": "abd"}, "study"),
        ({}, {"study": "abc"}, "study"),
        ({"runs": {"r2"}}, {}, "run"),
        ({}, {"step": -1}, "step"),
        ({}, {"step": 10**9}, "step"),
    ],
)
def test_the_policy_refuses(make_party, policy, asked, reason):
    party = make_party(**policy)
    with pytest.raises(OperationRefused) as caught:
        serve(**{"asked": release(), "local": party, "run": "r1"} | asked)
    assert caught.value.reason == reason
    assert states(party) == []
    assert party.books.answers.asked() == set()


def test_the_cap_of_a_run_counts_all_its_questions(make_party):
    party = make_party(epsilon_per_run=1.0)
    serve(release(0.5), party, run="r1")
    serve(release(0.5), party, run="r1", step=1)
    with pytest.raises(OperationRefused):
        serve(release(0.1), party, run="r1", step=2)
    assert spent(party) == 1.0
    serve(release(0.5), party, run="r2")
    assert spent(party) == 1.5


def test_a_policy_is_empty_unless_said_otherwise():
    said = {"operations": {"size"}, "unit": "record", "neighbours": "replace-one"}
    lacking = [{k: v for k, v in said.items() if k != name} for name in said]
    wrong = each(unit=("person",), neighbours=("any",), more=(1,))
    for facts in ({}, *lacking, *(said | one for one in wrong)):
        with pytest.raises(InvalidParameter, match="policy: "):
            Policy(**facts)
    with pytest.raises(InvalidParameter, match="epsilon_per_run"):
        Policy(**said | {"epsilon_per_run": 0.0})
    for facts in ({"ledger": None, "policy": Policy(**said)}, {"ledger": Ledger(), "policy": None}):
        with pytest.raises(InvalidParameter):
            PartyAccounts(account="study", **facts)


PLAN = Averaging(frame=Frame(COLUMNS), epsilon=1.0, rounds=3)


class Flaky(Loopback):
    """Loses party c in the first round, and is killed in the last."""

    def exchange(self, questions, timeout):
        question = Question.decode(split_parts(next(iter(questions.values())))[0])
        replies = dict(super().exchange(questions, timeout))
        if (question.operation, question.step) == ("objective", 0):
            replies["c"] = "Timeout"
        if question.step == 2:
            raise KeyboardInterrupt
        return replies


def test_it_resumes_under_the_same_run_and_nobody_pays_twice(tmp_path):
    there = Organisations(tmp_path, plan=PLAN)
    with pytest.raises(KeyboardInterrupt):
        there.learn(there.federation(carrier=Flaky(there.sessions)))
    spent = [there.spent(name) for name in there.names]
    # Without what was gathered, party c would now be in the first average and change the second
    # question, which the others would refuse.
    with pytest.raises(QuorumMissed, match="OperationRefused:changed"):
        there.learn(there.federation(journal="new"))
    outcome = there.learn(there.federation())
    again = there.learn(there.federation(carrier=Loopback({})))
    np.testing.assert_array_equal(outcome.weights, again.weights)
    assert spent == pytest.approx([1.0, 1.0, 1.0])
    assert [there.spent(name) for name in there.names] == spent


def test_without_a_lifetime_cap_there_is_no_federation(tmp_path):
    there = Organisations(tmp_path)
    ledger = Ledger(tmp_path / "uncapped.ledger")
    ledger.open_account("study", unit="record", neighbours="replace-one")
    there.ledger = lambda _: ledger
    with pytest.raises(InvalidParameter, match="no lifetime cap"):
        there.session("a")
    del there.ledger
    with pytest.raises(InvalidParameter, match="another party's"):
        there.session("a", approval={"party": "b"})
    with pytest.raises(InvalidParameter, match="names for this party"):
        there.session("a", key=there.keys["b"])
