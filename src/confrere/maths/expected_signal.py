r"""How much can be learned in a body: one model of weights and noise, from public facts alone.

A body is a product of cross-polytopes (an interval is one of a single column). Noise of density
``exp(-||b||)`` for its gauge is ``r U`` with ``r ~ Gamma(d + 1)`` and ``U`` uniform in the body, so
a coordinate in a factor of ``m`` columns has the variance ``(d+1)(d+2) 2/((m+1)(m+2))``.

The log-odds of a row have the prior variance :data:`LOG_ODDS`, dealt out to the factors by how much
each of them can matter. A direction of prior variance ``t`` is seen through the curvature
``h = n v E[x^2]`` of the records and a noise of variance ``s2``: of its signal the share
``th/(th + 1 + s2/h)`` survives. Factors come in three groups, straight lines and flags, one-hot
blocks, and bends of curves, and the rate of the noise is dealt out to them so that most signal
survives. The same number says whether bends pay at all, whether a delta does, and what a planner
may expect. The constants were chosen on some tables and confirmed on others, see docs/geometry.md.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from confrere.arrays import Floats

Kind = Literal["number", "flag", "category", "hats", "bend", "constant"]
#: What shares the rate of the noise: intervals, one-hot blocks, bends of curves.
Group = Literal["lines", "corners", "bends"]
GROUPS: tuple[Group, ...] = ("lines", "corners", "bends")

#: Prior variance of a row's log-odds.
LOG_ODDS = 4.0

#: How much a column of every kind can matter: the mean square of what a line does to the log-odds;
#: of a flag, a level of a category (and all of a large one, per level) and a hat, by itself.
SLOPE, FLAG, LEVEL, PER_LEVEL = 2.0, 0.5, 1.0, 0.3

#: What six hats between a curve's ends can do on top of a line: where nothing but bounds is known,
#: and where mean and deviation are.
BENT, SLIGHTLY_BENT = 3.0, 1.0

#: What all hats of a curve can do together, where they are not divided into a line and bends.
HATS = 4.0

#: What the kernel of a curve has on its diagonal on top: a level of its own for every hat.
NUGGET = 0.05

#: Part of the curvature that is reckoned with. About half of the records lie where a capped loss is
#: straight, and columns tell in part the same.
SEEN = 0.25

#: Part of epsilon that is reckoned with for noise while the ridge is chosen.
_NOISE = 0.9

#: Shares of the rate are whole numbers of parts of one.
_PARTS = 16


@dataclass(frozen=True)
class Factor:
    """One factor of a body: columns of which the magnitudes add up to one at most.

    Attributes
    ----------
    size : int
        Number of columns.
    kind : str
        What they come from.
    spread : float
        Mean square of one of the columns, as far as public facts tell.
    smooth : int, default=0
        How many of the first columns are neighbouring hats between the ends of a curve.
    known : bool, default=False
        Whether mean and deviation of the number that is bent are public.
    together : bool, default=False
        Whether all factors share one rate, whatever they are.
    """

    size: int
    kind: Kind
    spread: float
    smooth: int = 0
    known: bool = False
    together: bool = False

    @property
    def weight(self) -> float:
        """Prior variance of one of its weights, beside others'."""
        if self.kind == "number":
            return SLOPE / self.spread
        if self.kind == "bend":
            return (SLIGHTLY_BENT if self.known else BENT) * max(1, self.smooth) / 6
        if self.kind == "hats":
            return HATS
        if self.kind == "category":
            return max(LEVEL, PER_LEVEL * (self.size - 1))
        return FLAG if self.kind == "flag" else LEVEL

    @property
    def length(self) -> float:
        """The squared length of its rows beside others' where noise is Gaussian.

        Half way, on the scale of logarithms, between what is best where little can be learned (the
        prior variance) and where much can (the same for all).
        """
        return math.sqrt(self.weight)

    @property
    def group(self) -> Group:
        """Which others it shares its part of the rate with."""
        if self.together:
            return "corners"
        if self.kind == "bend":
            return "bends"
        return "lines" if self.size == 1 else "corners"

    @cached_property
    def kernel(self) -> Floats:
        """The prior covariance of its weights, of scale one."""
        kernel = np.eye(self.size)
        alike = hat_kernel if self.kind == "hats" else bend_kernel
        kernel[: self.smooth, : self.smooth] = alike(self.smooth)
        return kernel

    @cached_property
    def scales(self) -> Floats:
        """The variances of the kernel's principal directions."""
        return np.asarray(np.linalg.eigvalsh(self.kernel))


