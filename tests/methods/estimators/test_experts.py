"""What a schema's experts say, taken by estimators: in the right units, as far as it holds."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from confrere import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    PrivateLogisticRegression,
    PublicSchema,
)
from confrere.schema import Label, Number

SIGNS = {"a": 1, "b": -1, "c": 0}
IMPORTANCES = {"a": 4.0, "b": 2.0, "c": 1.0}


def schema(sign=1, clip_norm="rms"):
    columns = [
        Number(name, bounds=(-9, 9), mean=1.0, sd=2.0, sign=sign * s, importance=IMPORTANCES[name])
        for name, s in SIGNS.items()
    ]
    label = Label("y", positive=1, negative=0, base_rate=0.25)
    return PublicSchema(columns, outcome=label, clip_norm=clip_norm)


def table(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(1 + 2 * rng.normal(size=(n, 3)), columns=list(SIGNS))
    odds = 1.2 * (rows["a"] - 1) / 2 - 0.6 * (rows["b"] - 1) / 2 - 1.1
    rows["y"] = (rng.uniform(size=n) < 1 / (1 + np.exp(-odds))).astype(int)
    return rows


@pytest.mark.parametrize(
    "make",
    [
        PrivateLogisticRegression,
        CollaborativeClassifier,
        partial(CollaborativeClassifier, method="sums"),
        partial(FeatureStackingClassifier, n_groups=2),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_estimators_take_them_and_notice_if_they_are_wrong(make, sign):
    rows, model = table(), make(schema=schema(sign), prior="experts", epsilon=2.0, random_state=0)
    together = isinstance(model, CollaborativeClassifier)
    model.fit(rows, **{"party": np.arange(len(rows)) % 5} if together else {})
    assert model.guarantee_.epsilon == 2.0
    found = model.model_.facts.prior
    assert np.sign(found.factor) == sign
    assert found.verifiable
    assert model.score(rows, rows["y"]) > max(rows["y"].mean(), 1 - rows["y"].mean())
