"""Facts as one sum over all parties: what is summed, who may ask, how rows are encoded after."""

import json

import numpy as np
import pandas as pd
import pytest

from confrere.errors import InvalidMessage, InvalidParameter
from confrere.federation import Books, LocalFederation, LocalParty, Policy
from confrere.federation.operation import PartyFacts
from confrere.federation.payload import Payload
from confrere.federation.summed_counts import settings_of_count
from confrere.federation.summed_facts import FACTS, RawRows, fact_sum, learn_together
from confrere.federation.transcript import rehearse
from confrere.guarantee import Neighbours, Unit
from confrere.ledger import Ledger
from confrere.schema import Category, Label, Number, PublicSchema
from confrere.schema.fact_counts import FactCounts

SCHEMA = PublicSchema(
    [Number("age", bounds=(0, 120)), Category("job", values=["a", "b"])],
    outcome=Label("ill", positive=1),
)
EPSILON = 2.0


def people(seed, n=3_000):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(40 + 10 * seed, 10, n),
            "job": rng.choice(["a", "b"], n, p=[0.7, 0.3]),
            "ill": rng.choice([0, 1], n, p=[0.8, 0.2]),
        }
    )


def federation(**more):
    parties = []
    for seed, name in enumerate("pqr"):
        table, ledger = people(seed), Ledger()
        ledger.open_account(name)
        policy = Policy.anything(unit=Unit.RECORD, neighbours=Neighbours.REPLACE_ONE)
        books = Books(ledger=ledger, account=name, policy=policy)
        raw = RawRows(
            FactCounts(SCHEMA),
            FactCounts(SCHEMA).sums(table),
            lambda schema, table=table: schema.encoder().transform(table),
        )
        X, y = SCHEMA.encoder().transform(table), SCHEMA.label(table)
        parties.append(LocalParty(name, X, y, books, 7 + seed, **({"raw": raw} | more)))
    return LocalFederation(parties, on_error="raise"), parties


def test_facts_are_those_of_all_records_and_everyone_pays_once():
    asked, parties = federation()
    learned = learn_together(asked, SCHEMA, epsilon=EPSILON)
    everyone = pd.concat([people(seed) for seed in range(3)])
    age, job = learned.features
    assert age.mean == pytest.approx(everyone["age"].mean(), abs=0.5)
    assert age.sd == pytest.approx(everyone["age"].std(), abs=0.5)
    assert job.shares == pytest.approx((0.7, 0.3), abs=0.01)
    assert learned.outcome.base_rate == pytest.approx(0.2, abs=0.01)
    assert [one.books.ledger.spent(one.name) for one in parties] == [EPSILON] * 3
    assert set(learned.paid[0].receipts) == {"p", "q", "r"}
    rows = asked._parties["q"].X
    np.testing.assert_array_equal(rows, learned.encoder().transform(people(1)))


def test_the_noise_follows_from_the_schema_and_from_nobody_s_word():
    counts = FactCounts(SCHEMA)
    values = settings_of_count(EPSILON, 3, 1, 0, 1.0, 3_000)
    mechanism = fact_sum(values, counts)
    assert mechanism.sensitivity == counts.sensitivity
    assert mechanism.size == counts.size
    assert mechanism.scale * mechanism.spacing >= counts.sensitivity / EPSILON
    text = json.dumps(SCHEMA.to_dict(), sort_keys=True, separators=(",", ":"))
    facts = PartyFacts(3_000, 3)
    assert FACTS.mechanism(Payload(values, written(text)), facts) == mechanism
    wrong = [
        Payload(values | {"schema": text}),
        Payload(values, written("{}")),
        Payload(values, written("[" * 100_000)),
        Payload(values, {"schema": np.ones(3)}),
        Payload(values | {"sensitivity": 1}, written(text)),
        Payload(values, written(text) | {"more": np.ones(1)}),
    ]
    for request in wrong:
        with pytest.raises(InvalidMessage):
            FACTS.mechanism(request, facts)


def written(text):
    return {"schema": np.frombuffer(text.encode(), dtype=np.uint8)}


def test_a_schema_may_have_many_columns():
    columns = [Number(f"laboratory value {k}", bounds=(0, 100)) for k in range(400)]
    wide = PublicSchema(columns, Label("ill", positive=(1,)))
    asked = rehearse(lambda f: learn_together(f, wide, epsilon=1.0), "pqr", "5" * 64, 400)
    assert [one.operation for one in asked] == ["size", "ready", "facts_of_all"]


def test_a_party_counts_its_own_schema_only():
    other = PublicSchema([Number("age", bounds=(0, 1))])
    asked, parties = federation()
    with pytest.raises(InvalidMessage, match="no raw rows of that schema"):
        learn_together(asked, other, epsilon=EPSILON)
    with pytest.raises(InvalidParameter, match="cannot encode"):
        LocalParty("p", parties[0].X, parties[0].y, parties[0].books).encoded_by(SCHEMA)
