"""The score that needs no data."""

import numpy as np
import pandas as pd
import pytest

from confrere.schema import Category, Flag, Label, Number, PublicSchema

SCHEMA = PublicSchema(
    [
        Number("age", bounds=(0, 100), mean=50, sd=10, importance=3, sign=1),
        Flag("sport", importance=4, sign=-1),
        Category("blood", values=["A", "B"], importance=1),
    ],
    Label("ill", positive="yes", base_rate=0.2),
)
TABLE = pd.DataFrame({"age": [50, 70, 30], "sport": [True, False, True], "blood": list("ABA")})


def test_expert_score_is_sign_times_importance():
    assert SCHEMA.expert_weights() == pytest.approx([0.6, -0.8, 0, 0])
    assert SCHEMA.expert_score(TABLE) == pytest.approx([-0.8, 0.6 * 2 + 0.8, -0.6 * 2 - 0.8])


@pytest.mark.parametrize("settings", [{}, {"weighted": True}])
def test_the_prior_follows_the_encoding(settings):
    encoder = SCHEMA.encoder(clip_norm=100.0, **settings)
    along = encoder.transform(TABLE) @ encoder.expert_prior()
    score = SCHEMA.expert_score(TABLE)
    assert along / np.linalg.norm(along) == pytest.approx(score / np.linalg.norm(score))