#: The column of ones.
CONSTANT = Factor(1, "constant", 1.0)


def hat_kernel(hats: int) -> Floats:
    """Return the prior covariance of all hats of a curve, of mean diagonal one.

    Neighbouring values are alike, and their mean is nothing: a level is the intercept's.
    """
    places = np.arange(hats)
    alike = np.exp(-np.abs(places[:, None] - places[None, :]) / max(1, hats - 1))
    centre = np.eye(hats) - 1 / hats
    centred = centre @ alike @ centre
    return np.asarray(centred * hats / np.trace(centred) + NUGGET * np.eye(hats))


def bend_kernel(hats: int) -> Floats:
    """Return the prior covariance of the hats between a curve's ends, of mean diagonal one.

    A curve is a line from its first knot to its last, and what it does between them: neighbouring
    values are alike, and near the ends there is little (the bridge of an exponential kernel).
    """
    if hats < 2:
        return np.eye(hats)
    places = np.arange(hats + 2)
    alike = np.exp(-np.abs(places[:, None] - places[None, :]) / (hats + 1))
    ends, between = [0, hats + 1], slice(1, hats + 1)
    across = alike[between, ends]
    bridge = alike[between, between] - across @ np.linalg.solve(alike[np.ix_(ends, ends)], across.T)
    return np.asarray(bridge * hats / np.trace(bridge) + NUGGET * np.eye(hats))


def coordinate_variance(dimension: int, size: int) -> float:
    """Return the variance of one coordinate of noise of rate 1.

    Parameters
    ----------
    dimension : int
        Of the product that the coordinate's factor belongs to.
    size : int
        Columns of that factor.
    """
    return (dimension + 1) * (dimension + 2) * 2 / ((size + 1) * (size + 2))


def prior_scale(factors: Sequence[Factor], log_odds: float = LOG_ODDS) -> float:
    """Return what a factor's weight is multiplied with for the prior variance of its weights.

    A row has one active column in every factor, so they sum to the variance of its log-odds.
    """
    return log_odds / sum(factor.weight for factor in factors)


@dataclass(frozen=True, kw_only=True)
class ExpectedSignal:
    """What a body is expected to learn, from public facts alone.

    Attributes
    ----------
    signal : float
        Variance of the log-odds that is expected to survive the noise.
    total : float
        The variance that there is.
    shares : mapping of group to float
        Of the rate of the noise, or of the rows' squared length where noise is Gaussian.
    """

    signal: float
    total: float
    shares: Mapping[Group, float]

    @property
    def kept(self) -> float:
        """The share of the signal that survives."""
        return self.signal / self.total if self.total else 0.0


@dataclass(frozen=True, kw_only=True)
class NoiseModel:
    """How much noise a weight is seen through: of the body's own law, or Gaussian.

    Attributes
    ----------
    rate : float
        Of noise of density ``exp(-rate ||b||)``, or 1 over the deviation where it is Gaussian.
    gaussian : bool, default=False
        Noise is normal in the body's coordinates, in which no row is longer than one.
    """

    rate: float
    gaussian: bool = False

    def variances(
        self, group: Mapping[Factor, int], share: float
    ) -> Iterator[tuple[Factor, int, Floats]]:
        """Yield every factor of one group, how often it is there, and the noise in its directions.

        Parameters
        ----------
        group : mapping of Factor to int
            Its factors, and how many there are of each.
        share : float
            The group's part of the rate.
        """
        dimension = sum(count * factor.size for factor, count in group.items())
        length = squared_length(group)
        for factor, count in group.items():
            if self.gaussian:
                each = length / (share * factor.length * factor.scales * self.rate**2)
            else:
                unit = coordinate_variance(dimension, factor.size)
                each = np.full(factor.size, unit / (self.rate * share) ** 2)
            yield factor, count, each


