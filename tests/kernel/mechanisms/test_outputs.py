"""Output perturbation and the output step: how far a minimiser moves, and what covers it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.errors import InvalidData
from confrere.kernel.accountants import loss_of
from confrere.kernel.noise import LatticeStep
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


steps = st.builds(
    LatticeStep, epsilon=st.floats(1e-3, 1), radius=st.floats(1e-12, 1e-2), size=st.integers(1, 30)
)


@given(step=steps, seed=st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_two_answers_of_the_solver_cannot_be_told_apart(step, seed):
    """Exact loss of privacy for two points within the radius of one minimiser."""
    rng = np.random.default_rng(seed)
    minimiser = rng.normal(size=step.size)

    def answer():
        move = rng.normal(size=step.size)
        return minimiser + step.radius * move / np.linalg.norm(move)

    first, second = (np.rint(answer() / step.spacing) for _ in range(2))
    # log P(out | first) - log P(out | second) <= ||first - second||_1 / scale for every out.
    assert np.abs(first - second).sum() / step.scale <= step.epsilon


def test_the_bound_is_reached_by_opposite_corners():
    step = LatticeStep(epsilon=0.01, radius=1e-6, size=4)
    corner = np.full(4, step.radius / 2)
    first, second = np.rint(corner / step.spacing), np.rint(-corner / step.spacing)
    assert np.abs(first - second).sum() / step.scale >= 0.6 * step.epsilon
