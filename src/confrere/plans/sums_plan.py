"""Several organisations, one model, through sums that nobody sees into.

Proof: docs/proofs/secure_sums.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from confrere.arrays import Floats
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Guarantee, check_epsilon
from confrere.kernel.losses import Labels
from confrere.kernel.streams import RandomSource
from confrere.maths.solver import UNSOLVED, minimise, minimise_softmax, smallest_tolerance
from confrere.maths.solver.descent import residual
from confrere.mechanisms.output_step import coordinate_rounding, coordinates
from confrere.mechanisms.secure_sum import Colluding, SecureSum, check_tries, fewest_of
from confrere.plans.base_plan import Term
from confrere.plans.design import Alpha
from confrere.plans.noised_descent import Descent, as_weights
from confrere.plans.party_rows import PartyRows, Sizes
from confrere.rows.frame import Frame

#: Ridge of one message: this times weights over epsilon, for all records together. Twice or half
#: as much costs .001 to .004 of area under the curve.
_ONE_MESSAGE = 0.9

#: Smallest gradient that a party solves to.
_TOLERANCE = 1e-6

#: Prior variances of a weight, behind the ridge of rounds: over columns of the same mean square,
#: and of each column with its own.
_PRIOR_VARIANCE, _OWN_VARIANCE = 0.2, 1.0

#: The ridge of rounds is at least this over the whole noise's mu.
_LEAST_RIDGE = 0.3

#: No score is higher, so that differences of scores stay finite.
_HIGHEST = 1e300

#: Columns that hardly vary are told apart down to this mean square.
_SMALLEST = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class OneMessage:
    """Every party adds its exact local minimiser, weighted by its records, to one secure sum.

    With a ridge of ``lam n_i/n`` at a party of ``n_i`` among ``n`` records, one record moves
    ``n_i w_i/n`` by at most ``2 cap/lam`` whatever the sizes: the noise does not grow with the
    number of parties. Pure, one round. For many parties; three large ones do better with an
    average of releases.

    The ridge that keeps the noise small shrinks some weights more than others. How much is public
    (:attr:`squares`), and so is the noise: :meth:`weights_of` undoes the one where it exceeds the
    other, which is post-processing.

    Parameters
    ----------
    frame : Frame
        The public coordinates, in L2.
    epsilon : float
        What every record pays.
    alpha : float or "auto", default="auto"
        Ridge per record of all parties.
    cap : float, default=0.5
        Largest slope of the loss.
    prior : array, optional
        Public weights to shrink towards.
    colluding : int or "auto", default="auto"
        How many parties may pool what they know; by default a minority of those of a sum.
    reserve : int, default=0
        How often a sum that came to nothing may be tried again at the same price; the noise is
        that of one sum more each time.
    quorum : float, default=1.0
        Share of the parties that a sum needs; the noise is made by those who would be there.
    curvature, second_moments, n_classes
        As for :class:`GradientRounds`.
    """

    frame: Frame
    epsilon: float
    n_classes: int = 2
    alpha: Alpha = "auto"
    cap: float = 0.5
    prior: Floats | None = None
    colluding: Colluding = "auto"
    reserve: int = 0
    quorum: float = 1.0
    curvature: float = 0.2
    second_moments: ArrayLike | None = None

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_tries(self.reserve, self.quorum)
        _check_loss(self.n_classes, self.cap, self.prior)

    @property
    def rounds(self) -> int:
        """How often parties are asked."""
        return 1

    @property
    def delta(self) -> float:
        """None: it is pure."""
        return 0.0

    @cached_property
    def centre(self) -> Floats:
        """The point that is shrunk towards."""
        return _centre(self.prior, self.n_classes, self.frame.size)

    def ridge(self, sizes: Sizes) -> float:
        """Return ``lam``, the ridge of all records together."""
        if self.alpha != "auto":
            return sizes.total * float(self.alpha)
        return _ONE_MESSAGE * self.frame.size / self.epsilon

    def tolerance(self, sizes: Sizes) -> float:
        """Return a bound on the gradient that every party can certify, from public sizes."""
        largest = max(sizes.counts.values())
        ridge = self.ridge(sizes)
        smallest = max(
            smallest_tolerance(
                n,
                self.frame.size,
                ridge=ridge * n / sizes.total,
                linear_norm=0.0,
                centre_norm=float(np.linalg.norm(self.centre)),
                n_classes=self.n_classes if self.n_classes > 2 else None,
            )
            for n in {largest, min(sizes.counts.values())}
        )
        return max(_TOLERANCE, 2 * smallest)

    def mechanism(self, sizes: Sizes) -> SecureSum:
        """Return the sum: its law, its lattice, its price."""
        ridge = self.ridge(sizes)
        longest = _slope(self.n_classes, self.cap) * max(sizes.counts.values()) / ridge
        error = self.tolerance(sizes) / ridge + coordinate_rounding(longest, self.n_classes)
        return SecureSum(
            epsilon=self.epsilon,
            size=self.frame.size * (self.n_classes - 1),
            sensitivity=2 * _slope(self.n_classes, self.cap) / ridge,
            n_parties=_enough(sizes, self.colluding),
            fewest=fewest_of(len(sizes.counts), self.quorum),
            colluding=self.colluding,
            releases=1 + self.reserve,
            largest=longest + error,
            error=error,
        )

    def message(self, X: Floats, y: Labels, sizes: Sizes) -> Floats:
        """Return what one party with these bounded rows adds to the sum, before its noise."""
        share = len(y) / sizes.total
        near: dict[str, Any] = {
            "ridge": self.ridge(sizes) * share,
            "centre": self.centre,
            "tolerance": self.tolerance(sizes),
        }
        try:
            if self.n_classes == 2:
                solved = minimise(X, y, cap=self.cap, **near).w
            else:
                codes = np.asarray(y, dtype=np.intp)
                solved = minimise_softmax(X, codes, self.n_classes, **near).w
        except UNSOLVED:
            # A party that stays away because of its data would tell: it sends the centre.
            solved = self.centre
        return coordinates(share * (solved - self.centre))

    def guarantee(self, sizes: Sizes) -> Guarantee:
        """Return what every record pays."""
        return self.mechanism(sizes).guarantee()

    def run(self, parties: PartyRows, sizes: Sizes, source: RandomSource) -> Floats:
        """Return the weights, of a sum in which every party has a share of the noise."""
        released = self.mechanism(sizes).run(
            self._messages(parties, sizes), source=source.stream("sum", 0)
        )
        return self.weights_of(released, sizes)

    @cached_property
    def squares(self) -> Floats:
        """Public mean squares of the frame's coordinates, the constant's included."""
        return self.frame.mean_squares(self.second_moments)

    def weights_of(self, released: Floats, sizes: Sizes) -> Floats:
        """Return the weights that a noised sum makes likely: post-processing.

        A weight ``w`` of curvature ``h`` comes out as about ``s w`` with ``s = h/(h + lam)``, and
        noise of a known variance. The best linear estimate divides by ``s`` where noise allows.
        """
        if self.alpha != "auto":
            return self.centre + as_weights(released, self.n_classes)
        curved = sizes.total * self.curvature * self.squares
        kept = np.maximum(curved, _SMALLEST) / (curved + self.ridge(sizes))
        noise = self.mechanism(sizes).deviation ** 2
        factor = kept / (kept**2 + noise / _OWN_VARIANCE)
        return self.centre + factor * as_weights(released, self.n_classes)

    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        """Return the sum and what parties add to it."""
        return [Term("sum", self.mechanism(sizes), (self._messages(parties, sizes),))]

    def _messages(self, parties: PartyRows, sizes: Sizes) -> Floats:
        return np.stack([self.message(self.frame.rows(X), y, sizes) for X, y in parties.members()])


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientRounds:
    """Rounds of secure sums of gradients with Gaussian noise: one curator's descent without one.

    Parameters
    ----------
    frame : Frame
        The public coordinates, in L2.
    epsilon, delta : float
        What every record pays for all rounds together.
    rounds : int, default=20
        How many sums.
    alpha : float or "auto", default="auto"
        Ridge per record of all parties. ``"auto"`` is the variance of the noise over prior
        variance times curvature, larger for columns in which rows hardly differ.
    cap : float, default=0.5
        As for :class:`OneMessage`.
    prior : array, optional
        Public weights to start from and shrink towards.
    colluding : int or "auto", default="auto"
        As for :class:`OneMessage`.
    reserve, quorum
        As for :class:`OneMessage`.
    curvature : float, default=0.2
        Public guess of the mean curvature of the loss: with a base rate ``r``, ``r (1 - r)``.
    second_moments : array, optional
        Public mean squares of the columns as encoded; equal ones unless given. They steer the
        descent; wrong by a factor of four they cost next to nothing.
    n_classes : int, default=2
        More than two have the softmax loss, no cap and no prior; vectors are in coordinates of
        matrices whose columns sum to zero.
    """

    frame: Frame
    epsilon: float
    delta: float
    n_classes: int = 2
    rounds: int = 20
    alpha: Alpha = "auto"
    cap: float = 0.5
    prior: Floats | None = None
    colluding: Colluding = "auto"
    reserve: int = 0
    quorum: float = 1.0
    curvature: float = 0.2
    second_moments: ArrayLike | None = None

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if not 0 < self.delta < 1:
            raise InvalidParameter("delta must lie between 0 and 1.")
        check_tries(self.reserve, self.quorum)
        _check_loss(self.n_classes, self.cap, self.prior)

    @cached_property
    def centre(self) -> Floats:
        """Where the descent starts, and what it shrinks towards."""
        return _centre(self.prior, self.n_classes, self.frame.size)

    def mechanism(self, sizes: Sizes) -> SecureSum:
        """Return one round's sum; its price is for all rounds."""
        largest = max(sizes.counts.values())
        # A sum of n terms of size at most one, in floats: n roundings of n at the most.
        error = 4.0 * largest**2 * float(np.finfo(np.float64).eps)
        slope = _slope(self.n_classes, self.cap)
        error += coordinate_rounding(slope * largest, self.n_classes)
        return SecureSum(
            epsilon=self.epsilon,
            delta=self.delta,
            law="gaussian",
            releases=self.rounds + self.reserve,
            size=self.frame.size * (self.n_classes - 1),
            sensitivity=2 * slope,
            n_parties=_enough(sizes, self.colluding),
            fewest=fewest_of(len(sizes.counts), self.quorum),
            colluding=self.colluding,
            largest=slope * largest + error,
            error=error,
        )

    def message(self, X: Floats, y: Labels, weights: Floats) -> Floats:
        """Return one party's gradient at the weights that everybody knows."""
        # Weights are public and rows bounded: no score overflows that is not declared to.
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.nan_to_num(X @ weights.T, nan=0.0, posinf=_HIGHEST, neginf=-_HIGHEST)
        if self.n_classes == 2:
            return np.asarray(-(X.T @ (y * residual(y * found, self.cap))))
        errors = special.softmax(found, axis=1)
        errors[np.arange(len(y)), np.asarray(y, dtype=np.intp)] -= 1
        return coordinates(errors.T @ X)

    def guarantee(self, sizes: Sizes) -> Guarantee:
        """Return what every record pays for all rounds."""
        return self.mechanism(sizes).guarantee()

    @cached_property
    def squares(self) -> Floats:
        """Public mean squares of the frame's coordinates, the constant's included."""
        return self.frame.mean_squares(self.second_moments)

    def ridge(self, sizes: Sizes) -> Floats:
        """Return the ridge of every weight, of all records together.

        With noise of variance ``1/mu^2`` on a gradient of curvature ``h``, a weight of variance
        ``v`` is best estimated with a ridge of ``1/(mu^2 h v)``.
        """
        size = self.frame.size
        if self.alpha != "auto":
            return np.full(size, sizes.total * float(self.alpha))
        mechanism = self.mechanism(sizes)
        mu = math.sqrt(mechanism.releases) * mechanism.rate
        known = mu**2 * sizes.total * self.curvature
        own = 1 / (known * np.maximum(self.squares, _SMALLEST) * _OWN_VARIANCE)
        return np.maximum(max(_LEAST_RIDGE / mu, size / (known * _PRIOR_VARIANCE)), own)

    def descent(self, sizes: Sizes) -> Descent:
        """Return the descent at its start, for whoever adds up."""
        ridge = self.ridge(sizes)
        metric = sizes.total * self.curvature * self.squares + ridge
        return Descent(self.centre, ridge, metric, self.n_classes)

    def run(self, parties: PartyRows, sizes: Sizes, source: RandomSource) -> Floats:
        """Return the averaged weights of all rounds."""
        mechanism = self.mechanism(sizes)
        members = [(self.frame.rows(X), y) for X, y in parties.members()]
        descent = self.descent(sizes)
        for step in range(self.rounds):
            messages = np.stack([self.message(X, y, descent.weights) for X, y in members])
            descent.take(mechanism.run(messages, source=source.stream("sum", step)))
        return descent.average

    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        """Return the first round's sum: at public weights every round is like it."""
        messages = np.stack(
            [self.message(self.frame.rows(X), y, self.centre) for X, y in parties.members()]
        )
        return [Term("sum", self.mechanism(sizes), (messages,))]


def _slope(n_classes: int, cap: float) -> float:
    """Return how long one record's gradient can be, for a row in the unit ball."""
    return cap if n_classes == 2 else math.sqrt(2)


def _centre(prior: Floats | None, n_classes: int, size: int) -> Floats:
    if prior is not None:
        return prior
    return np.zeros(size) if n_classes == 2 else np.zeros((n_classes, size))


def _check_loss(n_classes: int, cap: float, prior: Floats | None) -> None:
    if n_classes > 2 and (prior is not None or cap < 1):
        raise InvalidParameter("prior and loss='capped' are for two classes.")


def _enough(sizes: Sizes, colluding: Colluding) -> int:
    """Return the number of parties, if it is one that can hide anything."""
    count, least = len(sizes.counts), 1 if colluding == "auto" else colluding
    if count <= least:
        raise InvalidParameter(
            f"method='sums' with colluding={colluding} needs at least {least + 1} parties: a sum "
            "of fewer hides nobody."
        )
    return count
