"""Odds ratios with intervals: what they cost, when they cover, and what is refused."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import special

from confrere import AddRemove, PrivateLogisticRegression, PublicSchema
from confrere.assurance.inference import _ahead, _farthest, flags_of_one
from confrere.errors import InvalidParameter
from confrere.evaluation import infer
from confrere.schema import Category, Flag, Label, Number, Ordered

SCHEMA = PublicSchema(
    [
        Number("age", bounds=(18, 100)),
        Number("days", bounds=(0, 400), log=True),
        Number("bmi", bounds=(12, 60), missing="indicator"),
        Flag("male"),
        Flag("insured", missing="center"),
        Category("smoker", values=["never", "former", "current"]),
        Ordered("stage", levels=["i", "ii", "iii"]),
    ],
    outcome=Label("ill", positive=[1], negative=[0], base_rate=0.3),
)
N = 20_000
#: Per 20 years, against no, against never; and what has no effect.
TRUTH = {"age": 0.6, "male": -0.6, "smoker=current": 0.8, "days": 0.0, "bmi": 0.0, "stage": 0.0}


def cohort(seed, n=N):
    rng = np.random.default_rng(seed)
    age = rng.normal(50, 15, n).clip(18, 100)
    table = pd.DataFrame({"age": age, "days": rng.exponential(25, n).round()})
    table["bmi"] = np.where(rng.random(n) < 0.1, np.nan, rng.normal(26, 4, n) + 0.05 * age)
    table["male"], table["insured"] = rng.random(n) < 0.5, rng.random(n) < 0.8
    table["smoker"] = rng.choice(["never", "former", "current"], n, p=[0.5, 0.3, 0.2])
    table["stage"] = rng.choice(["i", "ii", "iii"], n, p=[0.6, 0.3, 0.1])
    score = 0.03 * (age - 50) - 0.6 * table["male"] + 0.8 * (table["smoker"] == "current") - 0.8
    return table.assign(ill=(rng.random(n) < special.expit(score)).astype(int))


def fitted(table, epsilon=1.7, **more):
    more = {"purpose": "inference", "schema": SCHEMA, "random_state": 0, **more}
    return PrivateLogisticRegression(epsilon=epsilon, **more).fit(table)


TABLE = cohort(0)
MODEL = fitted(TABLE)


def test_intervals_cover_what_records_were_drawn_from():
    inside = []
    for seed in range(10):
        table = cohort(seed)
        found = infer(fitted(table, random_state=seed), table, epsilon=0.3, random_state=seed)
        told = {line.term: line for line in found.lines}
        known = {term: value for term, value in TRUTH.items() if told[term].low is not None}
        inside += [told[term].low <= value <= told[term].high for term, value in known.items()]
    assert len(inside) > 45
    assert 0.9 <= np.mean(inside) <= 1


def test_the_table_is_the_one_that_statisticians_know():
    found = infer(fitted(TABLE, 1e4), TABLE, epsilon=1e4, random_state=1)
    frame = found.frame().set_index("term")
    assert " ".join(frame) == "unit unit_name coefficient low high odds_ratio or_low or_high p"
    for term in ("age", "male", "smoker=current"):  # with hardly any noise, maximum likelihood
        assert frame.loc[term, "coefficient"] == pytest.approx(TRUTH[term], abs=0.12)
    line = frame.loc["male"]
    assert line["odds_ratio"] == pytest.approx(math.exp(line["coefficient"]))
    assert line["low"] < line["coefficient"] < line["high"] < 0
    assert line["p"] < 0.05
    assert found.quality()["terms"][0]["unit"] == 20


def test_no_two_records_are_farther_apart_than_is_paid_for():
    space = _ahead(MODEL, N)
    for one in space.columns:
        rows = one.counted[:: max(1, len(one.counted) // 60)]
        apart = np.abs(rows[:, None] - rows[None]).sum(axis=2).max()
        assert apart <= _farthest(one.counted)
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, len(one.table), 500) for one in space.columns]
    tables, deviations = space.scaled(space.summed(codes).astype(float), 500)
    longest = int(sum(np.abs(table).sum(axis=1).max() for table in tables))
    for most in (longest, int(deviations.sum()), longest // 5):
        before = space.products(codes, tables, most)
        for _ in range(20):
            other = [np.append(rng.integers(0, at.max() + 1), at[1:]) for at in codes]
            moved = np.abs(space.products(other, tables, most) - before).sum()
            assert moved <= space.largest(1.0, tables, most).sensitivity


def test_flags_that_are_one_category_are_said():
    shares = {"white": 0.7, "black": 0.2, "asian": 0.1}
    flags = [Flag("male", share=0.5), *(Flag(name, share=one) for name, one in shares.items())]
    (said,) = flags_of_one(flags)
    assert said.startswith("white, black, asian look like one category")
    assert flags_of_one([Flag(f"race_{name}") for name in shares])
    assert not flags_of_one([Flag(f"symptom_{name}", share=0.2) for name in shares])
    assert not flags_of_one(SCHEMA.features)
    schema = PublicSchema(flags, outcome=SCHEMA.outcome)
    table = cohort(0, 200).assign(white=True, black=False, asian=False)
    with pytest.warns(UserWarning, match=r"white, black, asian.*Nothing was spent"):
        found = infer(fitted(table, schema=schema), table, epsilon=0.1, random_state=0)
    assert said in found.note


@pytest.mark.parametrize(
    "other", [{"purpose": "prediction"}, {"geometry": "l2"}, {"neighbours": AddRemove(N)}]
)
def test_other_fits_have_no_intervals(other):
    with pytest.raises(InvalidParameter, match="model"):
        infer(fitted(TABLE, **other), TABLE, epsilon=0.3)


@pytest.mark.parametrize("epsilon", [1e-6, 1e6])
def test_neither_noise_nor_records_at_a_bound_make_it_fail_after_the_charge(epsilon):
    one = TABLE[:50].assign(age=100, days=0, bmi=math.nan, male=True, insured=None, ill=1)
    other = one.assign(age=18, days=400, bmi=60, male=False, smoker="former", stage="i")
    for seed, table in enumerate(2 * [one, other]):
        model = fitted(table, random_state=seed)
        found = infer(model, table, epsilon=epsilon, random_state=seed)
        assert found.more_records.keys() == {line.term for line in found.lines}
