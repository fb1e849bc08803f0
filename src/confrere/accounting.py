"""What several releases promise together: less than the sum of their epsilons.

A view of charges that were made; what a ledger's caps count is the plain sum, which needs no
condition. Needs the ``accounting`` extra (Google's dp-accounting). Proof: docs/proofs/gaussian.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.arrays import Floats
from confrere.errors import InvalidParameter
from confrere.extras import extra
from confrere.kernel.accountants import Exposure, GaussianLoss, gaussian_delta, jacobian, loss_of
from confrere.kernel.guarantee import (
    GaussianMinimisers,
    GaussianPoint,
    Guarantee,
    Neighbours,
    PartsApart,
    PrivacyEvent,
    check_bound,
)
from confrere.ledger import Entry
from confrere.ledger.compose import Together

#: Share of the total delta that is spent on losses beyond the grid.
_BEYOND = 1e-4
#: How well an event must agree with what was paid.
_AGREES = 1e-6

_GAUSSIAN = (GaussianMinimisers, GaussianPoint)
_ASSUMPTION = "price and noise of each release fixed without looking at earlier ones"


def total(releases: Iterable[Entry | Guarantee], *, delta: float, step: float = 1e-4) -> Guarantee:
    """Return what all releases from the same data promise together, at one delta.

    Parameters
    ----------
    releases : iterable of Entry or Guarantee
        Charges from a ledger, or promises. Entries of Gaussian fits and stacks carry what a tight
        account needs; all else enters by its epsilon and delta alone.
    delta : float
        Of the total; strictly between 0 and 1.
    step : float, default=1e-4
        The grid on which losses are rounded up: a smaller one is tighter and slower.

    Returns
    -------
    Guarantee
        True if the price and the noise of every release were fixed without looking at earlier
        ones; what is asked may follow from them. Never more than the plain sum, where ``delta``
        covers the sum of the deltas.

    Raises
    ------
    CompositionError
        If units or neighbours differ.

    Examples
    --------
    >>> from confrere import Guarantee
    >>> from confrere.accounting import total
    >>> print(total([Guarantee(0.1)] * 100, delta=1e-6))
    (4.77457, 1e-06)-DP per record (replace-one)
    """
    check_bound(step, "step")
    if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 < delta < 1:
        raise InvalidParameter("delta must be a number strictly between 0 and 1.")
    parts = list(releases)
    plain = Together(
        [part if isinstance(part, Guarantee) else part.guarantee for part in parts]
    ).guarantee()
    epsilon = _composed(Counter(map(_kind, parts)), delta, step)
    if plain.delta <= delta:
        epsilon = min(epsilon, plain.epsilon)
    if math.isinf(epsilon):
        raise InvalidParameter("delta is below what the releases spend beyond any epsilon.")
    assumed = (*plain.assumptions, _ASSUMPTION)
    return replace(plain, epsilon=max(epsilon, step), delta=delta, assumptions=assumed)


@dataclass(frozen=True)
class _GaussianFit:
    """Points or minimisers with Gaussian noise, and the pure step that paid for floats or solver.

    A record is in one of the ``levels`` alone, wherever the split put it: of a stack, in one part
    of the low level or in the high level.
    """

    levels: frozenset[GaussianLoss | float]  # a number is sensitivity over sigma of a point
    output_epsilon: float

    def losses(self, tools: _Tools) -> Any:
        """Return the distribution that dominates: the profile's dots, connected from above."""
        last = self._last(tools)
        upward = np.arange(last + 1)
        above = np.max([profile(level, upward * tools.step) for level in self.levels], axis=0)
        # sup_S P(S) - e^-eps Q(S) is 1 - e^-eps + e^-eps sup_S Q(S) - e^eps P(S).
        mirrored = above[:0:-1]
        below = 1 - np.exp(-upward[:0:-1] * tools.step) * (1 - mirrored)
        places = np.concatenate([-upward[:0:-1], upward])
        deltas = np.concatenate([below, above])
        hull = _lower_hull(np.exp(places * tools.step), deltas)
        pmf = tools.pmf.create_pmf_pessimistic_connect_dots(tools.step, places[hull], deltas[hull])
        minimiser = tools.distributions.PrivacyLossDistribution(pmf)
        return minimiser.compose(tools.promised(self.output_epsilon, 0.0))

    def _last(self, tools: _Tools) -> int:
        """Return the first dot, doubling, beyond which hardly any loss lies."""
        last = 64
        while max(float(_delta(one, last * tools.step)) for one in self.levels) > tools.beyond:
            last *= 2
            if last * tools.step > 500:
                raise InvalidParameter("a release promises too little to be composed.")
        return last


