"""Quantities and counts: without noise the minimiser; what is learned, released and refused."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize
from sklearn.utils.estimator_checks import parametrize_with_checks

from confrere import Ledger, PrivateLogisticRegression, PublicSchema
from confrere import outcomes as o
from confrere.errors import InvalidData, InvalidParameter
from confrere.methods.allowance import SOLVER, problem
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


def test_without_noise_amounts_have_the_minimiser_that_scipy_finds():
    X, truth = RNG.normal(size=(300, 3)) / 4, np.array([1.0, -0.5, 0.2])
    y = np.clip(X @ truth + 0.1 * RNG.normal(size=300), -1, 1)

    def risk(w):
        return 0.09 * np.log(np.cosh((X @ w - y) / 0.3)).sum() + w @ w

    best = optimize.minimize(risk, np.zeros(3), options={"gtol": 1e-9}).x
    found = SOLVER.solve(problem(X, y, o.LogCosh(0.3), 2.0), 1e-9)[0]
    np.testing.assert_allclose(found, best, atol=1e-6)


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
