"""Releases of thousands of parties at once: every one has the law of one alone."""

import numpy as np
import pytest
from scipy import stats

from confrere.data.frame import Frame
from confrere.errors import InvalidData
from confrere.kernel.norms import L1, L2
from confrere.kernel.streams import SeededSource
from confrere.mechanisms.measurements import EachParty
from confrere.methods.average import NoisedMinimiser
from tests.world import ball

SIZES = (3, 8)
D = 4
M = 4000  # parties


def make_group(order=2):
    rng = np.random.default_rng(0)
    sizes = np.tile(SIZES, M // 2)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.normal(size=(offsets[-1], D))
    X /= 1.001 * np.linalg.norm(X, ord=order, axis=1, keepdims=True)
    return X, np.where(X[:, 0] > 0, 1.0, -1.0), offsets, sizes


def noise_behind(W, X, y, offsets, acts, centre):
    """Return the linear term of which every party's weights are the minimiser."""
    sizes = np.diff(offsets)
    party = np.repeat(np.arange(len(sizes)), sizes)
    margins = y * np.einsum("ij,ij->i", X, W[party])
    cap = acts[SIZES[0]].loss.slope
    pull = np.zeros_like(W)
    np.add.at(pull, party, (np.minimum(1 / (1 + np.exp(margins)), cap) * y)[:, None] * X)
    ridge = np.array([acts[size].ridge for size in sizes])
    return pull - ridge[:, None] * (W - centre)


@pytest.mark.parametrize("cap", [1.0, 0.5])
@pytest.mark.parametrize("kind", [L2, L1])
def test_the_noise_behind_every_release_has_its_partys_own_law(kind, cap):
    order = 1 if kind is L1 else 2
    X, y, offsets, sizes = make_group(order)
    centre = np.array([0.5, -1.0, 0.0, 2.0])
    made = {
        n: ball(D, kind=kind, n_samples=n, ridge=2.0 + n, cap=cap, centre=centre) for n in SIZES
    }
    acts = {n: one.act for n, one in made.items()}
    W = EachParty(made).sample([(X, y, offsets)], SeededSource(1))[0]
    noise = noise_behind(W, X, y, offsets, acts, centre)
    for size, act in acts.items():
        own = noise[sizes == size]
        norms = np.linalg.norm(own, ord=order, axis=1)
        assert stats.kstest(norms, stats.gamma(D, scale=1 / act.law.rate).cdf).pvalue > 1e-4
        if order == 1:
            law = stats.laplace(scale=1 / act.law.rate).cdf
            assert all(stats.kstest(column, law).pvalue > 1e-4 for column in own.T)
        else:
            cosines = own @ np.full(D, D**-0.5) / norms
            assert stats.kstest((cosines + 1) / 2, stats.beta(1.5, 1.5).cdf).pvalue > 1e-4
        steps = W[sizes == size] / act.output_step.spacing
        assert np.array_equal(steps, np.rint(steps))


def test_outputs_are_noised_minimisers_with_their_partys_own_scale():
    X, y, offsets, sizes = make_group()
    frame = Frame(D, constant=0.0)
    asked = NoisedMinimiser(frame=frame, epsilon=1.0, ridge=0.0, alpha=1.0, cap=1.0)
    made = asked.each_party(SIZES)
    (noised,), (again,) = (made.sample([(X, y, offsets)], SeededSource(k)) for k in (2, 3))
    for size, mechanism in made.made.items():
        # The minimisers cancel: what is left is the difference of two independent noise vectors.
        moved = (noised - again)[sizes == size]
        scale = mechanism.sensitivity / mechanism.promise.epsilon
        expected = 2 * (D + 1) * scale**2  # twice E||b||^2 / d = (d + 1) scale^2
        assert np.mean(moved**2) == pytest.approx(expected, rel=0.1)
        steps = noised[sizes == size] / mechanism.steps[0].spacing
        assert np.array_equal(steps, np.rint(steps))


class _Silent(SeededSource):
    def _words(self, count):
        raise AssertionError("drawn")


@pytest.mark.parametrize("kind", [L2, L1])
def test_rows_outside_the_ball_are_refused_before_any_draw(kind):
    X, y, offsets, _ = make_group()
    made = {n: ball(D, kind=kind, n_samples=n, ridge=5.0) for n in SIZES}
    X[17] *= 5
    with pytest.raises(InvalidData, match="clip the rows"):
        EachParty(made).sample([(X, y, offsets)], _Silent(0))
