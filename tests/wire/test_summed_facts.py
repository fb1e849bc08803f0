"""Facts as one sum over all parties: what is summed, who may ask, how rows are encoded after."""

import json

import numpy as np
import pandas as pd
import pytest

from confrere.data.fact_counts import FactCounts
from confrere.errors import InvalidMessage, InvalidParameter
from confrere.kernel.guarantee import Neighbours, Unit
from confrere.ledger import Ledger
from confrere.schema import Category, Label, Number, PublicSchema
from confrere_federation.parties import LocalFederation, LocalParty, PartyAccounts, Policy
from confrere_federation.parties.federation import dry_run, facts_together
from confrere_federation.parties.messages import Payload
from confrere_federation.parties.requests import (
    FactsOfAll,
    PartyFacts,
    RawRows,
    installed,
    request_for,
)

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


def federation(unit=Unit.RECORD, neighbours=Neighbours.REPLACE_ONE, **more):
    parties = []
    for seed, name in enumerate("pqr"):
        table, ledger = people(seed), Ledger()
        ledger.open_account(name, unit=unit, neighbours=neighbours)
        policy = Policy.anything(unit=unit, neighbours=neighbours)
        books = PartyAccounts(ledger=ledger, account=name, policy=policy)
        raw = RawRows(FactCounts(SCHEMA), FactCounts(SCHEMA).sums(table), len(table))
        X, y = SCHEMA.encoder().transform(table), SCHEMA.label(table)
        own = {"raw": raw, "encode": lambda encoder, table=table: encoder.transform(table)}
        parties.append(LocalParty(name, X, y, books, 7 + seed, **(own | more)))
    return LocalFederation(parties, on_error="raise"), parties


def test_the_noise_follows_from_the_schema_and_from_nobody_s_word():
    counts = FactCounts(SCHEMA)
    text = json.dumps(SCHEMA.to_dict(), sort_keys=True, separators=(",", ":"))
    asked = asked_for("record", text)
    values, mechanism = request_for(asked).write().values, asked.mechanism
    assert mechanism.sensitivity == counts.sensitivity
    assert mechanism.size == counts.size
    assert mechanism.scale * mechanism.spacing >= counts.sensitivity / EPSILON
    facts = PartyFacts(3_000, 3)
    assert (
        installed("facts_of_all").read(Payload(values, written(text)), facts).mechanism == mechanism
    )
    wrong = [
        Payload(values | {"schema": text}),
        Payload(values, written("{}")),
        Payload(values, written("[" * 100_000)),
        Payload(values, {"schema": np.ones(3)}),
        Payload(values | {"sensitivity": 1}, written(text)),
        Payload(values | {"hides": "nothing"}, written(text)),
        Payload(values | {"hides": "party"}, written(text)),
        Payload(values, written(text) | {"more": np.ones(1)}),
    ]
    for request in wrong:
        with pytest.raises(InvalidMessage):
            installed("facts_of_all").read(request, facts)


def test_where_records_come_and_go_their_number_is_counted_and_nobody_tells_it():
    hidden = {"unit": Unit.RECORD, "neighbours": Neighbours.ADD_REMOVE}
    asked, parties = federation(**hidden)
    learned = asked.run_protocol(facts_together("pqr", SCHEMA, epsilon=EPSILON, **hidden))
    everyone = pd.concat([people(seed) for seed in range(3)])
    age, job = learned.features
    assert age.mean == pytest.approx(everyone["age"].mean(), abs=0.5)
    assert job.shares == pytest.approx((0.7, 0.3), abs=0.01)
    for one in parties:
        (entry,) = one.books.ledger.entries()
        assert entry.guarantee.neighbours is Neighbours.ADD_REMOVE
        assert "size of every party" not in entry.guarantee.public
    steps = dry_run(
        lambda names: facts_together(names, SCHEMA, epsilon=1.0, **hidden), "pqr", "5" * 64, 3
    )["p"]
    assert [one.operation for one in steps] == ["facts_of_all"]


