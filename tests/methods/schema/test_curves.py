"""Columns for noise that is shaped like the rows: intervals, corners and hats."""

import numpy as np
import pandas as pd
import pytest

from confrere.schema import Category, Flag, Label, Number, Ordered, PublicSchema

SCHEMA = PublicSchema(
    [
        Number("age", bounds=(18, 95)),
        Number("income", bounds=(0, 1000), log=True, mean=3.0, sd=1.5, missing="indicator"),
        Number("children", bounds=(0, 3), missing="center"),
        Number("rate", bounds=(0, 1), curve=(0, 0.2, 1)),
        Number("height", bounds=(1.2, 2.2), mean=1.7, sd=0.1, curve=False),
        Flag("smoker", share=0.1, missing="indicator"),
        Category("job", values=("a", "b", "c"), unknown="zeros"),
        Ordered("grade", levels=(1, 2, 3, 4), shares=(0.1, 0.2, 0.3, 0.4), missing=2),
    ],
    outcome=Label("y", positive=1, negative=0),
)


def random_table(rng, n=300):
    """Return a table with values far outside, unknown ones and gaps."""

    def gaps(values):
        return np.where(rng.uniform(size=n) < 0.2, np.nan, values)

    return pd.DataFrame(
        {
            "age": rng.normal(50, 60, n),
            "income": gaps(rng.lognormal(3, 3, n)),
            "children": gaps(rng.integers(-1, 6, n).astype(float)),
            "rate": rng.uniform(-0.5, 1.5, n),
            "height": rng.normal(1.7, 0.5, n),
            "smoker": gaps(rng.integers(0, 2, n).astype(float)),
            "job": rng.choice(["a", "b", "c", "other"], n),
            "grade": gaps(rng.integers(1, 5, n).astype(float)),
        }
    )


@pytest.mark.parametrize("form", ["linear", "curves"])
def test_every_row_lies_in_the_body_that_the_blocks_declare(form):
    encoder = SCHEMA.encoder(form=form)
    rows = encoder.transform(random_table(np.random.default_rng(0))) * encoder.norm
    blocks = encoder.blocks()
    assert sum(block.size for block in blocks) == rows.shape[1] == len(encoder.names)
    assert len(set(encoder.names)) == len(encoder.names)
    start = 0
    for block in blocks:
        part = rows[:, start : start + block.size]
        assert np.abs(part).sum(axis=1).max() <= 1 + 1e-12
        # What facts say of the size of a column is not far off where they hold.
        assert 0 < block.spread <= 1
        start += block.size
