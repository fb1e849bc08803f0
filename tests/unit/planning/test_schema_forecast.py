"""What a schema leads to expect is what the estimators then use."""

import pytest

from confrere import PrivateLogisticRegression
from confrere.planning import plan_schema
from confrere.schema import Category, Flag, Label, Number, Ordered, PublicSchema

FEATURES = (
    Number("age", bounds=(18, 95), mean=50, sd=15),
    Number("balance", bounds=(-2_000, 10_000)),
    Category("job", values=("clerk", "nurse", "other")),
    Flag("loan", share=0.2),
)
SCHEMA = PublicSchema(FEATURES, Label("y", positive=1, negative=0))
WIDE = PublicSchema(
    [Ordered(f"x{j}", levels=tuple(range(5))) for j in range(150)],
    Label("y", positive=1, negative=0),
)


@pytest.mark.parametrize("schema", [SCHEMA, WIDE])
@pytest.mark.parametrize("n", [300, 3_000, 300_000])
@pytest.mark.parametrize("delta", [0.0, 1e-7])
def test_what_is_planned_is_what_is_used(schema, n, delta):
    told = plan_schema(schema, n=n, epsilon=1.0, delta=delta)
    guarantee = PrivateLogisticRegression(epsilon=1.0, delta=delta, schema=schema).price(n)
    assert (guarantee.delta > 0) == told.used.gaussian
    assert told.used in told.expected
    assert all(told.used.kept >= one.kept for one in told.expected if not one.gaussian)
    assert f"used: {told.used}" in str(told)
