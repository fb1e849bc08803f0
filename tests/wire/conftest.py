import numpy as np
import pytest

from confrere.ledger import Ledger
from confrere_federation.parties.answers import Answers
from confrere_federation.parties.party import LocalParty, PartyAccounts, Policy
from confrere_federation.parties.requests import OPERATIONS


def make_data(n, d=3, seed=0):
    """Rows in the unit ball and labels that mostly follow the first column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / 3
    y = np.where(X[:, 0] + 0.2 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


def loose_books(unit="record", neighbours="replace-one", **policy):
    """PartyAccounts of a ledger that is nowhere: whatever is installed is answered and paid for."""
    ledger = Ledger()
    ledger.open_account("test", unit=unit, neighbours=neighbours)
    allowed = Policy.anything(unit=unit, neighbours=neighbours, **policy)
    return PartyAccounts(ledger=ledger, account="test", policy=allowed)


@pytest.fixture
def make_party(tmp_path):
    """Make a party with durable books of its own."""

    def make(name="clinic", n=40, *, seed=0, cap=10.0, random_state=None, d=3, **policy):
        policy = {
            "operations": frozenset(OPERATIONS),
            "unit": "record",
            "neighbours": "replace-one",
        } | policy
        ledger = Ledger(tmp_path / f"{name}.ledger")
        ledger.open_account(
            "study", epsilon=cap, unit=policy["unit"], neighbours=policy["neighbours"]
        )
        books = PartyAccounts(
            ledger=ledger,
            account="study",
            policy=Policy(**policy),
            answers=Answers(tmp_path / f"{name}.answers"),
        )
        return LocalParty(name, *make_data(n, d, seed), books, random_state)

    return make


@pytest.fixture
def party(make_party):
    return make_party()
