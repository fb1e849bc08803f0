"""Groups of columns with a body each: exact ratios of all of them together, and what breaks it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from confrere import FeatureStackingClassifier, TransferStackingClassifier
from confrere.assurance.audit.adversary import worst_loss
from confrere.assurance.audit.densities import norms_of
from confrere.errors import InvalidParameter
from confrere.estimators import designed
from confrere.kernel.measurements import SOLVER_SHARE
from confrere.kernel.norms import L1, L2
from confrere.schema import Category, Label, Number, PublicSchema
from confrere.simulation import SeededSource
from tests.kernel.test_geometry import ABOVE, body_of
from tests.world import groups

WEIGHTS = {"equal": (0.5, 0.5), "skewed": (0.9, 0.1), "three": (0.6, 0.3, 0.1), "one": (1.0,)}
SCHEMA = PublicSchema(
    [
        Number("age", bounds=(0, 1), curve=False, importance=4.0),
        Category("job", values=("a", "b", "c"), importance=3.0),
        Number("bent", bounds=(0, 1), curve=(0.0, 0.5, 1.0), importance=2.0),
        Category("town", values=("d", "e"), importance=1.0),
    ],
    outcome=Label("y", positive=1, negative=0),
)


def groups_of(weights, *, epsilon=1.0, ridge=0.4, cap=0.5):
    bodies = tuple(body_of(name) for name in ("box and two", "two crosses", "prism"))
    bodies = bodies[: len(weights)]
    # A group's ridge is for its own part of epsilon.
    ridges = [ridge / weight for weight in weights]
    return groups(bodies, ridges, weights, epsilon=epsilon, cap=cap, n_samples=10)


def whole_loss(low):
    """Sum the groups' losses: every group has corners of its own for the two records."""
    return sum(
        worst_loss(act.norm, low.loss, rho=act.law.rate, ridge=act.ridge, draws=2)
        for act in low.acts
    )


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("cap", [1.0, 0.5])
@pytest.mark.parametrize(("epsilon", "ridge"), [(1.0, 0.4), (4.0, 0.05)])
def test_groups_in_bodies_never_lose_more_than_epsilon_and_waste_nothing(
    weights, cap, epsilon, ridge
):
    low = groups_of(weights, epsilon=epsilon, ridge=ridge, cap=cap)
    loss = whole_loss(low)
    assert 0.95 * epsilon <= loss <= epsilon * (1 - SOLVER_SHARE) * ABOVE
    assert [act.law.rate for act in low.acts] == pytest.approx([low.rate * q for q in weights])


MIXED = [(body_of("prism"), L2(3)), (L2(3), body_of("prism")), (L2(3), L1(3))]


@pytest.mark.parametrize("norms", MIXED)
def test_what_the_theorem_does_not_know_is_refused(norms):
    """Rows that share a length may be at corners of all bodies at once, whichever comes first."""
    with pytest.raises(InvalidParameter, match="separate"):
        groups(norms, (9.0, 9.0), (0.7, 0.7), joint=True)


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.uniform(size=n) * 50 - 20,
            "job": rng.choice(list("abc"), n),
            "bent": rng.uniform(size=n) * 3 - 1,
            "town": rng.choice(list("de"), n),
            "y": rng.integers(0, 2, n),
        }
    )


def stack(**settings):
    return FeatureStackingClassifier(schema=SCHEMA, geometry="schema", n_groups=2, **settings)


def branch():
    source = stack(epsilon=5.0, random_state=0).fit(table(400)).to_release()
    return designed(
        TransferStackingClassifier(source=source, schema=SCHEMA, geometry="schema", random_state=0),
        prior_check=False,
    )


def stack_keeps_its_promise(model):
    """Check ratios, rows and noise of the code that runs; raise AssertionError where one is wrong.

    Noise is read back off releases: at a minimiser the gradient without it is minus the noise.
    """
    plan, data = model.prepare(table(), None)
    (low,) = plan.low
    loss = whole_loss(low)
    assert 0.9 <= loss <= (1 - SOLVER_SHARE) * ABOVE
    # Whatever rows hold, a party maps them into the bodies.
    (term,) = plan.terms(replace(data, X=30 * data.X.toarray()))
    bounded, labels = term.data
    rows = [np.asarray(X) for X in bounded]
    for X, act in zip(rows, low.acts, strict=True):
        assert act.norm.factor_norms(X).max() <= 1
        assert np.linalg.norm(X, axis=1).max() <= 1
    drawn = low.sample(term.data, SeededSource(2), 400)
    gauges = []
    for X, block, weights in zip(rows, low.blocks, drawn, strict=True):
        signed = X * labels[:, None]
        slopes = np.minimum(special.expit(-weights @ signed.T), low.loss.slope)
        noise = slopes @ signed - block.ridge * (weights - block.centre)
        gauges.append(norms_of(block.norm, noise))
        law = stats.gamma(block.norm.size, scale=1 / (low.rate * block.weight))
        assert stats.kstest(gauges[-1], law.cdf).pvalue > 1e-4
    assert abs(np.corrcoef(gauges)[0, 1]) < 0.25, "groups share their noise"


@pytest.mark.parametrize("make", [stack, branch])
def test_the_code_that_runs_keeps_its_promise(make):
    stack_keeps_its_promise(make())
