"""A linear model whose noise is shaped like the body of its rows."""

import numpy as np
import pytest

from confrere.data.body import Body, BodyFrame
from confrere.errors import InvalidParameter
from confrere.kernel.streams import SeededSource
from confrere.methods.allowance import allowance
from confrere.methods.geometry import (
    CONSTANT,
    JACOBIAN,
    Factor,
    choose_form,
    choose_geometry,
    least_ridge,
    pure_noise,
    schema_frame,
)
from confrere.methods.linear import plan_linear
from confrere.methods.plan import LabelledTable
from confrere.schema import Category, Number, PublicSchema

FACTORS = [Factor(1, "number", 0.25), Factor(3, "category", 1 / 3), CONSTANT]


def body_frame(n_samples, epsilon=1.0):
    made = choose_geometry(
        FACTORS,
        n_samples=n_samples,
        least=least_ridge(JACOBIAN * 0.99 * epsilon),
        curvature=0.2,
        noise=pure_noise(0.99 * epsilon, 0.5),
    )
    return BodyFrame(Body(made.roots, made.groups, made.shares), made.ridge)


def simulated(n_samples=4000):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, n_samples), np.eye(3)[rng.integers(0, 3, n_samples)]])
    score = X @ [1.0, 2.0, 0.0, -2.0] + 0.3
    codes = (rng.uniform(size=n_samples) < 1 / (1 + np.exp(-score))).astype(np.intp)
    return LabelledTable(X, codes, np.array([0, 1]), ["x", "a=1", "a=2", "a=3"])


def test_a_plan_learns_in_the_units_of_its_rows():
    table = simulated()
    allowed = allowance(8.0, len(table.X), loss="logistic")
    plan = plan_linear(allowed, body_frame(len(table.X), 8.0))
    model = plan.run(table, SeededSource(0))
    assert plan.guarantee().theorem == "docs/proofs/geometry.md"
    assert model.facts.body == (1, 3)
    assert model.coef[0] @ [0, 1, 0, -1] == pytest.approx(4, abs=0.8)
    assert model.coef[0][0] == pytest.approx(1, abs=0.5)


def test_a_public_centre_is_what_a_strong_ridge_returns():
    table = simulated(50)
    frame = body_frame(50)
    centre = frame.weights([0.5, -1.0, 0.25, 0.75], -0.5)
    plan = plan_linear(allowance(1.0, 50), frame, alpha=1e9, prior=centre)
    model = plan.run(table, SeededSource(0))
    assert model.coef[0] == pytest.approx([0.5, -1.0, 0.25, 0.75], abs=1e-3)
    assert model.intercept[0] == pytest.approx(-0.5, abs=1e-3)


def test_a_category_of_a_stranger_s_schema_fills_no_memory():
    """A body writes down one number per pair of values: of 20,000 values 3 GB, several times."""
    many = Category("icd", values=tuple(f"v{k}" for k in range(20_000)))
    schema = PublicSchema((many, Number("age", bounds=(18, 100))))
    allowed = allowance(1.0, 10_000)
    assert choose_form(schema, "auto", allowed) == "standardised"
    with pytest.raises(InvalidParameter, match="up to 2048 values"):
        schema_frame(schema.encoder(form="linear"), allowed)
    few = PublicSchema((Category("icd", values=("a", "b")), Number("age", bounds=(18, 100))))
    assert choose_form(few, "auto", allowed) != "standardised"
