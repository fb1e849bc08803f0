"""A ridge per column and per group: what is solved, what it costs, and what is refused."""

import numpy as np
import pytest
from scipy import optimize

from confrere import FeatureStackingClassifier, PrivateLogisticRegression
from confrere.audit import Pair, audit_cases, exact_audit
from confrere.errors import InvalidParameter
from confrere.estimators import designed
from confrere.methods.plan import PublicFacts

ALPHAS = [0.01, 0.04, 0.09]
SURE = {
    "epsilon": 1e7,
    "ridge_floor": 1e-6,
    "random_state": 0,
    "purpose": "inference",
    "fit_intercept": False,
}


def rows(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, size=(n, 3))
    y = rng.uniform(size=n) < 1 / (1 + np.exp(-X @ np.array([3.0, -2.0, 1.0])))
    return X, y


def test_without_noise_it_is_the_minimiser_with_these_penalties():
    X, y = rows()
    signs = np.where(y, 1.0, -1.0)
    model = designed(PrivateLogisticRegression(alpha=ALPHAS), **SURE).fit(X, y)

    def objective(w):
        return np.logaddexp(0, -signs * (X @ w)).mean() + 0.5 * np.asarray(ALPHAS) @ w**2

    plain = optimize.minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(model.coef_[0], plain.x, atol=1e-4)
    other = designed(PrivateLogisticRegression(alpha=0.01), **SURE).fit(X, y)
    assert abs(model.coef_[0, 2]) < 0.7 * abs(other.coef_[0, 2])


#: The column that is shrunk least decides; rows far along it, and along the others.
PAIRS = [
    Pair.of_rows(
        f"a misfit along column {j} and its mirror",
        ([np.roll([0.9, 0.3, 0.0], j)], np.ones(1, int)),
        ([np.roll([0.9, -0.3, 0.0], j)], np.zeros(1, int)),
    )
    for j in range(3)
]


@pytest.mark.parametrize("purpose", ["inference", "prediction"])
def test_exact_losses_never_exceed_the_claim(purpose):
    model = designed(
        PrivateLogisticRegression(alpha=[0.001, 0.01, 1.0], purpose=purpose),
        ridge_floor=0.5,
        fit_intercept=False,
    )
    assert 0.4 < exact_audit(model, PAIRS).epsilon <= 1.0
    case = audit_cases(PrivateLogisticRegression(purpose=purpose))[1]
    # Rows that are longer than the norm fill the ball again once they are scaled.
    strong = case.estimator.set_params(alpha=np.geomspace(5.0, 500.0, 4), data_norm=0.01)
    assert 0.95 < exact_audit(strong, case.pairs).epsilon <= 1.0


def test_groups_have_a_ridge_each():
    facts = PublicFacts(n_samples=10_000, n_features=3)
    settings = {"groups": [[0], [1, 2]], "combiner": "vote"}
    plan = FeatureStackingClassifier(alpha=[0.1, 0.3], **settings).plan(facts)
    assert [block.ridge for block in plan.low[0].blocks] == pytest.approx([1_000.0, 3_000.0])
    mixed = FeatureStackingClassifier(alpha=["auto", 0.3], **settings).plan(facts)
    auto = FeatureStackingClassifier(**settings).plan(facts)
    assert [block.ridge for block in mixed.low[0].blocks] == pytest.approx(
        [auto.low[0].blocks[0].ridge, 3_000.0]
    )
    with pytest.raises(InvalidParameter, match="one number per group in use"):
        FeatureStackingClassifier(alpha=[0.1], **settings).plan(facts)
    model = FeatureStackingClassifier(alpha=[1e-4, 1e-2], groups=[[0], [1]], combiner="vote")
    assert 0.4 < exact_audit(model).epsilon <= 1.0
