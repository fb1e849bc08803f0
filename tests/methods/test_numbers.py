"""Quantities and counts: without noise the minimiser; what is learned, released and refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from confrere import Ledger, PrivateLogisticRegression, PublicSchema
from confrere import outcomes as o
from confrere.errors import InvalidData, InvalidParameter
from confrere.methods.allowance import SOLVER, problem
from confrere.outcomes.pieces import PiecewiseExponential
from confrere.release import load_release
from confrere.schema import Number

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"age": RNG.uniform(20, 80, 2000), "time": RNG.uniform(0.5, 2, 2000)})
TABLE["stay"] = 2 + 0.1 * TABLE.age + RNG.normal(0, 2, 2000)
TABLE["visits"] = RNG.poisson(TABLE.time * np.exp(-1 + 0.02 * TABLE.age))
AGE = [Number("age", bounds=(18, 100))]
STAY = PublicSchema(AGE, o.Quantity("stay", bounds=(0, 40), mean=8, sd=3))
VISITS = PublicSchema(AGE, o.Count("visits", most=20, exposure="time", exposures=(0.25, 2)))
KINDS = [(o.PrivateLinearRegression, STAY), (o.PrivatePoissonRegression, VISITS)]


# What statsmodels 0.15.0 says of the rows below: OLS, GLM of the Poisson family with an offset, and
# that of one row a person and piece. lifelines 0.30.3, piecewise, is within 3e-6 of the last.
PLACES = np.arange(1, 301)[:, None]
ROWS = np.modf(PLACES * np.sqrt([2.0, 3.0, 5.0]))[0] - 0.5
U, V = np.modf(PLACES * np.sqrt([7.0, 11.0]))[0].T
MEANS, SEEN = ROWS @ [1.0, -0.5, 0.2], np.minimum(0.2 + 3 * V, 2.5)
LIVED = -np.log(1 - U) * np.exp(-MEANS)
COUNTS = np.floor((0.5 + V) * np.exp(MEANS) + U)
CLEAR = {
    "amounts": (
        (MEANS + 0.4 * (U - 0.5)) / 4,
        o.Huber(2.0),
        np.array([1.0088963134801545, -0.5114908554372322, 0.1583019365165457, 0.00101034888544])
        / 4,
    ),
    "counts": (
        np.column_stack([COUNTS, np.log(0.5 + V)]),
        o.Poisson(5.0, 40.0, (-1.0, 1.0)),
        [1.0485088597159653, -0.512611312917451, 0.12135697140258395, -0.02309121622264934],
    ),
    "times": (
        np.where(LIVED <= SEEN, LIVED, -SEEN),
        PiecewiseExponential((0.5, 1.0, 2.5), 0.5, 40.0),
        [0.91398901, -0.41365677, 0.53437074, 0.86746373, 0.85363315, 0.93566501],
    ),
}


@pytest.mark.parametrize("kind", CLEAR)
def test_without_noise_and_caps_it_is_the_fit_of_statsmodels(kind):
    y, loss, expected = CLEAR[kind]
    made = problem(np.column_stack([ROWS, np.ones(300)]) / 2, y, loss, 1e-9)
    np.testing.assert_allclose(SOLVER.solve(made, 1e-6)[0] / 2, expected, atol=1e-6)


@pytest.mark.parametrize(("face", "schema"), KINDS)
def test_what_is_learned_is_released_and_no_label_is_too_far_out(face, schema, tmp_path):
    (ledger := Ledger()).open_account("patients", epsilon=5)
    model = face(5.0, schema, ledger["patients"]).fit(TABLE)
    assert model.score(TABLE) > 0.05
    model.to_release().save(tmp_path / "r", allow_uncapped=True)
    read = load_release(tmp_path / "r").model
    assert (read.predict_proba(read.encoded(TABLE)) == model.predict(TABLE)).all()
    wild = TABLE.assign(stay=1e300, visits=1e300, time=1e-300)
    assert np.isfinite(face(1.0, schema, random_state=0).fit(wild).coef_).all()
    with pytest.raises(InvalidParameter, match="schema"):
        PrivateLogisticRegression(schema=schema).fit(TABLE)


@pytest.mark.parametrize(("face", "schema"), KINDS)
def test_what_is_no_number_is_named_and_costs_nothing(face, schema):
    (ledger := Ledger()).open_account("patients", epsilon=5)
    model, name = face(5.0, schema, ledger["patients"]), schema.outcome.column
    for bad in ("many", None):
        with pytest.raises(InvalidData, match=name):
            model.fit(TABLE.assign(**{name: [bad, *TABLE[name][1:]]}))
    with pytest.raises(InvalidData, match=name):
        model.fit(TABLE.drop(columns=name))
    assert ledger["patients"].left == 5


@parametrize_with_checks([face(epsilon=50.0, random_state=0) for face, _ in KINDS])
def test_scikit_learn_takes_them_for_regressors(estimator, check):
    check(estimator)
