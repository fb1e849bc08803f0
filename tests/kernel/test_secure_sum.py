"""Secure sums: exact losses of the summed noise, with and without colluders, and mutations."""

import math
import tracemalloc
from functools import cached_property

import numpy as np
import pytest
from scipy import integrate, special, stats

from confrere.kernel import measurements
from confrere.kernel.accountants import gaussian_delta
from confrere.kernel.guarantee import Neighbours
from confrere.kernel.measurements import SecureSum
from confrere.methods.asking import colluders_of
from confrere.methods.sums import CountedSum
from confrere.simulation import SeededSource

ACCEPTED = 1e-4


def mechanism(of=SecureSum, **settings):
    given = {"epsilon": 1.0, "size": 1, "sensitivity": 1.0, "n_parties": 4, "largest": 10.0}
    given |= {name: one for name, one in settings.items() if one is not None}
    given = {"fewest": given["n_parties"]} | given
    return of(**({"colluding": colluders_of("auto", given["fewest"], 1.0)} | given))


def worst_slope(rate, size, parts, shares):
    """Largest slope of -log density of ``shares`` out of ``parts``; infinite at a pole.

    The density is ``r^nu K_nu(rate r)``, and its slope ``rate K_(nu-1)/K_nu``.
    """
    nu = (size + 1) * shares / (2 * parts) - size / 2
    if nu <= 0:
        return math.inf
    r = np.geomspace(1e-6, 200, 4000)
    return rate * float(np.max(special.kve(nu - 1, r) / special.kve(nu, r)))


@pytest.mark.parametrize("size", [1, 2, 10, 50])
@pytest.mark.parametrize("colluding", [1, 2, None])
def test_what_colluders_leave_still_keeps_the_promise(size, colluding):
    sums = mechanism(size=size, n_parties=12, colluding=colluding)
    for shares in range(sums.parts, sums.n_parties + 1):
        slope = worst_slope(sums.rate, size, sums.parts, shares)
        assert slope * sums.sensitivity <= sums.epsilon * (1 - sums.integer_share) * (1 + 1e-9)
    at_the_floor = worst_slope(sums.rate, size, sums.parts, sums.parts)
    assert at_the_floor * sums.sensitivity >= 0.99 * sums.epsilon


