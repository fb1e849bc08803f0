"""Alone and together: geometry, law, classes, prior and relation are values of all."""

import numpy as np
import pytest

from confrere import CollaborativeClassifier, PrivateLogisticRegression
from confrere.assurance.audit.exact import exact_audit
from confrere.data.frame import l1_reach
from confrere.methods import PublicFacts
from confrere.methods.asking import Sizes
from confrere.methods.geometry import SchemaGeometry
from confrere.schema import Category, Number, PublicSchema

N = 240
_draw = np.random.default_rng(0)
SCHEMA = PublicSchema(
    (
        Number("a", bounds=(-3, 3), curve=False),
        Number("b", bounds=(-3, 3), curve=(-3, 0, 1, 3)),
        Category("c", values=("x", "y", "z")),
    )
)


def planned(**settings):
    model = PrivateLogisticRegression(schema=SCHEMA, geometry="schema", **settings)
    names = tuple(model._encoder(N).names)
    classes = np.array(settings["classes"])
    facts = PublicFacts(
        n_samples=N, n_features=8, n_classes=len(classes), classes=classes, features=names
    )
    return model.plan(facts)


ALPHAS = np.array([0.01, 0.5, 0.02, 0.02, 0.04, 0.01, 0.1, 0.02])


@pytest.mark.parametrize("classes", [2, 3])
def test_a_ridge_per_column_in_a_body_has_its_exact_price(classes):
    """The shape of the noise stays; rows fill the unit ball again."""
    declared = {"classes": list(range(classes)), "random_state": 0}
    plan = planned(alpha=10 * ALPHAS, **declared)
    found = exact_audit(plan.mechanism, draws=8, random_state=0)
    assert 0.9 < found.epsilon <= 1.0
    assert 1 - 1e-6 < plan.frame.body.squared_reach <= 1
    plain = planned(**declared)
    assert plan.frame.body.shares == plain.frame.body.shares


def made_frame(leaf, **settings):
    model = CollaborativeClassifier(schema=SCHEMA.encoder(form="curves"), geometry="schema")
    facts = PublicFacts(n_samples=500, n_features=8)
    allowed = model.set_params(**settings).plan(facts).protocol.allowed(Sizes({"a": 500}))
    return SchemaGeometry(SCHEMA.encoder(form="curves"), leaf=leaf).frame(allowed, 4.0)


@pytest.mark.parametrize("factors", [None, np.linspace(0.2, 3.0, 8)])
def test_rows_of_any_kind_lie_in_the_l1_ball_and_reach_its_edge(factors):
    frame = made_frame("L1").weighted(factors)[0]
    rng = np.random.default_rng(0)
    wild = rng.normal(size=(500, 8)) * 10.0 ** rng.integers(-3, 6, (500, 1))
    sums = np.abs(frame.rows(wild)).sum(axis=1)
    assert sums.max() <= 1
    assert l1_reach(frame.body.roots) == pytest.approx(1.0)
    frame.bound.certify(frame.rows(wild))
