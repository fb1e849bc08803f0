"""The table of a linear model: by two raw rows, scores of a capped loss, log odds of the other."""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from confrere import PrivateLogisticRegression, PublicSchema
from confrere.schema import Flag, Label, Number

COLUMNS = (Number("age", bounds=(0, 99), mean=50, sd=15), Flag("sex"))
SCHEMA = PublicSchema(COLUMNS, outcome=Label("ill", positive=(1,)))


def test_log_odds_are_those_of_maximum_likelihood_and_a_capped_fit_prints_scores():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(28, 73, 9_000), "sex": rng.random(9_000) < 0.5})
    X = np.column_stack([(table["age"] - 50) / 10, table["sex"]])
    table["ill"] = (rng.random(9_000) < 1 / (1 + np.exp(1 - X @ [0.3, 0.5]))).astype(int)
    clear = LogisticRegression(C=1e9).fit(X, table["ill"]).coef_[0]
    for purpose, words, off in (("inference", "log odds", 2e-3), ("prediction", "scores", 1.0)):
        told = PrivateLogisticRegression(1e3, SCHEMA, purpose=purpose, random_state=0)
        told = told.fit(table).summary()
        assert words in told.attrs["note"][:30]
        assert told["unit"].tolist()[1:2] == [1.0]
        assert told["odds_ratio"].isna().all()
        assert abs(told["coefficient"][1] - clear[1]) < off
