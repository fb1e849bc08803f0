"""Shares of noise: every law, exact integers, and floats that are right at both ends."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from confrere.kernel import noise as shares
from confrere.kernel.measurements import SecureSum
from confrere.simulation import SeededSource

ACCEPTED = 1e-4  # of a right law's p-values, one in ten thousand is below


class Words(shares.RandomSource):
    """A source that repeats given words."""

    simulated = True

    def __init__(self, *words):
        self.given = words

    def _words(self, count):
        return np.resize(np.array(self.given, dtype=np.uint64), count)


def summed(drawn, parts):
    return drawn.reshape(-1, parts, drawn.shape[1]).sum(axis=1)


def test_exponentials_are_fine_at_both_ends():
    nothing = shares.exponentials(3, source=Words(0))
    assert np.all(np.isfinite(nothing) & (nothing > 0))
    # Ten thousand small ones: on a grid of 2^-53 those below 2^-20 would share their last bits.
    drawn = shares.exponentials(4_000_000, source=SeededSource(3))
    small = drawn[drawn < 2.0**-15]
    mantissas = (np.frexp(small)[0] * 2.0**53).astype(np.int64)
    assert len(small) > 50
    assert np.mean(mantissas % 2) == pytest.approx(0.5, abs=0.25)


@pytest.mark.parametrize(
    "shape", [Fraction(1, 3), Fraction(99, 100), Fraction(2), Fraction(51, 24)]
)
def test_gammas_have_their_law(shape):
    drawn = shares.gammas(shape, 20_000, source=SeededSource(4))
    assert stats.kstest(drawn, "gamma", args=(float(shape),)).pvalue > ACCEPTED


@pytest.mark.parametrize(("size", "parts"), [(1, 4), (2, 3), (5, 3), (50, 2), (10, 200)])
def test_l2_shares_add_up_to_the_law(size, parts):
    count = 2000 if parts < 100 else 500
    noise = summed(shares.l2_shares(2.0, size, parts, count * parts, source=SeededSource(6)), parts)
    norms = np.linalg.norm(noise, axis=1)
    assert stats.kstest(2.0 * norms, "gamma", args=(size,)).pvalue > ACCEPTED
    if size > 1:  # the direction is uniform: a coordinate squared has a beta law
        squares = (noise[:, 0] / norms) ** 2
        assert stats.kstest(squares, "beta", args=(0.5, (size - 1) / 2)).pvalue > ACCEPTED


def test_gaussian_shares_add_up_to_their_law():
    counts = {"size": 2, "n_parties": 7, "fewest": 6, "colluding": 1}
    sums = SecureSum(epsilon=1.0, delta=1e-6, sensitivity=1.0, largest=1.0, **counts)
    normal = summed(sums._noise(1 / 3, 5, 10_000, SeededSource(7)), 5).ravel() / 3.0
    assert stats.kstest(normal, "norm").pvalue > ACCEPTED


@pytest.mark.parametrize(("parts", "scale"), [(1, 5), (3, 5), (12, 40)])
def test_integer_shares_add_up_to_discrete_laplace_noise(parts, scale):
    runs = 20_000
    drawn = shares.integer_shares(scale, 1, parts, parts * runs, source=SeededSource(8))
    total = summed(drawn, parts).ravel()
    ratio = np.exp(-1 / scale)
    values = np.arange(-4 * scale, 4 * scale + 1)
    expected = runs * (1 - ratio) / (1 + ratio) * ratio ** np.abs(values)
    observed = np.array([(total == value).sum() for value in values])
    rest = runs - expected.sum()
    chi2 = ((observed - expected) ** 2 / expected).sum()
    chi2 += (runs - observed.sum() - rest) ** 2 / rest
    assert stats.chi2.sf(chi2, len(values)) > ACCEPTED
