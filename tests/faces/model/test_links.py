"""Probabilities: what the loss itself says, and what a base rate says where nothing was learned."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from sklearn.metrics import log_loss, roc_auc_score

from confrere import CollaborativeClassifier, PrivateLogisticRegression, PublicSchema
from confrere.kernel.losses import Logistic
from confrere.model import Link
from confrere.schema import Category, Flag, Label, Number


@given(p=st.floats(1e-6, 1 - 1e-6), cap=st.floats(0.5, 1))
def test_the_link_is_the_share_where_the_expected_loss_is_least(p, cap):
    loss, signs = Logistic(cap), np.array([1.0, -1.0])

    def slope(z):
        return loss.residuals(np.full((1, 1, 2), z), signs)[0, 0] @ [p, 1 - p]

    z = brentq(slope, -40, 40, xtol=1e-13)
    np.testing.assert_allclose(Link(cap).probabilities(np.array([z]))[0], [1 - p, p], rtol=1e-8)
    closed = {1.0: 1 / (1 + np.exp(-z)), 0.5: 1 / (1 + 2 / (1 + np.exp(z)))}
    if z >= 0 and cap in closed:
        np.testing.assert_allclose(p, closed[cap], rtol=1e-8)


COLUMNS = [Number("age", bounds=(0, 100), mean=50, sd=15), Flag("smokes", share=0.1)]
COLUMNS += [Category("town", values=("a", "b", "c"), shares=(0.7, 0.2, 0.1))]


def people(n, seed=0):
    draw = np.random.default_rng(seed)
    table = pd.DataFrame({"age": draw.normal(50, 15, n), "smokes": draw.random(n) < 0.1})
    table["town"] = draw.choice(["a", "b", "c"], n, p=[0.7, 0.2, 0.1])
    odds = (table["age"] - 50) / 15 + table["smokes"] - 3.2
    return table, (draw.random(n) < 1 / (1 + np.exp(-odds))).astype(int)


@pytest.mark.parametrize("several", [False, True])
def test_where_little_survives_probabilities_have_the_base_rate(several):
    (X, y), (other, truth) = people(3000), people(20000, 1)
    kind, more = PrivateLogisticRegression, {}
    if several:
        kind, more = CollaborativeClassifier, {"party": np.arange(3000) % 3}
    kept, losses = [], []
    for rate in (None, 0.07):
        known = PublicSchema(COLUMNS, Label("ill", positive=1, negative=0, base_rate=rate))
        model = kind(epsilon=0.02, schema=known, random_state=1).fit(X, y, **more)
        kept.append(model.model_.facts.kept)
        p = model.predict_proba(other)[:, 1]
        assert np.all((p > 0.5) == (model.predict(other) == 1))
        assert np.all((p > 0.5) == (model.decision_function(other) > 0))
        losses.append(log_loss(truth, p))
    assert max(kept) < 0.2
    assert 0.04 < p.mean() < 0.11
    assert losses[1] < losses[0] - 0.03
    raw = model.model_.encoded(other).toarray() @ model.coef_[0]
    assert roc_auc_score(truth, raw) == pytest.approx(roc_auc_score(truth, p), abs=1e-5)
