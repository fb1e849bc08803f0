"""Curves on a card: drawn from released weights, with the band of noise that public facts tell."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from confrere import PrivateLogisticRegression, PublicSchema
from confrere.errors import InvalidParameter
from confrere.model.summary import scorecard
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


def by_hand(lines, row):
    """Add up the points of a raw row, by what the bins are called."""
    total, left = lines[0].points, {line.column for line in lines[1:]}
    for line in lines[1:]:
        cell, words = row[line.column], line.bin.split(" to ")
        low, high = -np.inf, np.inf
        if isinstance(cell, str | bool):
            fits = str(cell) == line.bin
        else:
            if len(words) == 2:
                low, high = map(float, words)
            elif line.bin.startswith("below "):
                high = float(line.bin.removeprefix("below "))
            else:
                low = float(line.bin.removeprefix("from "))
            fits = low <= cell < high
        if fits:
            total += line.points
            left.remove(line.column)  # every row is in one bin of a column
    assert not left
    return total


@pytest.mark.parametrize("doubling", [20.0, -40.0])
def test_points_of_a_scorecard_add_up_to_the_score(released, doubling):
    card = scorecard(released.model, doubling, 600.0)
    rng = np.random.default_rng(0)
    rows = table(300).assign(income=rng.exponential(100, 300))
    points = np.array([by_hand(card.lines, row) for row in rows.to_dict("records")])
    score = released.model.decision_function(released.model.encoded(rows))
    off = points - 600 - doubling * score / np.log(2)
    assert abs(off.mean()) < 0.05 * abs(doubling)
    assert off.std() < 0.25 * points.std()  # a step for each piece of a curve
    assert min(line.points for line in card.lines[1:]) == 0
    shares = {float(p): float(share) for p, share in re.findall(r"([\d.]+): ([\d.]+)", card.note)}
    assert shares[600] == 0.5
    assert (shares[600 + 4 * 20] > 0.5) == (doubling > 0)
    assert "points" in card.view().parts[0].columns


def test_what_does_not_add_up_has_no_scorecard(released):
    ball = PrivateLogisticRegression(schema=SCHEMA, geometry="l2", random_state=0)
    ball.fit(table(300).assign(income=1.0))
    plain = replace(released.model, encoder=None)
    for model, points in ((ball.model_, 20.0), (plain, 20.0), (released.model, 0.0)):
        with pytest.raises(InvalidParameter, match=r"model|doubling"):
            scorecard(model, points, 600.0)
    with pytest.raises(InvalidParameter, match="geometry"):
        ball.scorecard()
