"""Adversarial neighbours and the exact loss of privacy on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from confrere.maths.density import log_density
from confrere.maths.logistic import residual


@dataclass(frozen=True)
class Pair:
    """Two data sets that differ in one record, and a point at which to compare densities."""

    common: np.ndarray  # (m, d) signed rows y x of the records both have
    first: np.ndarray | None  # (d,) row x of the record that changes; None: not there
    first_label: float
    second: np.ndarray | None
    second_label: float
    w: np.ndarray


def signed_loss(pair: Pair, *, rho: float, ridge: float, cap: float = 1.0) -> float:
    """Return the log density ratio, first over second, at ``w``.

    The centre ``u`` is public and moves ``b(w)`` freely without touching the Hessian: it is chosen
    so that the first data set needs no noise at all and the second one the most.
    """
    first = _signed_rows(pair, pair.first, pair.first_label)
    second = _signed_rows(pair, pair.second, pair.second_label)
    centre = pair.w - first.T @ residual(first @ pair.w, cap) / ridge
    values = [
        log_density(pair.w, rows, np.ones(len(rows)), rho=rho, ridge=ridge, centre=centre, cap=cap)
        for rows in (first, second)
    ]
    return values[0] - values[1]


def loss_of_privacy(pair: Pair, *, rho: float, ridge: float, cap: float = 1.0) -> float:
    """Return the larger of the two directions' losses."""
    swapped = Pair(
        pair.common, pair.second, pair.second_label, pair.first, pair.first_label, pair.w
    )
    return max(abs(signed_loss(each, rho=rho, ridge=ridge, cap=cap)) for each in (pair, swapped))


def _signed_rows(pair, x, label):
    extra = np.zeros((0, len(pair.w))) if x is None else label * x[None, :]
    return np.vstack([pair.common, extra])


def unit(rng, d):
    x = rng.normal(size=d)
    return x / np.linalg.norm(x)


def random_pair(rng, d, *, change="replace-one", n_common=2):
    """Return a pair with rows on or in the ball and a point that makes residuals large."""
    common = np.array([unit(rng, d) * rng.uniform() for _ in range(n_common)]).reshape(n_common, d)
    first = unit(rng, d)
    label = rng.choice([-1.0, 1.0])
    w = unit(rng, d) * 10 ** rng.uniform(-1, 2)
    if change == "label-only":
        return Pair(common, first, label, first, -label, w)
    if change == "add-remove":
        return Pair(common, first, label, None, 1.0, w)
    return Pair(common, first, label, unit(rng, d), rng.choice([-1.0, 1.0]), w)


def opposed_pair(d, *, tilt, size, tilt_second=None, change="replace-one"):
    """Return the worst construction known: both records badly fitted, pulling opposite ways.

    Signed rows are ``(-cos, -sin tilt)`` and ``(cos, -sin tilt)`` in the first two coordinates and
    ``w`` stands on the second axis, so both margins are negative while the pulls oppose.
    """
    tilt_second = tilt if tilt_second is None else tilt_second
    first, second, w = np.zeros(d), np.zeros(d), np.zeros(d)
    if d == 1:
        first[0], second[0], w[0] = -1.0, 1.0, size
    else:
        first[:2] = -np.cos(tilt), -np.sin(tilt)
        second[:2] = np.cos(tilt_second), -np.sin(tilt_second)
        w[1] = size
    if change == "add-remove":
        return Pair(np.zeros((0, d)), first, 1.0, None, 1.0, w)
    if change == "label-only":
        return Pair(np.zeros((0, d)), first, 1.0, first, -1.0, w)
    return Pair(np.zeros((0, d)), first, 1.0, second, 1.0, w)


def worst_loss(d, *, rho, ridge, cap=1.0, change="replace-one", seed=0, draws=60):
    """Return the largest loss over random and constructed pairs."""
    rng = np.random.default_rng(seed)
    pairs = [
        random_pair(rng, d, change=change, n_common=int(rng.integers(0, 4))) for _ in range(draws)
    ]
    # Where a cap bends the loss, the worst residual sits just below the bend.
    bends = [np.log(c / (1 - c)) - 1e-9 for c in {cap, 1 - cap} if 0 < c < 1]
    for size in (300.0, 1000.0) if d > 1 else (1.0,):
        for margin in [*np.linspace(-4, 8, 41), *bends]:
            tilt = margin / size
            pairs += [
                opposed_pair(d, tilt=tilt, size=size if d > 1 else margin, change=change),
                opposed_pair(d, tilt=tilt, tilt_second=12 / size, size=size, change=change),
            ]
    return max(loss_of_privacy(pair, rho=rho, ridge=ridge, cap=cap) for pair in pairs)