@dataclass(frozen=True)
class _Tools:
    """The parts of dp-accounting that are used, the grid's step, and the mass left beyond it."""

    common: Any
    distributions: Any
    pmf: Any
    step: float
    beyond: float

    def promised(self, epsilon: float, delta: float) -> Any:
        """Return losses of a release of which nothing but the promise is known."""
        parameters = self.common.DifferentialPrivacyParameters(epsilon, delta)
        return self.distributions.from_privacy_parameters(parameters, self.step)


def _delta(noise: GaussianLoss | float, epsilon: ArrayLike) -> Floats:
    return gaussian_delta(epsilon, noise) if isinstance(noise, float) else noise.delta(epsilon)


_Kind = tuple[float, float] | _GaussianFit


def _kind(release: Entry | Guarantee) -> _Kind:
    if isinstance(release, Guarantee):
        return release.epsilon, release.delta
    event, price = release.event, release.guarantee
    parts = event.parts if isinstance(event, PartsApart) else (event,)
    levels = [_level(each, price) for each in parts]
    spent = {each.output_epsilon for each in parts if isinstance(each, _GAUSSIAN)}
    # A release that paid for more than this one fit, such as a check before it, spends less on it.
    if None in levels or len(spent) != 1:
        return price.epsilon, price.delta
    return _GaussianFit(frozenset(filter(None, levels)), spent.pop())


def _level(event: PrivacyEvent | None, price: Guarantee) -> GaussianLoss | float | None:
    """Return the loss of a release's noise, if it gives the very delta that was paid."""
    found: GaussianLoss | float
    if isinstance(event, GaussianPoint):
        found = event.mu
    elif isinstance(event, GaussianMinimisers):
        exposure = Exposure(
            loss=loss_of(event.n_classes, event.cap),
            ridges=event.ridges,
            weights=(1.0,) * len(event.ridges),
            joint=event.joint,
            neighbours=price.neighbours,
        )
        found = GaussianLoss(exposure, event.sigmas)
    else:
        return None
    spent = float(_delta(found, price.epsilon - event.output_epsilon))
    return found if math.isclose(spent, price.delta, rel_tol=_AGREES) else None


def dp_event(charge: Entry) -> dict[str, object]:
    """Return what dominates a charge as an event of dp-accounting, by the fields of its own tuples.

    It is to be read with ``NeighboringRelation.REPLACE_ONE``, under which a Gaussian moves by two
    and randomised response is the worst of all that promise an epsilon, whatever was counted.
    """
    event, price = charge.event, charge.guarantee
    if isinstance(event, GaussianPoint) and _level(event, price) is not None:
        noise = _named("GaussianDpEvent", noise_multiplier=2 / event.mu)
        return _named("ComposedDpEvent", events=[noise, _response(event.output_epsilon)])
    return _named("UnsupportedDpEvent") if price.delta else _response(price.epsilon)


def _response(epsilon: float) -> dict[str, object]:
    lies = 2 / (1 + math.exp(epsilon))
    return _named("RandomizedResponseDpEvent", noise_parameter=lies, num_buckets=2)


