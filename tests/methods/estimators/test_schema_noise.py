"""Noise shaped by the schema, through the estimators: chosen by public facts, kept in releases."""

import numpy as np
import pandas as pd
import pytest

from confrere import FeatureStackingClassifier
from confrere.catalogue import find_method
from confrere.errors import InvalidParameter
from confrere.methods.allowance import allowance
from confrere.methods.geometry import SchemaGeometry, choose_form
from confrere.schema import Category, Flag, Label, Number, PublicSchema

LABEL = Label("y", positive=1, negative=0)
SCHEMA = PublicSchema(
    [
        Number("age", bounds=(18, 90)),
        Category("job", values=("a", "b", "c")),
        Flag("smoker", share=0.2),
    ],
    outcome=LABEL,
)


def table(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    found = pd.DataFrame(
        {
            "age": rng.integers(18, 91, n),
            "job": rng.choice(["a", "b", "c"], n),
            "smoker": rng.uniform(size=n) < 0.2,
        }
    )
    # Most likely in the middle: no straight line tells.
    score = 3 - np.abs(found["age"] - 54) / 6 + 2.0 * (found["job"] == "a")
    found["y"] = (rng.uniform(size=n) < 1 / (1 + np.exp(-score))).astype(int)
    return found


def accuracy(model, rows):
    return float(np.mean(model.predict(rows) == rows["y"]))


SHAPED = {
    "plr": (3000, 4.0, "geometry", (1, 6, 3, 1)),
    "average": (6000, 2.0, "geometry", (1, 6, 3, 1)),
    "pst-f": (6000, 6.0, "feature_groups", (1, 1, 3, 6)),
}


@pytest.mark.parametrize("name", SHAPED)
def test_a_schema_shapes_the_noise_by_default_and_curves_bend(name):
    n, epsilon, theorem, sizes = SHAPED[name]
    rows, fresh = table(n), table(seed=1)
    more = {"party": parts(rows)} if name == "average" else {}
    settings = {"epsilon": epsilon, "schema": SCHEMA, "random_state": 0}
    settings |= {"n_groups": 3} if name == "pst-f" else {}
    model, ball = (
        find_method(name).make(**settings, geometry=geometry).fit(rows, **more)
        for geometry in ("auto", "l2")
    )
    assert model.guarantee_.theorem == f"docs/proofs/{theorem}.md"
    assert model.model_.encoder.form == "curves"
    body = model.model_.facts.body
    assert (tuple(sorted(body)) if name == "pst-f" else body) == sizes
    assert ball.model_.facts.body is None
    assert name == "pst-f" or ball.guarantee_.theorem != model.guarantee_.theorem
    assert accuracy(model, fresh) > accuracy(ball, fresh) + 0.1


def test_a_category_of_a_stranger_s_schema_fills_no_memory():
    """A body writes down one number per pair of values: of 20,000 values 3 GB, several times."""
    many = Category("icd", values=tuple(f"v{k}" for k in range(20_000)))
    schema = PublicSchema((many, Number("age", bounds=(18, 100))))
    allowed = allowance(1.0, 10_000)
    assert choose_form(schema, "auto", allowed) == "standardised"
    with pytest.raises(InvalidParameter, match="up to 2048 values"):
        SchemaGeometry(schema.encoder(form="linear")).frame(allowed)
    few = PublicSchema((Category("icd", values=("a", "b")), Number("age", bounds=(18, 100))))
    assert choose_form(few, "auto", allowed) != "standardised"


def parts(rows, count=3):
    return np.arange(len(rows)) % count


def stacked(**settings):
    seeded = {"schema": SCHEMA, "n_groups": 3, "random_state": 0, "epsilon": 6.0}
    return FeatureStackingClassifier(**seeded | settings)


@pytest.mark.parametrize("geometry", ["l2", "schema", "auto"])
def test_groups_are_declared_by_the_names_of_columns(geometry):
    model = stacked(groups=[["job"], ["age", "smoker"]], geometry=geometry)
    plan, data = model.prepare(table(), None)
    names = [[data.features[j] for j in group] for group in plan.maps.groups]
    assert names[0] == ["job=a", "job=b", "job=c"]
    assert (names[1] == ["age", "smoker"]) == (geometry == "l2")
    assert bool(plan.maps.frames) == (geometry != "l2")
    with pytest.raises(InvalidParameter, match="no column 'jobs'"):
        stacked(groups=[["jobs"], ["age", "smoker"]], geometry=geometry).prepare(table(), None)
    with pytest.raises(InvalidParameter, match="exactly once"):
        stacked(groups=[["job"], ["age"]], geometry=geometry).prepare(table(), None)
    with pytest.raises(InvalidParameter, match="there is a schema"):
        FeatureStackingClassifier(groups=[["a"], ["b"]]).privacy_cost(100, 2)
