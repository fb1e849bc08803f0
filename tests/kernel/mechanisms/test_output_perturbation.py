"""Output perturbation: how far a minimiser can move, and that the noise covers it."""

import numpy as np
import pytest
from scipy import stats

from confrere.errors import InvalidData
from confrere.kernel.losses import loss_of
from confrere.methods.average import noised_coefficients, noised_minimiser
from confrere.simulation import SeededSource
from confrere_research.as_printed.minimiser import minimise

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


def test_the_noise_is_as_long_as_the_sensitivity_asks():
    rng = np.random.default_rng(2)
    X, y = unit_rows(rng, 6, 2), rng.choice([-1.0, 1.0], size=6)
    plan = mechanism()
    exact = minimise(X, y, ridge=0.5, tolerance=1e-9)
    (drawn,) = plan.sample((X, y), SeededSource(0), 2000)
    norms = np.linalg.norm(drawn - exact, axis=1)
    assert stats.kstest(norms, stats.gamma(2, scale=plan.sensitivity).cdf).pvalue > 1e-3