@pytest.mark.parametrize("fewest", range(2, 60))
def test_by_default_a_majority_is_honest_and_the_noise_hardly_louder(fewest):
    sums = mechanism(size=3, n_parties=fewest)
    assert sums.parts == max(1, min(fewest // 2 + 1, fewest - 1))
    assert sums.parts + sums.colluding == fewest
    assert sums.colluding < fewest / 2 or fewest == 2  # of two each adds all of the noise
    loudest = mechanism(size=3, n_parties=fewest, colluding=1)
    assert sums.rate == loudest.rate  # the price is the same
    assert sums.deviation <= math.sqrt(2) * loudest.deviation


class OnACoarseLattice(SecureSum):
    """The shipping mechanism with a lattice on which its law can be summed exactly."""

    integer_share = 0.01

    @cached_property
    def spacing(self):
        return 2.0**-13 / self.rate


def exact_loss(sums, shares, *, integer_noise=True):
    """Largest log ratio, in one dimension, between sums that one record moves by its most."""
    cells = 2**20
    at = np.arange(cells) - cells // 2
    step = sums.spacing * sums.rate
    a = 1 / sums.parts
    constant = 2 / (math.sqrt(math.pi) * special.gamma(a) * 2 ** (a - 0.5))

    def density(x):
        return constant * np.exp((a - 0.5) * np.log(x) + np.log(special.kve(a - 0.5, x)) - x)

    far = np.abs(at) > 40
    share = np.zeros(cells)
    share[far] = density(np.abs(at[far]) * step) * step / 2
    for k in np.flatnonzero(~far):
        low, high = (abs(at[k]) - 0.5) * step, (abs(at[k]) + 0.5) * step
        share[k] = (
            integrate.quad(density, 1e-300, high)[0]
            if at[k] == 0
            else integrate.quad(density, low, high)[0] / 2
        )
    transform = np.fft.fft(np.fft.ifftshift(share / share.sum())).real ** shares
    if integer_noise:
        ratio = math.exp(-1 / sums.scale)
        angle = 2 * np.pi * np.fft.fftfreq(cells)
        laplace = (1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(angle) + ratio**2)
        transform = transform * laplace ** (shares / sums.parts)
    law = np.fft.fftshift(np.fft.ifft(transform).real)
    moved = round(sums.sensitivity / sums.spacing) + 1  # and the rounding of the vector
    near, shifted = law[moved:], law[:-moved]
    seen = (near > 1e-9) & (shifted > 1e-9)
    return float(np.max(np.abs(np.log(near[seen] / shifted[seen]))))


@pytest.mark.parametrize("colluding", [1, 2])
def test_the_rounded_sum_keeps_the_whole_promise(colluding):
    sums = mechanism(OnACoarseLattice, colluding=colluding)
    for shares in range(sums.parts, sums.n_parties + 1):
        assert exact_loss(sums, shares) <= sums.epsilon
    assert exact_loss(sums, sums.parts) >= 0.9 * sums.epsilon


def law_of_the_sum(size=5, n_parties=6, runs=3000):
    """P-value of the norm of the released noise, were only ``parts`` shares there."""
    sums = mechanism(size=size, n_parties=n_parties, largest=1e3)
    empty = np.zeros((runs * sums.parts, size))
    uploads = sums.uploads(empty, source=SeededSource(1), own=False)
    noise = sums.decode(uploads.reshape(runs, sums.parts, size).sum(axis=1, dtype=np.uint64))
    return stats.kstest(sums.rate * np.linalg.norm(noise, axis=1), "gamma", args=(size,)).pvalue


def test_what_is_released_has_the_law():
    assert law_of_the_sum() > ACCEPTED


@pytest.mark.parametrize("wrong", [lambda d, m: (d, m + 1), lambda d, m: (d, 2 * m)])
def test_a_wrong_share_of_the_gamma_is_found(wrong, monkeypatch):
    """Mutation: shares of another shape, so that too few of them make the law."""
    right = measurements.l2_shares

    def shares(rho, size, parts, count, *, source):
        size, parts = wrong(size, parts)
        return right(rho, size, parts, count, source=source)

    monkeypatch.setattr(measurements, "l2_shares", shares)
    assert law_of_the_sum() < ACCEPTED


def integers_in_the_sum(runs=4000):
    """P-value of the integer noise alone: the continuous noise is silenced."""
    sums = mechanism(n_parties=4)
    uploads = sums.uploads(np.zeros((runs * sums.parts, 1)), source=SeededSource(2), own=False)
    total = uploads.reshape(runs, sums.parts).sum(axis=1, dtype=np.uint64).view(np.int64)
    return stats.kstest(total / sums.scale, "laplace").pvalue


def test_integer_noise_pays_for_roundings(monkeypatch):
    silent = lambda rho, size, parts, count, *, source: np.zeros((count, size))  # noqa: E731
    monkeypatch.setattr(measurements, "l2_shares", silent)
    assert integers_in_the_sum() > ACCEPTED
    # Mutation: no integer noise at all.
    none = lambda scale, size, parts, count, *, source: np.zeros((count, size), np.int64)  # noqa: E731
    monkeypatch.setattr(measurements, "integer_shares", none)
    assert integers_in_the_sum() < ACCEPTED


# What covers a party's records if all others pool what they know.


def own_law(sums, rounded=True):
    """The law, on the lattice, of what one party adds in one dimension: by Fourier inversion."""
    finer, cells = 16, 2**22
    step = sums.spacing / finer
    u = 2 * np.pi * np.fft.fftfreq(cells, step)
    rho, k = sums.rate, sums.floor
    transform = (1 + (u / rho) ** 2) ** (-1 / sums.parts) / (1 + (u / (k * rho)) ** 2)
    if not rounded:
        return np.fft.fftshift(np.fft.ifft(transform).real), step
    transform *= np.sinc(u * sums.spacing / (2 * np.pi))  # all that is rounded to a point
    law = np.fft.ifft(transform).real.reshape(-1, finer)[:, 0] * finer
    angle = 2 * np.pi * np.fft.fftfreq(len(law))
    for scale, power in ((sums.scale, 1 / sums.parts), (sums.scale / k, 1.0)):
        q = math.exp(-1 / scale)
        law = np.fft.fft(law) * ((1 - q) ** 2 / (1 - 2 * q * np.cos(angle) + q**2)) ** power
        law = np.fft.ifft(law).real
    return np.fft.fftshift(law), sums.spacing


@pytest.mark.parametrize(("n_parties", "exactly"), [(3, 1.88), (5, 3.13), (17, 9.5)])
def test_all_others_together_learn_no_more_than_the_second_price(n_parties, exactly):
    sums = mechanism(OnACoarseLattice, n_parties=n_parties, largest=9.0)
    assert sums.alone == pytest.approx(math.sqrt(10 * n_parties))
    density, step = own_law(sums, rounded=False)
    seen = density > 1e-9 * density.max()
    slope = np.abs(np.diff(np.log(np.where(seen, density, np.nan)))) / step
    # By the largest slope, a shift of one unit costs at most as much.
    assert np.nanmax(slope) / sums.rate == pytest.approx(exactly, rel=0.02)
    assert np.nanmax(slope) <= sums.alone
    law, _ = own_law(sums)
    moved = round(sums.sensitivity / sums.spacing) + 1
    near, shifted = law[moved:], law[:-moved]
    both = (near > 1e-9) & (shifted > 1e-9)
    assert np.max(np.abs(np.log(near[both] / shifted[both]))) <= sums.alone


@pytest.mark.parametrize("law", ["l2", "integer", "Gaussian"])
def test_what_a_party_adds_by_itself_has_its_law(law, monkeypatch):
    silent = lambda rate, size, parts, *rest, source: (  # noqa: E731
        real(rate, size, parts, *rest, source=source) * (parts == 1)
    )
    real = measurements.l2_shares
    none = lambda scale, size, parts, count, *, source: np.zeros((count, size), np.int64)  # noqa: E731
    own = {"delta": 1e-6} if law == "Gaussian" else {"law": law}
    sums = mechanism(n_parties=6, size=1, **own)
    monkeypatch.setattr(measurements, "l2_shares", silent)
    monkeypatch.setattr(measurements, "integer_shares", none)
    monkeypatch.setattr(measurements, "normals", lambda size, count, _: np.zeros((count, size)))
    added = sums.uploads(np.zeros((20_000, 1)), source=SeededSource(5)).view(np.int64)[:, 0]
    scale = sums.scale / sums.floor
    if law == "l2":
        scale = 1 / (sums.rate * sums.floor * sums.spacing)
    assert stats.kstest(added / scale, "laplace").pvalue > ACCEPTED
    assert stats.kstest(added / scale / 0.9, "laplace").pvalue < ACCEPTED


def test_many_shares_are_drawn_some_at_a_time():
    """Else a million parties would take gigabytes, after the charge."""
    sums = mechanism(n_parties=50_000, size=200, colluding=1, law="integer")
    tracemalloc.start()
    sums.sample(np.zeros(200), SeededSource(6))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4e8


def test_a_gaussian_share_alone_is_a_gaussian_mechanism():
    rounds = mechanism(delta=1e-6, releases=20, epsilon=0.5, n_parties=17)
    mu = math.sqrt(20 * rounds.parts) * rounds.sensitivity * rounds.rate
    rounded = rounds.floor * rounds.epsilon * rounds.integer_share
    assert float(gaussian_delta(rounds.alone - rounded, mu)) <= 1e-6
    assert float(gaussian_delta((rounds.alone - rounded) * 0.999, mu)) > 1e-6
    assert rounds.event().alone == rounds.alone
    assert f"epsilon is at most {rounds.alone:.4g}" in rounds.guarantee().assumptions[0]


def test_gaussian_rounds_spend_what_they_say():
    rounds = mechanism(delta=1e-6, releases=20, epsilon=0.5, n_parties=17)
    mu = math.sqrt(20) * rounds.sensitivity * rounds.rate
    spent = rounds.epsilon * (1 - rounds.integer_share)
    assert float(gaussian_delta(spent, mu)) <= 1e-6
    assert float(gaussian_delta(spent, mu * 1.001)) > 1e-6
    one = mechanism(delta=1e-6, epsilon=0.5, n_parties=17)
    assert one.rate == pytest.approx(math.sqrt(20) * rounds.rate)
    assert rounds.scale == pytest.approx(20 * one.scale, rel=1e-3)


def counts(**settings):
    asked = {"epsilon": 1.0, "n_parties": 4, "collusion_threshold": 1, "max_retries": 0}
    made = CountedSum(**asked | {"quorum": 1.0, "largest": 100} | settings)
    return made.records(Neighbours.REPLACE_ONE)


@pytest.mark.parametrize("colluding", [1, 2])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_counts_lose_the_claim_to_those_who_do_not_collude(colluding, epsilon, monkeypatch):
    """One record moves the sum by one, which is 2^8 steps of a lattice made coarser for this."""
    monkeypatch.setattr(SecureSum, "spacing", 2.0**-8)
    sums = counts(epsilon=epsilon, collusion_threshold=colluding)
    angle, ratio = 2 * np.pi * np.fft.fftfreq(2**18), math.exp(-1 / sums.scale)
    once = (1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(angle) + ratio**2)
    for shares in (sums.parts, sums.n_parties):
        law = np.fft.fftshift(np.fft.ifft(once ** (shares / sums.parts)).real)
        near, moved = law[2**8 :], law[: -(2**8)]
        seen = (near > 1e-10) & (moved > 1e-10)
        loss = float(np.max(np.abs(np.log(near[seen] / moved[seen]))))
        assert loss <= epsilon * (1 + 1e-4)
        assert loss >= 0.9 * epsilon or shares > sums.parts
