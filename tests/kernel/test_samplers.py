"""Noise laws, from both sources."""

from contextlib import nullcontext

import numpy as np
import pytest
from scipy import stats

from confrere.kernel import noise
from confrere.simulation import SeededSource
from tests.world import system_stream

# The system's source cannot be seeded: of a hundred million runs a test of it fails by chance once.
SOURCES = [
    pytest.param(system_stream, 1e-8, id="system"),
    pytest.param(lambda: nullcontext(SeededSource(7)), 1e-3, id="seeded"),
]


@pytest.mark.parametrize(("make", "level"), SOURCES)
@pytest.mark.parametrize("d", [1, 3, 40])
def test_norm_is_gamma_with_scale_one_over_rho(make, level, d):
    rho = 0.37
    with make() as source:
        norms = np.linalg.norm(noise.L2(d).draw(rho, source, 5000), axis=1)
    assert stats.kstest(norms, stats.gamma(d, scale=1 / rho).cdf).pvalue > level


@pytest.mark.parametrize(("make", "level"), SOURCES)
@pytest.mark.parametrize("d", [2, 3, 40])
def test_direction_is_uniform(make, level, d):
    with make() as source:
        drawn = noise.L2(d).draw(2.0, source, 5000)
    cosines = drawn[:, 0] / np.linalg.norm(drawn, axis=1)
    law = stats.beta((d - 1) / 2, (d - 1) / 2, loc=-1, scale=2)
    assert stats.kstest(cosines, law.cdf).pvalue > level
    # and no direction is preferred: a random public axis looks like the first one
    axis = np.random.default_rng(0).normal(size=d)
    other = drawn @ axis / np.linalg.norm(axis) / np.linalg.norm(drawn, axis=1)
    assert stats.kstest(other, law.cdf).pvalue > level


@pytest.mark.parametrize(("make", "level"), SOURCES)
def test_discrete_laplace_has_its_law(make, level):
    scale = 2.5
    with make() as source:
        drawn = noise.discrete_laplace(scale, (20000,), source)
    support = np.arange(-12, 13)
    ratio = np.exp(-1 / scale)
    law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(support)
    inside = np.array([(drawn == k).sum() for k in support])
    observed = np.append(inside, len(drawn) - inside.sum())
    expected = np.append(law, 1 - law.sum()) * len(drawn)
    assert stats.chisquare(observed, expected).pvalue > level


def test_uniforms_stay_inside_and_are_uniform():
    with system_stream() as source:
        u = source.uniforms(1000, 20)
    assert u.shape == (1000, 20)
    assert 0 < u.min() <= u.max() < 1
    assert stats.kstest(u.ravel(), "uniform").pvalue > 1e-8


class WordSource(noise.RandomSource):
    """Words that are given."""

    simulated = True

    def __init__(self, *words):
        self.given = np.array(words, dtype=np.uint64)

    def _words(self, count):
        return self.given[:count]


def test_small_uniforms_keep_their_digits():
    # Both lie in the first cell of the grid; a grid alone could not tell them apart.
    first, second = WordSource(0, 0, 2**63, 2**63 + 2**12).uniforms(2)
    assert first == pytest.approx(2.0**-53, rel=1e-15)
    assert 0 < second - first < 2.0**-100


@pytest.mark.parametrize("scale", [0.3, 5.0, 2.0**16, 2.0**16 + 1, 3e5, 1e12])
def test_discrete_laplace_has_its_law_at_every_scale(scale):
    """Above 2^16 the low binary digits are drawn apart."""
    drawn = noise.discrete_laplace(scale, (40_000,), SeededSource(1))
    ratio = np.exp(-1 / scale)

    def below(k):
        """Return P(Z <= k)."""
        tail = ratio ** np.abs(k) / (1 + ratio)
        return np.where(k >= 0, 1 - ratio * tail, tail)

    assert np.mean(drawn == 0) == pytest.approx((1 - ratio) / (1 + ratio), abs=0.01)
    for quantile in (-2.0, -0.5, 0.0, 0.5, 2.0):
        k = np.floor(quantile * scale)
        assert np.mean(drawn <= k) == pytest.approx(below(k), abs=0.011)
    # Odd numbers are as frequent as they should be: a digit that is forgotten would show.
    odd = 2 * ratio / (1 + ratio) ** 2
    assert np.mean(drawn % 2) == pytest.approx(odd, abs=0.011)


def test_normals_have_their_law_and_are_independent():
    draws = noise.normals(4, 20_000, SeededSource(3))
    assert stats.kstest(draws.ravel(), "norm").pvalue > 1e-4
    correlations = np.corrcoef(draws.T) - np.eye(4)
    assert np.abs(correlations).max() < 4 / 20_000**0.5
    scaled = noise.Gaussian(2.5, 4).draw(SeededSource(3), 20_000)
    np.testing.assert_array_equal(scaled, 2.5 * draws)