def _named(event: str, **values: object) -> dict[str, object]:
    return {"module_name": "dp_accounting.dp_event", "class_name": event, **values}


def _composed(kinds: Counter[_Kind], delta: float, step: float) -> float:
    """Return epsilon of all of them together."""
    names = ("common", "privacy_loss_distribution", "pld_pmf")
    common, losses, pmf = (extra("accounting", f"dp_accounting.pld.{name}") for name in names)
    tools = _Tools(common, losses, pmf, step, _BEYOND * delta / kinds.total())
    whole = tools.distributions.identity(step)
    for kind, count in kinds.items():
        one = kind.losses(tools) if isinstance(kind, _GaussianFit) else tools.promised(*kind)
        whole = whole.compose(one.self_compose(count) if count > 1 else one)
    return float(whole.get_epsilon_for_delta(delta))


def _lower_hull(x: NDArray[np.float64], y: NDArray[np.float64]) -> list[int]:
    """Return the indices of the points on the greatest convex function below all of them."""
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            if (y[b] - y[a]) * (x[i] - x[b]) < (y[i] - y[b]) * (x[b] - x[a]):
                break
            kept.pop()
        kept.append(i)
    return kept


def profile(noise: GaussianLoss | float, epsilon: ArrayLike) -> Floats:
    """Return a bound on delta that is good at small epsilons too, where releases compose.

    A replaced record is one that goes and one that comes: between the two lies a data set that
    is a neighbour of both by one record, and no corner has to be counted beside another. Of
    several blocks of two classes, the Jacobian apart, no test does better than between two
    Gaussians: they compose as those do.
    """
    bound = _delta(noise, epsilon)
    if isinstance(noise, float):
        return bound
    relation = noise.exposure.neighbours
    if len(noise.sigmas) > 1:
        if noise.exposure.loss.n_classes > 2 or relation is not Neighbours.REPLACE_ONE:
            return bound
        paid = jacobian(noise.exposure)
        twice = np.asarray(epsilon, dtype=np.float64) - 2 * paid
        return np.minimum(math.exp(paid) * gaussian_delta(twice, noise.reach), bound)
    at = np.asarray(epsilon, dtype=np.float64)[..., None]
    goes = noise.exposure.loss.moves(noise.exposure.ridges[0], replaced=False)
    mu, count = goes[0].reach / noise.sigmas[0], goes[0].count
    at_end, at_zero = goes[0].jacobian, goes[-1].jacobian
    if relation is Neighbours.ADD_REMOVE:
        alone = _one_record(at, mu, count, at_end, at_zero).min(axis=-1)
        return np.asarray(np.minimum(bound, alone))
    # Whoever comes pays no Jacobian. Any division of epsilon is sound; that of two Gaussian
    # mechanisms, beyond what the Jacobian takes, is the best or nearly so.
    for taken in (at_end, at_zero):
        first = (at + taken - mu**2) / 2
        second = np.exp(first) * _one_record(at - first, mu, count, 0.0, 0.0)
        both = _one_record(first, mu, count, at_end, at_zero) + second
        bound = np.minimum(bound, both.min(axis=-1))
    return bound


def _one_record(
    epsilon: Floats, mu: float, count: int, at_end: ArrayLike, at_zero: ArrayLike
) -> Floats:
    """Return delta where one record goes or comes: the loss is at most the larger of two ends.

    ``E (1 - e^(epsilon - max(s + at_end, at_zero)))_+`` with ``s`` the loss of a Gaussian
    mechanism, the largest of ``count`` such.
    """
    end, zero = np.asarray(at_end), np.asarray(at_zero)
    above = count * gaussian_delta(epsilon - end, mu)
    left = np.minimum(epsilon - zero, 0.0)
    below = -np.expm1(left) + np.exp(left) * count * gaussian_delta(zero - end, mu)
    return np.asarray(np.minimum(1.0, np.where(epsilon >= zero, above, below)))
