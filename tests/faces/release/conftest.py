"""A small release of each kind, with a ledger behind it."""

import pytest

from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger
from confrere.model import Facts
from confrere.release import Release, Simulated, generate_key
from tests.faces.model.examples import linear, stack

GUARANTEE = Guarantee(
    epsilon=1.0,
    theorem="docs/proofs/objective_perturbation.md",
    public=("number of records", "label set"),
    assumptions=("each person is in at most one record",),
)


@pytest.fixture
def ledger(tmp_path_factory):
    own = Ledger(tmp_path_factory.mktemp("books") / "own.ledger")
    own.open_account("checkups", epsilon=3.0)
    own.charge("checkups", Guarantee(epsilon=0.5), purpose="an earlier one")
    return own


@pytest.fixture
def receipt(ledger):
    return ledger.charge("checkups", GUARANTEE, purpose="diabetes")


@pytest.fixture
def make_release(receipt):
    def make(**changes: object):
        parts: dict = {
            "kind": "test-linear",
            "model": linear(facts=Facts(data_norm=1.5, n_samples=100)),
            "guarantee": GUARANTEE,
            "receipt": receipt,
        }
        made = Simulated if changes.pop("simulated", False) else Release
        return made(**{**parts, **changes})

    return make


@pytest.fixture
def release(make_release):
    return make_release()


@pytest.fixture
def stack_release(make_release):
    return make_release(kind="test-stack", model=stack())


@pytest.fixture
def key_pair(tmp_path):
    public = generate_key(tmp_path / "party_key", "main")
    return tmp_path / "party_key", public
