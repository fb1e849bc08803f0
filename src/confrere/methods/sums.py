"""Several organisations, one model, through sums that nobody sees into.

Proof: docs/proofs/secure_sums.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.losses import Labels
from confrere.kernel.streams import RandomSource
from confrere.maths.solver import UNSOLVED, minimise, minimise_softmax, smallest_tolerance
from confrere.maths.solver.descent import residual
from confrere.mechanisms.measurements import largest_count, row_patterns, some_rows
from confrere.mechanisms.output_step import (
    coordinate_rounding,
    coordinates,
    roundings,
    row_products,
)
from confrere.mechanisms.secure_sum import Colluding, SecureSum, check_tries, fewest_of
from confrere.methods.noised_descent import Descent, as_weights
from confrere.methods.party_rows import PartyRows, Sizes
from confrere.methods.plan import Term
from confrere.methods.together import Collaboration, Combined

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

#: Bounded rows and labels of every party.
Members = list[tuple[Any, Labels]]

#: Columns that hardly vary are told apart down to this mean square.
_SMALLEST = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Sums(Collaboration):
    """What parties add up without anybody seeing into it.

    Parameters
    ----------
    frame, epsilon, delta, n_classes, cap, prior, belief, rounds
        As for :class:`~confrere.methods.together.Collaboration`.
    alpha : float or "auto", default="auto"
        Ridge per record of all parties.
    colluding : int or "auto", default="auto"
        How many parties may pool what they know; by default a minority of those of a sum.
    reserve : int, default=0
        How often a sum that came to nothing may be tried again at the same price; the noise is
        that of one sum more each time.
    quorum : float, default=1.0
        Share of the parties that a sum needs; the noise is made by those who would be there.
    curvature : float, default=0.2
        Public guess of the mean curvature of the loss: with a base rate ``r``, ``r (1 - r)``.
    second_moments : array, optional
        Public mean squares of the columns as encoded; equal ones unless given. They steer a
        descent, and say how far a ridge has shrunk which weight; wrong by a factor of four they
        cost next to nothing.
    """

    colluding: Colluding = "auto"
    reserve: int = 0
    quorum: float = 1.0
    curvature: float = 0.2
    second_moments: ArrayLike | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tries(self.reserve, self.quorum)

    @property
    def told(self) -> Floats | None:
        """The point that a request has to name: none is zero."""
        return super().centre

    @property
    @override
    def centre(self) -> Floats:
        return np.zeros(self.shape) if self.told is None else self.told

    @property
    def slope(self) -> float:
        """How long one record's gradient can be, for a row in the unit ball."""
        return self.cap if self.n_classes == 2 else math.sqrt(2)

    @cached_property
    def squares(self) -> Floats:
        """Public mean squares of the frame's coordinates, the constant's included."""
        return self.space.mean_squares(self.second_moments)

    @abstractmethod
    def mechanism(self, sizes: Sizes) -> SecureSum:
        """Return the sum: its law, its lattice, its price."""

    def _sum(self, sizes: Sizes, move: float, **facts: Any) -> SecureSum:
        """Return a sum that one record's coming or going moves so far, and a replaced one twice."""
        changed = self.allowed(sizes).changed
        return SecureSum(
            epsilon=self.epsilon,
            delta=self.delta,
            size=self.space.size * (self.n_classes - 1),
            sensitivity=changed * move,
            n_parties=_enough(sizes, self.colluding),
            fewest=fewest_of(len(sizes.counts), self.quorum),
            colluding=self.colluding,
            releases=self.rounds + self.reserve,
            neighbours=sizes.neighbours,
            **facts,
        )

    def _most(self, sizes: Sizes) -> int:
        """Return the most records that a party adds up."""
        return largest_count(sizes.count(max(sizes.counts.values())))

    def members(self, parties: PartyRows) -> Members:
        """Return every party's bounded rows and labels."""
        return [(self.space.rows(X), y) for X, y in parties.members()]

    @staticmethod
    def used(members: Members, sizes: Sizes, source: RandomSource) -> Members:
        """Return the rows that parties use: all of them, where their numbers are public."""
        found = []
        for X, y in members:
            ((which, _),) = row_patterns(sizes.count(len(y)), len(y), source, 1)
            found.append(some_rows(X, y, which))
        return found

    @override
    def guarantee(self, sizes: Sizes) -> Guarantee:
        return self.at(sizes).mechanism(sizes).guarantee()


