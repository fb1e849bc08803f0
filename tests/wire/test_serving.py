"""The party's side: policy, charge, answer, in that order, once."""

import threading

import pytest

from confrere.data.frame import Frame
from confrere.errors import InvalidParameter, OperationRefused
from confrere.kernel.losses import Logistic
from confrere.ledger import Ledger
from confrere.methods.asking import Size
from confrere.methods.average import Weights
from confrere_federation.parties.party import PartyAccounts, Policy, serve
from confrere_federation.parties.requests import request_for
from tests.world import each


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


def test_threads_that_ask_the_same_get_the_same(party):
    answers = []

    def ask():
        answers.append(serve(release(), party, run="r1").encode())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert len(set(answers)) == 1
    assert spent(party) == 0.5


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
