"""Releases of thousands of parties at once: every one has the law of one alone."""

import numpy as np
import pytest
from scipy import stats

from confrere.errors import InvalidData
from confrere.kernel.streams import SeededSource
from confrere.mechanisms.laplace_objective import LaplaceObjectivePerturbation
from confrere.mechanisms.noisy_minimiser import run_parties
from confrere.mechanisms.objective_perturbation import ObjectivePerturbation
from confrere.mechanisms.output_perturbation import OutputPerturbation, run_output_parties

SIZES = (3, 8)
D = 4
M = 4000  # parties


def make_group(norm=2):
    rng = np.random.default_rng(0)
    sizes = np.tile(SIZES, M // 2)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.normal(size=(offsets[-1], D))
    X /= 1.001 * np.linalg.norm(X, ord=norm, axis=1, keepdims=True)
    return X, np.where(X[:, 0] > 0, 1.0, -1.0), offsets, sizes


def noise_behind(W, X, y, offsets, mechanisms, centre):
    """Return the linear term of which every party's weights are the minimiser."""
    sizes = np.diff(offsets)
    party = np.repeat(np.arange(len(sizes)), sizes)
    margins = y * np.einsum("ij,ij->i", X, W[party])
    cap = mechanisms[SIZES[0]].cap
    pull = np.zeros_like(W)
    np.add.at(pull, party, (np.minimum(1 / (1 + np.exp(margins)), cap) * y)[:, None] * X)
    ridge = np.array([mechanisms[size].ridge for size in sizes])
    return pull - ridge[:, None] * (W - centre)


@pytest.mark.parametrize("cap", [1.0, 0.5])
@pytest.mark.parametrize("kind", [ObjectivePerturbation, LaplaceObjectivePerturbation])
def test_the_noise_behind_every_release_has_its_partys_own_law(kind, cap):
    in_l1 = kind is LaplaceObjectivePerturbation
    X, y, offsets, sizes = make_group(1 if in_l1 else 2)
    centre = np.array([0.5, -1.0, 0.0, 2.0])
    mechanisms = {
        n: kind(epsilon=1.0, n_samples=n, n_features=D, ridge=2.0 + n, cap=cap, prior_norm=3.0)
        for n in SIZES
    }
    source = SeededSource(1)
    acts = {n: mechanism.minimiser for n, mechanism in mechanisms.items()}
    W = run_parties(acts, X, y, offsets, source=source, centre=centre)
    noise = noise_behind(W, X, y, offsets, mechanisms, centre)
    for size, mechanism in mechanisms.items():
        own = noise[sizes == size]
        norms = np.linalg.norm(own, ord=1 if in_l1 else 2, axis=1)
        assert stats.kstest(norms, stats.gamma(D, scale=1 / mechanism.rho).cdf).pvalue > 1e-4
        if in_l1:
            law = stats.laplace(scale=1 / mechanism.rho).cdf
            assert all(stats.kstest(column, law).pvalue > 1e-4 for column in own.T)
        else:
            cosines = own @ np.full(D, D**-0.5) / norms
            assert stats.kstest((cosines + 1) / 2, stats.beta(1.5, 1.5).cdf).pvalue > 1e-4
        steps = W[sizes == size] / mechanism.output_step.spacing
        assert np.array_equal(steps, np.rint(steps))


def test_outputs_are_noised_minimisers_with_their_partys_own_scale():
    X, y, offsets, sizes = make_group()
    mechanisms = {
        n: OutputPerturbation(epsilon=1.0, n_samples=n, n_features=D, ridge=float(n)) for n in SIZES
    }
    noised, again = (
        run_output_parties(mechanisms, X, y, offsets, source=SeededSource(k)) for k in (2, 3)
    )
    for size, mechanism in mechanisms.items():
        # The minimisers cancel: what is left is the difference of two independent noise vectors.
        moved = (noised - again)[sizes == size]
        scale = mechanism.sensitivity / mechanism.epsilon
        expected = 2 * (D + 1) * scale**2  # twice E||b||^2 / d = (d + 1) scale^2
        assert np.mean(moved**2) == pytest.approx(expected, rel=0.1)
        steps = noised[sizes == size] / mechanism.noise.output_step.spacing
        assert np.array_equal(steps, np.rint(steps))


@pytest.mark.parametrize("kind", [ObjectivePerturbation, LaplaceObjectivePerturbation])
def test_rows_outside_the_ball_are_refused_before_any_draw(kind):
    X, y, offsets, _ = make_group()
    acts = {n: kind(epsilon=1.0, n_samples=n, n_features=D, ridge=5.0).minimiser for n in SIZES}
    X[17] *= 5
    with pytest.raises(InvalidData, match="clip the rows"):
        run_parties(acts, X, y, offsets, source=None)
