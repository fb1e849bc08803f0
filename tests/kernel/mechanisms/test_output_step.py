"""The output step: what it adds, and that it hides what it must."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.kernel.norms import LatticeStep

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
