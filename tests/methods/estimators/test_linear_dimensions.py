"""PLR and SimComb: geometry, law, classes, prior and relation are values that go together."""

import itertools

import numpy as np
import pandas as pd
import pytest

from confrere import AddRemove, Ledger, PrivateLogisticRegression, TransferClassifier
from confrere.audit.exact import exact_audit
from confrere.estimators import designed
from confrere.methods import PublicFacts
from confrere.schema import Category, Number, PublicSchema

N, EPSILON = 400, 1.0
_draw = np.random.default_rng(0)
X = _draw.normal(size=(N, 5))
Y = {
    2: (X[:, 0] + _draw.normal(size=N) > 0).astype(int),
    3: np.digitize(X[:, 0] + 0.5 * _draw.normal(size=N), [-0.5, 0.5]),
}
TABLE = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": np.where(X[:, 2] > 0, "x", "y")})
SCHEMA = PublicSchema(
    (
        Number("a", bounds=(-3, 3), curve=False),
        Number("b", bounds=(-3, 3), curve=(-3, 0, 1, 3)),
        Category("c", values=("x", "y", "z")),
    )
)
COLUMNS = {"l2": 5, "schema": 8}


def opinion(geometry, classes, strength=1.0):
    coef = np.zeros((classes, COLUMNS[geometry]))
    coef[:, 0] = strength * np.linspace(-1, 1, classes)
    return coef if classes > 2 else coef[1]


def settings_of(geometry, delta, classes, relation):
    settings = {"epsilon": EPSILON, "delta": delta, "classes": list(range(classes))}
    settings |= {"geometry": geometry, "data_norm": 3.0} if geometry == "l2" else {}
    settings |= {"geometry": geometry, "schema": SCHEMA} if geometry == "schema" else {}
    return settings | ({"neighbours": AddRemove(N)} if relation == "add-remove" else {})


@pytest.fixture(scope="module")
def sources():
    found = {}
    for geometry, classes in itertools.product(("l2", "schema"), (2, 3)):
        model = PrivateLogisticRegression(**settings_of(geometry, 0.0, classes, "replace-one"))
        model.set_params(budget=Ledger())
        rows = TABLE if geometry == "schema" else X
        found[geometry, classes] = model.fit(rows, Y[classes]).to_release()
    return found


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("geometry", ["l2", "schema"])
def test_a_strong_ridge_returns_the_prior(geometry, classes):
    settings = settings_of(geometry, 0.0, classes, "replace-one") | {"epsilon": 1e6}
    level = -1.0 if classes == 2 else np.log([0.5, 0.2, 0.3])
    model = designed(
        PrivateLogisticRegression(
            prior=opinion(geometry, classes), alpha=10000.0, random_state=0, **settings
        ),
        prior_intercept=level,
        prior_check=False,
    ).fit(TABLE if geometry == "schema" else X, Y[classes])
    np.testing.assert_allclose(model.coef_, np.atleast_2d(opinion(geometry, classes)), atol=0.02)
    if classes == 3:
        given = np.log([0.5, 0.2, 0.3])
        np.testing.assert_allclose(model.intercept_, given - given.mean(), atol=0.02)


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
    assert 0.9 * EPSILON < found.epsilon <= EPSILON
    assert 1 - 1e-6 < plan.frame.body.squared_reach <= 1
    plain = planned(**declared)
    assert plan.frame.body.shares == plain.frame.body.shares


def test_a_ridge_per_column_is_what_was_asked_for():
    """The penalty of any coefficients, of lines and blocks that no turn mixes."""
    plain = planned(alpha=float(ALPHAS.min()), classes=[0, 1])
    each = planned(alpha=ALPHAS, classes=[0, 1])
    coef = np.zeros(8)
    for j in (0, 5, 6, 7):
        coef[:] = 0
        coef[j] = 1.0
        one, other = (
            plan.mechanism.act.ridge * np.sum(plan.frame.weights(coef) ** 2)
            for plan in (plain, each)
        )
        assert other == pytest.approx(one * ALPHAS[j] / ALPHAS.min(), rel=1e-6)


def test_of_a_branch_the_number_of_rows_decides_nothing_where_it_is_private(sources):
    plans = []
    for n in (100, N):
        how = settings_of("schema", 0.0, 2, "add-remove")
        model = TransferClassifier(source=sources["schema", 2], eta=0.0, **how)
        plans.append(model.prepare(TABLE[:n], Y[2][:n])[0])
    few, many = (plan.likely.mechanism for plan in plans)
    assert few.act.ridge == many.act.ridge
    assert few.rate == many.rate
    assert plans[0].check.scale == plans[1].check.scale
    empty = model.set_params(random_state=0).fit(TABLE[:0], Y[2][:0])
    assert empty.guarantee_.neighbours == "add-remove"
