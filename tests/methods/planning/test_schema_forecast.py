"""What a schema leads to expect is what the estimators then use."""

import pytest

from confrere import PrivateLogisticRegression
from confrere.planning import plan_schema
from confrere.schema import Category, Flag, Label, Number, PublicSchema

FEATURES = (
    Number("age", bounds=(18, 95), mean=50, sd=15),
    Number("balance", bounds=(-2_000, 10_000)),
    Category("job", values=("clerk", "nurse", "other")),
    Flag("loan", share=0.2),
)
SCHEMA = PublicSchema(FEATURES, Label("y", positive=1, negative=0))


@pytest.mark.parametrize("n", [300, 3_000, 300_000])
def test_what_is_planned_is_what_is_used(n):
    told = plan_schema(SCHEMA, n_samples=n, epsilon=1.0)
    model = PrivateLogisticRegression(epsilon=1.0, schema=SCHEMA)
    assert told.used == {"linear": "lines", "curves": "curves"}[model._encoder(n).form]
    assert told.expected.kept == max(told.lines.kept, told.curves.kept)
    assert told.declared is not None  # nobody says where balances are
    assert "with mean and sd of every number declared" in str(told)
    assert told.experts is None