@dataclass(frozen=True, kw_only=True, eq=False)
class OneMessage(Sums):
    """Every party adds its exact local minimiser, weighted by its records, to one secure sum.

    With a ridge of ``lam n_i/n`` at a party of ``n_i`` among ``n`` records, one record moves
    ``n_i w_i/n`` by at most ``2 cap/lam`` whatever the sizes: the noise does not grow with the
    number of parties. Pure, one round. For many parties; three large ones do better with an
    average of releases. The move is a Euclidean one in the coordinates of the ridge, whatever
    shape rows have there.

    The ridge that keeps the noise small shrinks some weights more than others. How much is public
    (:attr:`squares`), and so is the noise: :meth:`weights_of` undoes the one where it exceeds the
    other, which is post-processing.
    """

    def ridge(self, sizes: Sizes) -> float:
        """Return ``lam``, the ridge of all records together."""
        if self.alpha != "auto":
            return sizes.total * float(self.alpha)
        return _ONE_MESSAGE * self.space.size / self.epsilon

    def tolerance(self, sizes: Sizes) -> float:
        """Return a bound on the gradient that every party can certify, from public sizes."""
        ridge, told = self.ridge(sizes), sizes.counts.values()
        smallest = max(
            smallest_tolerance(
                largest_count(sizes.count(n)),
                self.space.size,
                ridge=ridge * n / sizes.total,
                linear_norm=0.0,
                centre_norm=float(np.linalg.norm(self.centre)),
                n_classes=self.n_classes if self.n_classes > 2 else None,
            )
            for n in {max(told), min(told)}
        )
        return max(_TOLERANCE, 2 * smallest)

    @override
    def mechanism(self, sizes: Sizes) -> SecureSum:
        ridge = self.ridge(sizes)
        longest = self.slope * self._most(sizes) / ridge
        error = self.tolerance(sizes) / ridge + coordinate_rounding(longest, self.n_classes)
        return self._sum(sizes, self.slope / ridge, largest=longest + error, error=error)

    def message(self, X: Any, y: Labels, sizes: Sizes, n_samples: int | None = None) -> Floats:
        """Return what one party with these bounded rows adds to the sum, before its noise.

        ``n_samples`` is the party's number of records where that is not the number of rows.
        """
        share = (len(y) if n_samples is None else n_samples) / sizes.total
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

    @override
    def run(self, parties: PartyRows, sizes: Sizes, source: RandomSource) -> Combined:
        made = self.at(sizes)
        members = made.members(parties)
        released = made.mechanism(sizes).run(
            lambda stream: made._messages(made.used(members, sizes, stream), sizes),
            source=source.stream("sum", 0),
        )
        return Combined(made.space, made.weights_of(released, sizes))

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

    @override
    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        made = self.at(sizes)
        messages = made._messages(made.members(parties), sizes)
        return [Term("sum", made.mechanism(sizes), (messages,))]

    def _messages(self, members: Members, sizes: Sizes) -> Floats:
        counted = zip(members, sizes.counts.values(), strict=True)
        return np.stack([self.message(X, y, sizes, n) for (X, y), n in counted])


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientRounds(Sums):
    """Rounds of secure sums of gradients with Gaussian noise: one curator's descent without one.

    Vectors of more than two classes are in coordinates of matrices whose columns sum to zero. The
    automatic ridge is the variance of the noise over prior variance times curvature, larger for
    columns in which rows hardly differ.
    """

    rounds: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.delta < 1:
            raise InvalidParameter("delta must lie between 0 and 1.")

    @override
    def mechanism(self, sizes: Sizes) -> SecureSum:
        largest = self._most(sizes)
        # A sum of n terms of size at most one, in floats, is off by that many roundings of n.
        error = 4.0 * largest * roundings(largest) * float(np.finfo(np.float64).eps)
        error += coordinate_rounding(self.slope * largest, self.n_classes)
        facts = {"largest": self.slope * largest + error, "error": error}
        return self._sum(sizes, self.slope, law="gaussian", **facts)

    def message(self, X: Floats, y: Labels, weights: Floats) -> Floats:
        """Return one party's gradient at the weights that everybody knows."""
        # Weights are public and rows bounded: no score overflows that is not declared to.
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.nan_to_num(X @ weights.T, nan=0.0, posinf=_HIGHEST, neginf=-_HIGHEST)
        if self.n_classes == 2:
            return -row_products(X, y * residual(y * found, self.cap))
        errors = special.softmax(found, axis=1)
        errors[np.arange(len(y)), np.asarray(y, dtype=np.intp)] -= 1
        return coordinates(row_products(errors, X))

    def ridge(self, sizes: Sizes) -> Floats:
        """Return the ridge of every weight, of all records together.

        With noise of variance ``1/mu^2`` on a gradient of curvature ``h``, a weight of variance
        ``v`` is best estimated with a ridge of ``1/(mu^2 h v)``.
        """
        size = self.space.size
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

    @override
    def run(self, parties: PartyRows, sizes: Sizes, source: RandomSource) -> Combined:
        made = self.at(sizes)
        mechanism, descent = made.mechanism(sizes), made.descent(sizes)
        members = made.members(parties)

        def messages(stream: RandomSource) -> Floats:
            used = made.used(members, sizes, stream)
            return np.stack([made.message(X, y, descent.weights) for X, y in used])

        for step in range(self.rounds):
            descent.take(mechanism.run(messages, source=source.stream("sum", step)))
        return Combined(made.space, descent.average)

    @override
    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        # At public weights every round is like the first.
        return self.terms_at(parties, sizes, self.at(sizes).centre)

    def terms_at(self, parties: PartyRows, sizes: Sizes, weights: Floats) -> list[Term]:
        """Return one round's sum, at weights that everybody knows."""
        made = self.at(sizes)
        messages = [made.message(X, y, weights) for X, y in made.members(parties)]
        return [Term("sum", made.mechanism(sizes), (np.stack(messages),))]


def _enough(sizes: Sizes, colluding: Colluding) -> int:
    """Return the number of parties, if it is one that can hide anything."""
    count, least = len(sizes.counts), 1 if colluding == "auto" else colluding
    if count <= least:
        raise InvalidParameter(
            f"method='sums' with colluding={colluding} needs at least {least + 1} parties: a sum "
            "of fewer hides nobody."
        )
    return count
