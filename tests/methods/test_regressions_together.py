"""Amounts, counts and times of several organisations: what a record moves, and what is learned."""

from dataclasses import replace

import numpy as np
import pytest

from confrere.outcomes import CollaborativeRegression, Count, Quantity
from tests.methods.test_survival import SCHEMA, cohort

TABLE, OTHERS = cohort(3000), cohort(1500, seed=1)
for k, table in enumerate((TABLE, OTHERS)):
    chance = np.random.default_rng(8 + k)
    table["cost"] = table["age"] / 3 + 3 * chance.normal(size=len(table))
    table["visits"] = chance.poisson(np.exp((table["age"] - 55) / 20))
OUTCOMES = {
    "quantity": Quantity("cost", bounds=(0, 40), mean=18, sd=6),
    "count": Count("visits", most=10, mean=1.3),
    "time": SCHEMA.outcome,
}
PARTY = np.repeat(["north", "east", "south"], [1500, 1000, 500])
every = pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
WAYS = {"average": {}, "sums": {"method": "sums"}, "rounds": {"method": "sums", "delta": 1e-6}}


def asked(outcome, **settings):
    told = {"epsilon": 1.0, "random_state": 0, **settings}
    return CollaborativeRegression(schema=replace(SCHEMA, outcome=outcome), **told)


@every
@pytest.mark.parametrize("way", WAYS)
def test_it_learns_nearly_what_one_organisation_with_all_rows_does(outcome, way):
    model = asked(outcome, epsilon=3.0, **WAYS[way])
    price = model.privacy_cost(1000, n_parties=3)
    assert model.fit(TABLE, party=PARTY).guarantee_.epsilon == price.epsilon == 3.0
    clear = asked(outcome, epsilon=1e4).fit(TABLE).score(OTHERS)
    assert clear - model.score(OTHERS) < 0.05


@every
@pytest.mark.parametrize("way", ["sums", "rounds"])
def test_a_record_moves_an_addend_by_no_more_than_is_paid_for(outcome, way):
    plan, data = asked(outcome, geometry="l2", **WAYS[way]).prepare(TABLE, None, party=PARTY)
    protocol = plan.protocol.among(plan.sizes).at(plan.sizes)
    paid, labels = protocol.mechanism(plan.sizes), protocol.loss.extreme_labels
    rows = protocol.bounded(data.X[:3]) @ np.eye(protocol.space.size)
    longest = rows[0] / np.linalg.norm(rows[0]) if outcome.kind != "time" else rows[0]
    ends = longest, np.append(-longest[:-1], longest[-1]), 0 * longest
    most = 0.0
    for scale in (0.0, 40.0, -1e308):
        weights = protocol.centre + scale
        made = np.array([
            protocol.message(np.vstack([end, rows[1:]]), np.stack([one, *labels[[0, -1]]]),
                             plan.sizes, weights)
            for end in ends for one in labels
        ])  # fmt: skip
        most = max(most, float(np.linalg.norm(made[:, None] - made[None], axis=-1).max()))
    assert 0.3 * paid.sensitivity <= most <= paid.sensitivity + 2 * paid.error
