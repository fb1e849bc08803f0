"""The public rules for the ridge, and what a prior leaves open."""

import numpy as np
import pytest
from scipy.special import logit

from confrere import CollaborativeClassifier, PrivateLogisticRegression
from confrere.kernel.measurements import SOLVER_SHARE
from confrere.methods.allowance import allowance, ridge_for
from confrere.methods.asking import Sizes
from confrere.methods.plan import PublicFacts
from confrere.schema import Category, Label, Number, PublicSchema


def ridge(n_samples, size, *, loss="logistic", delta=0.0):
    """The rule where one unit of epsilon pays for the noise."""
    allowed = allowance(1 / (1 - SOLVER_SHARE), n_samples, loss=loss, delta=delta)
    return ridge_for(allowed, size)


READ = PublicSchema(
    (
        Number("a", bounds=(0, 9), sign=1, importance=2),
        Category("c", values=tuple("xyz"), importance=1),
    ),
    outcome=Label("ill", positive=("yes",), base_rate=0.2),
)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("schema", [None, READ])
def test_what_is_read_has_the_least_ridge_and_starts_at_the_base_rate_alone(schema, delta):
    """Of the summed loss 2 over what pays for the noise: nothing else may pull at log odds."""
    told = {"epsilon": 0.2, "schema": schema, "delta": delta, "purpose": "inference"}
    facts = PublicFacts(n_samples=500, n_features=3, sizes={"p": 300, "q": 200})
    plan = PrivateLogisticRegression(**told).plan(facts)
    fit, least = plan.mechanism, 2 / (0.99 * 0.2)
    assert (fit.act.ridge, fit.loss.slope) == (pytest.approx(least), 1.0)
    if schema is not None:
        assert plan.frame.learned_with()["body"] is not None
        coef, intercept = plan.frame.coefficients(fit.blocks[0].centre)
        assert (np.abs(coef).max(), intercept) == (pytest.approx(0), pytest.approx(logit(0.2)))
    made = CollaborativeClassifier(**told).plan(facts).protocol
    asked = made.at(Sizes(facts.sizes)).asked(Sizes(facts.sizes))
    assert asked.mechanism(300).blocks[0].ridge == pytest.approx(least)