def test_where_whole_parties_are_hidden_facts_are_means_of_their_means():
    hidden = {"unit": Unit.PARTY, "neighbours": Neighbours.REPLACE_ONE}
    asked, parties = federation(unit=Unit.PARTY)
    learned = asked.run_protocol(facts_together("pqr", SCHEMA, epsilon=1e5, **hidden))
    age, _ = learned.features
    means = [people(seed)["age"].clip(0, 120).mean() for seed in range(3)]
    assert age.mean == pytest.approx(np.mean(means), abs=0.1)
    assert learned.outcome.base_rate == pytest.approx(0.2, abs=0.02)
    for one in parties:
        (entry,) = one.books.ledger.entries()
        assert entry.guarantee.unit is Unit.PARTY
    steps = dry_run(
        lambda names: facts_together(names, SCHEMA, epsilon=1.0, **hidden), "pqr", "5" * 64, 3
    )["p"]
    assert [one.operation for one in steps] == ["facts_of_all"]


#: What is hidden, and two data sets of a party: one record, or all of them, change.
WORST = {
    "presence": (
        pd.DataFrame({"age": [120.0, 10.0], "job": ["a", "b"], "ill": [1, 0]}),
        pd.DataFrame({"age": [10.0], "job": ["b"], "ill": [0]}),
    ),
    "party": (
        pd.DataFrame({"age": [120.0] * 3, "job": ["a"] * 3, "ill": [1] * 3}),
        pd.DataFrame({"age": [30.0] * 7, "job": ["b"] * 7, "ill": [0] * 7}),
    ),
}


def moved(name):
    """Return how much of its epsilon a change costs, exactly: steps of the sum over its scale."""
    counts = FactCounts(SCHEMA)
    text = json.dumps(SCHEMA.to_dict(), sort_keys=True, separators=(",", ":"))
    request = asked_for(name, text)
    mechanism = request.mechanism
    raws = [RawRows(counts, counts.sums(table), len(table)) for table in WORST[name]]
    sent = [request.sums_of(raw) for raw in raws]
    steps = np.abs(sent[0] - sent[1]).sum() / mechanism.spacing
    return steps / mechanism.scale / EPSILON


@pytest.mark.parametrize("name", WORST)
def test_what_a_party_adds_keeps_its_claim_and_nearly_reaches_it(name):
    assert 0.99 <= moved(name) <= 1.0


@pytest.mark.parametrize("name", WORST)
def test_a_sensitivity_that_is_too_small_is_found(name, monkeypatch):
    which = {"presence": "longest", "party": "party_sensitivity"}[name]
    right = getattr(FactCounts, which).fget
    monkeypatch.setattr(FactCounts, which, property(lambda self: int(0.95 * right(self))))
    assert moved(name) > 1.0


def test_what_no_proof_hides_is_refused():
    hidden = {"unit": Unit.PARTY, "neighbours": Neighbours.ADD_REMOVE}
    with pytest.raises(InvalidParameter, match="declare them"):
        federation()[0].run_protocol(facts_together("pqr", SCHEMA, epsilon=1.0, **hidden))


def asked_for(hides, text):
    return FactsOfAll.among(
        3,
        collusion_threshold=1,
        quorum=1.0,
        epsilon=EPSILON,
        max_retries=0,
        largest=1 if hides == "party" else 3_000,
        hides=hides,
        **written(text),
    )


def written(text):
    return {"schema": np.frombuffer(text.encode(), dtype=np.uint8)}


def test_a_party_counts_its_own_schema_only():
    other = PublicSchema([Number("age", bounds=(0, 1))])
    asked, parties = federation()
    with pytest.raises(InvalidMessage, match="no raw rows of that schema"):
        asked.run_protocol(facts_together("pqr", other, epsilon=EPSILON))
    with pytest.raises(InvalidParameter, match="cannot encode"):
        LocalParty("p", parties[0].X, parties[0].y, parties[0].books).encoded_by(SCHEMA.encoder())
