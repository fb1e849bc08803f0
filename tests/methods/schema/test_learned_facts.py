"""Facts that Table 1 paid for: charged first, on every card from then on, and never twice."""

import json

import pytest

from confrere import AddRemove, CohortSummary, Ledger, PrivateLogisticRegression
from confrere.errors import InvalidParameter, InvalidRelease
from confrere.release import Release, load_release, verify_release
from confrere.schema import Category, Label, Number, PublicSchema
from tests.methods.evaluation.test_cohort import cohort

SCHEMA = PublicSchema(
    [Number("age", bounds=(0, 120)), Category("smoker", values=["never", "former", "current"])],
    outcome=Label("ill", positive="yes"),
)


def learn(table, **settings):
    return CohortSummary(schema=SCHEMA, **settings).fit(table).schema_


@pytest.fixture
def table():
    return cohort(4_000)


@pytest.fixture
def ledger(tmp_path):
    book = Ledger(tmp_path / "ledger")
    book.open_account("people", epsilon=3.0)
    book.open_account("others", epsilon=3.0)
    return book


def test_the_card_the_price_and_the_total_say_it(table, ledger, tmp_path):
    learned = learn(table, epsilon=0.5, budget=ledger["people"])
    model = PrivateLogisticRegression(schema=learned, budget=ledger["people"])
    price = model.privacy_cost(len(table))
    assert price.epsilon == 1.0
    assert "facts of the schema, paid for with epsilon 0.5" in price.public
    model.fit(table)
    assert ledger.spent("people") == 1.5
    release = model.to_release()
    assert release.card.epsilon == 1.5
    card = json.dumps(release.card.to_dict())
    assert "facts of the schema were learned from records: age (mean, sd)" in card
    assert "what was paid for facts of the schema included" in card
    assert "nobody else saw the data" in card
    folder = release.save(tmp_path / "release")
    assert load_release(folder).card.epsilon == 1.5
    verify_release(folder, ledgers=[ledger])
    with pytest.raises(InvalidParameter, match="facts of the schema were paid for"):
        Release(release.kind, release.model, release.guarantee, release.receipt)
    again = learn(table, epsilon=0.25, budget=ledger["people"])
    twice = PublicSchema(learned.features, learned.outcome, paid=(*learned.paid, *again.paid))
    model = PrivateLogisticRegression(epsilon=0.5, schema=twice, budget=ledger["people"])
    assert model.fit(table).to_release().card.epsilon == 1.25


def test_facts_that_were_changed_are_found_with_the_ledger(table, ledger, tmp_path):
    learned = learn(table, epsilon=0.5, budget=ledger["people"])
    facts = learned.to_dict()
    facts["features"][0]["mean"] += 1.0
    forged = PublicSchema.from_dict(facts)
    model = PrivateLogisticRegression(schema=forged, budget=ledger["people"]).fit(table)
    folder = model.to_release().save(tmp_path / "release")
    with pytest.raises(InvalidRelease, match="paid for other facts"):
        verify_release(folder, ledgers=[ledger])


def test_prices_that_do_not_add_up_are_refused_before_anything_is_spent(table, ledger):
    learned = learn(table, epsilon=0.5, budget=ledger["people"])
    ledger.open_account("presence", epsilon=3.0, neighbours="add-remove")
    settings = {"schema": learned, "budget": ledger["presence"]}
    model = PrivateLogisticRegression(neighbours=AddRemove(100), **settings)
    with pytest.raises(InvalidParameter, match="the two do not add up"):
        model.fit(table)
    with pytest.raises(InvalidParameter, match="the two do not add up"):
        model.privacy_cost(100)
    assert ledger.spent("presence") == 0
