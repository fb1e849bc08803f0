"""Counts of raw rows for Table 1, asked of parties: what moves them, and who may ask for which."""

import numpy as np
import pandas as pd
import pytest

from confrere.assurance.cohort import CohortCounts
from confrere.errors import InvalidMessage
from confrere.kernel.guarantee import Neighbours, Unit
from confrere.ledger import Ledger
from confrere.methods.design import AddRemove
from confrere.schema import Category, Label, Number, PublicSchema
from confrere_federation.parties.cohort import CohortProtocol
from confrere_federation.parties.federation import LocalFederation
from confrere_federation.parties.party import LocalParty, PartyAccounts, Policy
from confrere_federation.parties.requests import RawRows, request_for

SCHEMA = PublicSchema(
    [Number("age", bounds=(0, 120)), Category("job", values=["a", "b"])],
    outcome=Label("ill", positive=1),
)
EPSILON = 2.0
HIDDEN = {"neighbours": AddRemove(3_000)}
trusts = pytest.mark.parametrize("trust", ["own noise", "sum"])
relations = pytest.mark.parametrize("told", [{}, HIDDEN], ids=["replace-one", "add-remove"])


def people(seed, n=3_000):
    rng = np.random.default_rng(seed)
    jobs = rng.choice(["a", "b"], n, p=[0.7, 0.3])
    ages = rng.normal(40 + 10 * seed, 10, n)
    return pd.DataFrame({"age": ages, "job": jobs, "ill": rng.choice([0, 1], n, p=[0.8, 0.2])})


def federation(neighbours):
    parties = []
    for seed, name in enumerate("pqr"):
        table, ledger = people(seed), Ledger()
        ledger.open_account(name, neighbours=neighbours)
        policy = Policy.anything(unit=Unit.RECORD, neighbours=neighbours)
        books = PartyAccounts(ledger=ledger, account=name, policy=policy)
        raw = RawRows(SCHEMA.fingerprint(), CohortCounts(SCHEMA).sums(table))
        parties.append(
            LocalParty(name, np.zeros((3_000, 1)), SCHEMA.label(table), books, 7, raw=raw)
        )
    return LocalFederation(parties, on_error="raise"), parties


@trusts
@relations
def test_the_noise_follows_from_the_schema_and_from_nobody_s_word(trust, told):
    asked = CohortProtocol(EPSILON, SCHEMA, trust=trust, max_retries=0, **told).asked(3, 3_000)
    # One record is replaced by its opposite, or is there.
    worst = pd.DataFrame({"age": [120.0, 10.0], "job": ["a", "b"], "ill": [1, 0]})
    sums = [
        CohortCounts(SCHEMA).sums(table) for table in (worst[:1], worst[:0] if told else worst[1:])
    ]
    steps = np.abs(sums[0] - sums[1]).sum() / getattr(asked.mechanism, "spacing", 1.0)
    assert 0.99 <= steps / asked.mechanism.scale / EPSILON <= 1.0
    # The schema by which it is counted is in the question, and so is nothing that sets the noise.
    said = request_for(asked).payload.values
    assert said["schema"] == SCHEMA.fingerprint()
    assert not said.keys() & {"sensitivity", "scale", "moved"}


@trusts
def test_a_party_counts_its_own_schema_only(trust):
    other = PublicSchema([Number("age", bounds=(0, 1))], Label("ill", positive=1))
    asked, _ = federation(Neighbours.REPLACE_ONE)
    with pytest.raises(InvalidMessage, match="no raw rows of that schema"):
        asked.run_protocol(CohortProtocol(EPSILON, other, trust=trust).steps("pqr"))


@relations
def test_a_sensitivity_that_is_too_small_is_found(monkeypatch, told):
    right = CohortCounts.longest.fget
    monkeypatch.setattr(CohortCounts, "longest", property(lambda self: int(0.95 * right(self))))
    with pytest.raises(AssertionError):
        test_the_noise_follows_from_the_schema_and_from_nobody_s_word("sum", told)
