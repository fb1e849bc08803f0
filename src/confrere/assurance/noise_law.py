"""Whether noise has the law that is priced: it is read back from what a plan releases.

Every release is a function of its noise that can be undone, given the rows. What comes out is held
against the declared law, norm by norm, coordinate by coordinate, and against the noise of other
groups, classes and parties. This hears a few per cent where ratios of densities hear nothing: they
speak of the law that is declared, whatever is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from scipy import stats

from confrere.arrays import Floats
from confrere.assurance.audit.densities import densities, sum_law
from confrere.kernel.measurements import Objective, Point, SecureSum
from confrere.kernel.noise import L1, Body, Gaussian, Law, Pure, RandomSource
from confrere.methods.plan import Term
from confrere.simulation import SeededSource

_Part = tuple[str, Floats, Callable[[Floats], Floats]]

#: Of one test of a law that holds: an audit of everything makes some thousands of them.
_RISK = 1e-9
#: Of all tests together: above it a quarter of the runs will do. What all would refute is then
#: three standard errors away.
_QUIET = 0.02

#: Runs, at most, where many share the passes over the rows; where they do not, as of more than two
#: classes, of all parts together and of each at least.
RUNS, _SOLVED, _LEAST = 2_048, 512, 160

#: Nodes for the law of a factor's share in the noise of a body.
_NODES = (np.arange(400) + 0.5) / 400


def noise_audit(
    terms: Sequence[Term],  # What a plan runs, on made-up rows
    random_state: int = 0,  # Of the noise
) -> tuple[float, str]:
    """Return how far the noise of these terms is from its law, and where; above one is refuted.

    That is the logarithm of the smallest p-value over that of one in 10^9, and what was tested.
    """
    made = (term.mechanism for term in terms)
    slow = any(isinstance(one, Objective) and one.loss.n_classes > 2 for one in made)
    most = max(_LEAST, _SOLVED // len(terms)) if slow else RUNS
    source = SeededSource(random_state)
    for count in (most // 4, most):
        drawn = [each for term in terms for each in _read_back(term, source, count)]
        tests = [
            (float(stats.kstest(np.asarray(below(values)), "uniform").pvalue), f"{name}: {what}")
            for name, noise, law in drawn
            for what, values, below in _parts(law, noise)
        ]
        tests.append((_correlation([_apart(law, noise) for _, noise, law in drawn]), "parts agree"))
        p, where = min(tests)
        if p * len(tests) > _QUIET:
            break
    return float(np.log(max(p, 1e-300)) / np.log(_RISK)), where


def _read_back(term: Term, source: RandomSource, count: int) -> Iterator[tuple[str, Floats, Law]]:
    """Yield the noise behind each density of a term."""
    summed = term.mechanism
    if isinstance(summed, SecureSum):
        # The law is that of as many shares as are counted on; more may be there, and parties' own.
        nothing = np.zeros((summed.parts * count, summed.size))
        shares = summed.uploads(nothing, source=source, own=False).reshape(count, summed.parts, -1)
        yield term.name, summed.decode(shares.sum(axis=1, dtype=np.uint64)), sum_law(summed)
        return
    found, released = densities(term.mechanism, term.data), term.run_many(source, count)
    ends = np.cumsum([density.released for density in found])
    for k, (density, end) in enumerate(zip(found, ends, strict=True)):
        mine = released[:, end - density.released : end]
        noise = np.array([density.noise(one) for one in mine])
        if isinstance(summed, Point) and not summed.parts:
            # Whole numbers: each is spread over its part of Laplace's law.
            q, steps = np.exp(-density.law.rate), np.abs(noise)
            tail = q**steps * (q + (1 - q) * source.uniforms(*noise.shape)) / (1 + q)
            noise = stats.laplace.ppf(np.where(noise > 0, 1 - tail, tail)) / density.law.rate
        yield f"{term.name}, {k}" if len(found) > 1 else term.name, noise, density.law


def _parts(law: Law, noise: Floats) -> Iterator[_Part]:
    if isinstance(law, Gaussian):
        for j, column in enumerate(noise.T):
            yield f"coordinate {j}", column / law.sigma, stats.norm.cdf
        return
    assert isinstance(law, Pure)
    if isinstance(law.norm, L1):
        for j, column in enumerate(noise.T):
            yield f"coordinate {j}", column * law.rho, stats.laplace.cdf
        return
    for k, block in enumerate(np.split(noise, law.copies, axis=1)):
        named = "" if law.copies == 1 else f" of class {k}"
        if isinstance(law.norm, Body):
            for name, values, below in _body_parts(law.norm, law.rho, block):
                yield name + named, values, below
            continue
        size, lengths = block.shape[1], np.linalg.norm(block, axis=1)
        yield f"length{named}", law.rho * lengths, stats.gamma(size).cdf
        for j, column in enumerate(block.T) if size > 1 else ():
            half = (size - 1) / 2
            place = (column / lengths + 1) / 2
            yield f"direction {j}{named}", place, stats.beta(half, half).cdf


def _body_parts(body: Body, rho: float, noise: Floats) -> Iterator[_Part]:
    """Yield the norm of every group, Gamma, and every factor's norm: its share is Beta(m, 1)."""
    norms, group = body.factor_norms(noise), np.array(body.groups)
    for g, share in enumerate(body.shares):
        mine = np.flatnonzero(group == g)
        dimension = sum(body.sizes[k] for k in mine)
        rate = rho * share
        whole = rate * norms[:, mine].max(axis=1)
        yield f"norm of group {g}", whole, stats.gamma(dimension).cdf
        for k in mine if len(mine) > 1 else ():
            yield f"factor {k} of group {g}", rate * norms[:, k], _factor(dimension, body.sizes[k])


@lru_cache
def _factor(dimension: int, size: int) -> Callable[[Floats], Floats]:
    """Return the distribution of Gamma(``dimension + 1``) times Beta(``size``, 1)."""
    places = np.linspace(0, stats.gamma(dimension + 1).isf(1e-9), 600)
    parts = _NODES ** (1 / size)
    below = stats.gamma(dimension + 1).cdf(places[:, None] / parts).mean(axis=1)
    return lambda t: np.interp(t, places, below)


def _apart(law: Law, noise: Floats) -> Floats:
    """Return noise in coordinates that are uncorrelated if it has its law."""
    if not isinstance(law, Pure) or not isinstance(law.norm, Body):
        return noise
    return np.hstack(
        [
            block[:, part] @ turn.T
            for block in np.split(noise, law.copies, axis=1)
            for part, turn in zip(law.norm.parts, law.norm.inverses, strict=True)
        ]
    )


def _correlation(parts: Sequence[Floats]) -> float:
    """Return the p-value of the largest rank correlation of two coordinates: laws are symmetric."""
    columns = np.hstack(parts)
    if columns.shape[1] < 2:
        return 1.0
    if not np.ptp(columns, axis=0).min() > 0:
        return 0.0
    ranks = stats.rankdata(columns, axis=0)
    found = np.abs(np.corrcoef(ranks, rowvar=False) - np.eye(columns.shape[1])).max()
    # Coordinates of one length are uncorrelated and not independent: twice the variance, and more.
    return float(2 * stats.norm.sf(found * np.sqrt(len(columns) / 2)))
