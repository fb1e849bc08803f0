"""Counts over all parties as one sum: the exact law, one price, and nobody's own count."""

import math

import numpy as np
import pytest
from scipy import stats

from confrere.kernel.guarantee import Neighbours
from confrere.kernel.measurements import SecureSum
from confrere.methods.sums import CountedSum
from confrere.simulation import SeededSource

ASKED = {
    "epsilon": 1.0,
    "n_parties": 4,
    "collusion_threshold": 1,
    "max_retries": 0,
    "quorum": 1.0,
    "largest": 100,
}


def counts(**settings):
    return CountedSum(**ASKED | settings).records(Neighbours.REPLACE_ONE)


def law(sums, shares, cells=2**18):
    """Exact probabilities of the noise of so many shares, around zero."""
    angle = 2 * np.pi * np.fft.fftfreq(cells)
    ratio = math.exp(-1 / sums.scale)
    once = (1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(angle) + ratio**2)
    return np.fft.fftshift(np.fft.ifft(once ** (shares / sums.parts)).real)


@pytest.mark.parametrize("collusion_threshold", [1, 2])
def test_the_exact_loss_is_the_claim_for_those_who_do_not_collude(collusion_threshold, monkeypatch):
    """One record moves the sum by one, which is 2^8 steps of a lattice made coarser for this."""
    monkeypatch.setattr(SecureSum, "spacing", 2.0**-8)
    for epsilon in (0.3, 1.0):
        sums = counts(epsilon=epsilon, collusion_threshold=collusion_threshold)
        for shares in (sums.parts, sums.n_parties):
            known = law(sums, shares)
            near, moved = known[2**8 :], known[: -(2**8)]
            seen = (near > 1e-10) & (moved > 1e-10)
            loss = float(np.max(np.abs(np.log(near[seen] / moved[seen]))))
            assert loss <= epsilon * (1 + 1e-4)
            assert loss >= 0.9 * epsilon or shares > sums.parts


def test_counting_on_everyones_share_is_found(monkeypatch):
    """Mutation: m = M. Without one colluder's share the noise is too small."""
    monkeypatch.setattr(SecureSum, "parts", property(lambda self: self.n_parties))
    sums = counts()
    left = sums.n_parties - 1
    uploads = sums.uploads(np.zeros((4000 * left, 1)), source=SeededSource(0), own=False)
    total = sums.decode(uploads.reshape(4000, left, 1).sum(axis=1, dtype=np.uint64))
    assert stats.kstest(total[:, 0] * sums.rate, "laplace").pvalue < 1e-4
