"""Output perturbation: how far a minimiser can move, and that the noise covers it."""

import numpy as np
import pytest

from confrere.errors import InvalidData
from confrere.kernel.losses import loss_of
from confrere.methods.average import noised_coefficients, noised_minimiser
from confrere.simulation import SeededSource

LOGISTIC = loss_of(2)


def unit_rows(rng, n, d):
    X = rng.normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def mechanism(loss=LOGISTIC, **settings):
    facts = {"epsilon": 1.0, "n_samples": 6, "n_features": 2, "ridge": 0.5}
    return noised_minimiser(loss=loss, **facts | settings)


@pytest.mark.parametrize("made", [mechanism, noised_coefficients])
def test_labels_that_are_none_would_move_it_further(made):
    facts = {} if made is mechanism else {"epsilon": 1.0, "n_samples": 6, "n_features": 2}
    with pytest.raises(InvalidData):
        made(**facts).sample(
            (unit_rows(np.random.default_rng(0), 6, 2), np.full(6, 9.0)), SeededSource(0)
        )