def squared_length(group: Mapping[Factor, int]) -> float:
    """Return the largest squared norm of a group's rows, before they are given their share."""
    return sum(
        count * factor.length * float(factor.kernel.diagonal().max())
        for factor, count in group.items()
    )


def grouped(factors: Sequence[Factor]) -> dict[Group, Counter[Factor]]:
    """Return the groups that there are, each with its factors and how often they are there."""
    found = {group: Counter(f for f in factors if f.group == group) for group in GROUPS}
    return {group: counts for group, counts in found.items() if counts}


def expected_signal(
    factors: Sequence[Factor],
    *,
    n_samples: int,
    curvature: float,
    noise: NoiseModel,
    log_odds: float = LOG_ODDS,
    among: Sequence[Factor] | None = None,
) -> ExpectedSignal:
    """Return how much can be learned in a body, with the best shares of its groups.

    Parameters
    ----------
    factors : sequence of Factor
        Of the rows, the constant among them.
    n_samples : int
        Public number of records.
    curvature : float
        Mean of ``p(1-p)`` that a declared base rate implies.
    noise : NoiseModel
        What weights are seen through.
    log_odds : float, default=4.0
        Prior variance of a row's log-odds around what is shrunk towards.
    among : sequence of Factor, optional
        All factors that there could be, where forms are compared: the log-odds are theirs.
    """
    scale = prior_scale(factors if among is None else among, log_odds)
    records = SEEN * n_samples * curvature
    groups = grouped(factors)
    survives = {
        (group, parts): sum(
            count * surviving(factor, scale, each, records)
            for factor, count, each in noise.variances(counts, parts / _PARTS)
        )
        for group, counts in groups.items()
        for parts in range(1, _PARTS + 1)
    }
    best, most = (_PARTS,) * len(groups), -1.0
    for parts in itertools.product(range(1, _PARTS + 1), repeat=len(groups)):
        if sum(parts) != _PARTS:
            continue
        signal = sum(survives[each] for each in zip(groups, parts, strict=True))
        if signal > most * (1 + 1e-9):
            best, most = parts, signal
    return ExpectedSignal(
        signal=most,
        total=sum(
            scale * factor.weight * factor.spread * float(factor.scales.sum())
            for factor in (factors if among is None else among)
            if factor.kind != "constant"
        ),
        shares={group: parts / _PARTS for group, parts in zip(groups, best, strict=True)},
    )


def surviving(factor: Factor, scale: float, noise: Floats, records: float) -> float:
    """Return the signal of one factor that survives; a constant ranks nobody."""
    if factor.kind == "constant":
        return 0.0
    seen, prior = records * factor.spread, scale * factor.weight * factor.scales
    kept = prior * seen / (prior * seen + 1 + noise / seen)
    return float(factor.spread * (prior * kept).sum())


def pure_noise(budget: float, cap: float, records: int = 2) -> NoiseModel:
    """Return the noise of the body's own law, as it is reckoned with before the ridge is known.

    Parameters
    ----------
    budget : float
        What pays for noise and Jacobian.
    cap : float
        Largest slope of the loss.
    records : int, default=2
        How many records of two neighbouring tables differ: one goes and another comes, or one only.
    """
    return NoiseModel(rate=_NOISE * budget / (records * cap))


def gaussian_noise(sigma: float) -> NoiseModel:
    """Return normal noise, from the deviation that it has where the Jacobian is free."""
    return NoiseModel(rate=_NOISE / sigma, gaussian=True)
