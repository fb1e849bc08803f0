"""Curves on a card: drawn from released weights, with the band of noise that public facts tell."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from confrere import PrivateLogisticRegression, PublicSchema
from confrere.release import card_page
from confrere.release.release import bent_columns
from confrere.schema import Number
from tests.methods.estimators.test_schema_noise import SCHEMA as PEOPLE
from tests.methods.estimators.test_schema_noise import table

AGE, *OTHERS = PEOPLE.features
INCOME = Number("income", bounds=(0, 1000), log=True, curve=True)
SCHEMA = PublicSchema([replace(AGE, curve=True), INCOME, *OTHERS], outcome=PEOPLE.outcome)


@pytest.fixture(scope="module")
def released():
    rows = table(6000)
    rows["income"] = np.random.default_rng(0).exponential(100, len(rows))
    model = PrivateLogisticRegression(epsilon=4.0, schema=SCHEMA, random_state=0).fit(rows)
    return model.to_release()


def test_curves_are_what_the_model_says_of_raw_rows(released):
    age, income = bent_columns(released)
    assert (age.column, income.column) == ("age", "income")
    assert age.ends == (18.0, 90.0)
    assert income.ends == pytest.approx((0.0, 1000.0))
    typical = {"job": "a", "income": 50.0, "smoker": False}
    points = np.arange(18.0, 91.0)  # whole numbers are; between knots a curve is straight
    rows = pd.DataFrame([{**typical, "age": point} for point in points])
    odds = released.model.decision_function(released.model.encoded(rows))
    curve = np.interp(points, age.places, age.values)
    np.testing.assert_allclose(curve - curve.mean(), odds - odds.mean(), atol=1e-9)
    assert np.argmax(age.values) in (3, 4)  # it bends as it should


def test_the_card_shows_every_curve_and_no_script(released):
    page = card_page(released)
    assert "Columns that bend" in page
    assert len(re.findall("<svg ", page)) == 2
    assert "two standard deviations" in page
    assert "<script" not in page
    assert "Columns that bend" not in card_page(released.card)
