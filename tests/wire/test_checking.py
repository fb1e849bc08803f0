"""The check of a prior, asked of parties: prices, bounds, and requests that do not fit."""

import numpy as np
import pytest

from confrere.data.frame import Frame
from confrere.kernel.guarantee import exact
from confrere.ledger import Ledger
from confrere.methods.average import Averaging
from confrere.methods.priors import Prior
from confrere_federation.parties.federation import LocalFederation, dry_run
from confrere_federation.parties.party import LocalParty, PartyAccounts, Policy
from tests.wire.rounds import collaborate

COEF = np.array([2.0, 1.0, 0.0])


def plan(epsilon=1.0, **settings):
    prior = Prior(COEF)
    return Averaging(frame=Frame(3), epsilon=epsilon, prior=prior, checked=True, **settings)


def federation(sign=1.0, n_parties=3):
    rng = np.random.default_rng(0)
    parties = []
    for k in range(n_parties):
        X = rng.normal(size=(800, 3)) / 2
        y = np.where(X @ (sign * COEF) + rng.logistic(size=800) > 0, 1.0, -1.0)
        ledger = Ledger()
        ledger.open_account("all", epsilon=1.0)
        policy = Policy(
            operations=("size", "check", "objective"), unit="record", neighbours="replace-one"
        )
        parties.append(
            LocalParty(
                f"p{k}", X, y, books=PartyAccounts(ledger=ledger, policy=policy, account="all")
            )
        )
    return parties, LocalFederation(parties, on_error="raise")


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_every_party_pays_for_check_and_weights_out_of_one_epsilon(sign):
    _, asked = federation(sign)
    outcome = collaborate(asked, plan())
    for paid in outcome.receipts.values():
        spent = [exact(receipt.guarantee.epsilon) for receipt in paid]
        assert len(spent) == 2
        assert exact(0.99) < sum(spent) <= exact(1.0)
    assert np.sign(outcome.prior.factor) == sign
    assert outcome.prior.verifiable
    assert np.sign(outcome.frame.coefficients(outcome.weights)[0][0]) == sign


def test_what_follows_from_answers_is_known_to_be_derived():
    made = plan()
    requests = dry_run(made.steps, ["a", "b"], "0" * 64)["a"]
    by_name = {request.operation: request for request in requests}
    assert by_name["check"].derived == ("epsilon",)  # of how many records all have
    assert {"epsilon", "ridge", "centre"} <= set(by_name["objective"].derived)
    assert by_name["check"].epsilon + by_name["objective"].epsilon == pytest.approx(1.0)
