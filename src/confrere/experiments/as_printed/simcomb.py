"""SimComb as printed (Algorithm 2 of the transfer paper): PLR near the source's PLR.

True up to what :mod:`confrere.experiments.as_printed.plr` says: rows of source and of target are
each scaled by their own largest norm, which is a leak; the source's weights are brought to the
target's scale, which the paper leaves open.
"""

from __future__ import annotations

import numpy as np

from confrere.experiments.as_printed.plr import Floats, fit_plr


def fit_simcomb(
    source: tuple[Floats, Floats],
    target: tuple[Floats, Floats],
    *,
    epsilon: float,
    alpha: float,
    rng: np.random.Generator,
    eta: float = 0.0,
) -> Floats:
    """Return the target's weights, for rows as given; labels are -1 and +1."""
    learned = fit_plr(*source, epsilon=epsilon, alpha=alpha, rng=rng)
    return fit_plr(*target, epsilon=epsilon, alpha=alpha, rng=rng, centre=(1 - eta) * learned)
