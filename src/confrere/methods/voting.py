"""What parties send to be added up, the model of it, and the noise: docs/proofs/multiparty.md.

Parties send votes of their classifiers on auxiliary rows, weights, or shares of public cells: each
a bounded vector, of which all parties' total is noised.

Ties are broken by fixed, public rules: a classifier whose scores tie votes for the first class
(for two classes, -1), and a majority that ties is +1 for two classes (002, equation 6) and the
first class for more.

Scores are computed in float64, and those that differ by less than rounding does are a tie: classes
that a party has not seen tie wherever its own is the lowest, and the order in which a machine adds
up turned such votes, and seeded records with them. What rounding is left can turn a vote on a row
that lies on its boundary, but a product of blocks computes every score from that classifier's
weights, that row and public sizes alone. So a party's votes stay a function of its own data, one
party still changes one vote per row, and no sensitivity is touched.

The vote-weighted risk (002, equation 19) is minimised from its statistic alone. With
``s = (1/N) sum_i alpha_i x_i`` (see :func:`vote_statistic`) the risk is
``mean log(1 + exp(w.x)) - s.w + (lambda/2)||w||^2``; for K classes, with the K x d matrix S whose
rows add up to the mean of x, ``mean logsumexp(W x) - <S, W> + (lambda/2)||W||_F^2``. Both are what
:mod:`confrere.solver` minimises, with the votes in the linear term.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import lambertw
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.frame import into_ball
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.accountants import theorem_of_point
from confrere.kernel.guarantee import Guarantee, check_bound
from confrere.kernel.losses import loss_of
from confrere.kernel.norms import certify_rows
from confrere.mechanisms.measurements import TOLERANCE, Part, Point
from confrere.mechanisms.noised import (
    PartyTotal,
    coordinate_rounding,
    coordinates,
    from_coordinates,
    party_guarantee,
)
from confrere.mechanisms.secure_sum import SharedNoise
from confrere.solver.certificate import smallest_tolerance
from confrere.solver.descent import minimise

Integers = NDArray[np.int64]

_EPS = float(np.finfo(np.float64).eps)

#: Models per block: their votes on a row are added up in one byte.
BALLOT = 240

#: Scores of rows in the ball, by weights of at most one, that are this near are a tie.
_TIE = 2.0**-30


def count_votes(
    # ``(models, d)`` or ``(models, K, d)``: a model votes +1 where ``w.x > 0`` else -1, or for the
    # first of the largest scores ``W x``.
    W: NDArray[np.floating],
    X: NDArray[np.floating],  # The auxiliary rows
    *,
    block: int = 2048,  # Rows per block
) -> Integers:
    """Count the votes of linear classifiers on every row: for +1, ``(n,)``, or ``(n, K)``.

    The table of all scores never exists: memory is about ``2200 * block`` bytes
    (``2000 * block * (K + 2)`` for more than two classes), and that of a copy of ``X`` if it is not
    of float64.
    """
    if W.ndim not in (2, 3) or X.ndim != 2 or W.shape[-1] != X.shape[1]:
        raise InvalidData("W and X must be matrices with the same number of features.")
    rows = np.ascontiguousarray(X, dtype=np.float64)
    n_classes = 2 if W.ndim == 2 else W.shape[1]
    votes = np.zeros((n_classes, len(rows)), dtype=np.int64)
    for first in range(0, len(W), BALLOT):
        models = _by_class(W[first : first + BALLOT])
        for start in range(0, len(rows), block):
            part = rows[start : start + block]
            scores = models.reshape(-1, models.shape[2]) @ part.T
            _poll(scores.reshape(*models.shape[:2], len(part)), votes[:, start : start + block])
    return votes[1] if W.ndim == 2 else np.ascontiguousarray(votes.T)


def _by_class(W: NDArray[np.floating]) -> Floats:
    """Return the weights, classes outside, one class if two share a vector.

    A model's votes do not depend on its size: a power of two, which changes no digit, brings its
    largest weight near one, where no score overflows or vanishes.
    """
    stacked = W[:, None] if W.ndim == 2 else W
    _, exponents = np.frexp(np.abs(stacked).max(axis=(1, 2)))
    scaled = np.ldexp(stacked, -exponents[:, None, None])
    return np.ascontiguousarray(scaled.transpose(1, 0, 2), dtype=np.float64)


def _poll(scores: Floats, votes: Integers) -> None:
    """Add one ballot's votes; scores have shape (n_classes, n_models, n_rows)."""

    def count(chosen: NDArray[np.bool_]) -> NDArray[np.uint8]:
        return np.asarray(np.add.reduce(chosen.view(np.uint8), axis=0, dtype=np.uint8))

    if len(scores) == 1:
        votes[1] += count(scores[0] > _TIE)
        return
    highest = scores.max(axis=0) - _TIE
    # Every model votes once, for the first class that reaches its highest score.
    free = np.ones(highest.shape, dtype=bool)
    for k in range(len(scores)):
        chosen = (scores[k] >= highest) & free
        free &= ~chosen
        votes[k] += count(chosen)


def accumulate_votes(
    # One array of codes 0 to ``n_classes - 1`` per party; with two classes, 1 stands for +1.
    ballots: Iterable[ArrayLike],
    *,
    n_rows: int,
    n_classes: int = 2,
) -> tuple[Integers, int]:
    """Count votes cast as class codes, as :func:`count_votes` does; return the ballots' number."""
    votes = np.zeros((n_rows, n_classes), dtype=np.int64)
    n_parties = 0
    for ballot in ballots:
        codes = np.asarray(ballot)
        if codes.shape != (n_rows,) or not np.issubdtype(codes.dtype, np.integer):
            raise InvalidData("a ballot must hold one whole-numbered code per auxiliary row.")
        if n_rows and (codes.min() < 0 or codes.max() >= n_classes):
            raise InvalidData("a ballot's codes must lie between 0 and n_classes - 1.")
        votes[np.arange(n_rows), codes] += 1
        n_parties += 1
    return (votes[:, 1].copy() if n_classes == 2 else votes), n_parties


def majority_labels(votes: Integers, n_parties: int) -> Integers:
    """Return -1 or +1 (+1 from half the votes on), or the code of the first class with most."""
    if votes.ndim == 1:
        return np.where(2 * votes >= n_parties, 1, -1)
    return np.asarray(np.argmax(votes, axis=1))


@dataclass(frozen=True, eq=False)
class Tally:
    """How many parties voted for what on every auxiliary row.

    The number of parties is public and fixed. One that was left out counts as split evenly over
    the classes, so leaving it out moves a row by less than changing its vote would.
    """

    votes: Integers  #: For the second of two classes, ``(n,)``, or for each, ``(n, K)``
    counted: int  #: Parties that voted: one vote on every row each. Not public.
    n_parties: int  #: All parties

    def __post_init__(self) -> None:
        votes = self.votes
        if not 0 <= self.counted <= self.n_parties or self.n_parties < 1:
            raise InvalidData("a tally counts some of its parties, of which there is at least one.")
        if votes.ndim not in (1, 2) or not np.issubdtype(votes.dtype, np.integer):
            raise InvalidData("votes must be whole numbers, per row or per row and class.")
        whole = votes.ndim == 1 or np.all(votes.sum(axis=1) == self.counted)
        if not whole or (votes.size and (votes.min() < 0 or votes.max() > self.counted)):
            raise InvalidData("a party votes once on every row.")

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return 2 if self.votes.ndim == 1 else int(self.votes.shape[1])

    @property
    def fractions(self) -> Floats:
        """Share of all parties behind the second class, or behind each."""
        absent = (self.n_parties - self.counted) / self.n_classes
        return np.asarray((self.votes + absent) / self.n_parties)

    @property
    def majority(self) -> Floats:
        """1 for the winner of a row and 0 for the others, in the shape of :attr:`fractions`.

        Of two classes the second wins a tie, of more the first of the tied.
        """
        winners = majority_labels(self.votes, self.counted)
        if self.votes.ndim == 1:
            return np.asarray((winners > 0).astype(np.float64))
        return np.eye(self.n_classes)[winners]


def vote_statistic(X: NDArray[np.floating], fractions: Floats) -> Floats:
    """Return ``s = (1/N) sum_i alpha_i x_i``, the only way in which the parties enter the risk."""
    if len(X) == 0 or len(X) != len(fractions):
        raise InvalidData("X and the fractions must have the same number of rows, at least one.")
    return np.asarray(fractions.T @ X.astype(np.float64, copy=False) / len(X))


#: The ridges that :func:`ridge_under_noise` chooses from.
_RIDGES = np.geomspace(1e-5, 1.0, 81)


def minimise_weighted(
    X: Floats,  # Auxiliary rows in the unit ball
    # ``s`` or ``S``, noised or not; a noised one need not belong to any votes.
    statistic: Floats,
    *,
    alpha: float,  # Ridge on the mean loss, above zero
    tolerance: float,  # Bound on the gradient of the *summed* risk; see :func:`weighted_tolerance`
) -> Floats:
    """Return the certified minimiser: ``(d,)``, or ``(K, d)`` with columns that sum to zero."""
    n_rows, two = len(X), statistic.ndim == 1
    W = minimise(
        X,
        np.full(n_rows, -1.0 if two else 0.0),
        loss_of(2 if two else len(statistic)),
        ridge=n_rows * alpha,
        linear=-n_rows * statistic if two else _softmax_term(X, statistic),
        tolerance=tolerance,
    )
    return W if two else np.asarray(W - W.mean(axis=0))


def _softmax_term(X: Floats, statistic: Floats) -> Floats:
    """Return the linear term that turns the summed loss of class 0 into the weighted risk."""
    total = X.sum(axis=0)
    # Columns that sum to zero: the first class takes the rows, all share the even split.
    term = -len(X) * centred(X, statistic)
    term -= total / len(statistic)
    term[0] += total
    return np.asarray(term - term.mean(axis=0))


def weighted_tolerance(
    n_rows: int, n_features: int, *, alpha: float, statistic_norm: float = 1.0, n_classes: int = 2
) -> float:
    """Return the smallest tolerance that any statistic of at most this norm allows."""
    # For K classes the mean of x comes on top of the centred statistic.
    longest = n_rows * (statistic_norm if n_classes == 2 else statistic_norm + 1)
    return smallest_tolerance(
        n_rows, n_features, ridge=n_rows * alpha, linear_norm=longest, n_classes=n_classes
    )


def statistic_rounding(n_rows: int) -> float:
    """Bound the error, in norm, of a statistic that was summed in floats in any order."""
    return 2 * (n_rows + 8) * 2.0**-53


def centred(X: Floats, statistic: Floats) -> Floats:
    """Return the statistic less what it would be if every vote were split evenly."""
    share = 2 if statistic.ndim == 1 else len(statistic)
    return np.asarray(statistic - X.mean(axis=0) / share)


def ridge_under_noise(
    X: Floats,  # Public auxiliary rows
    # With noise ``directions @ (axes * e)``, each coordinate of ``e`` of standard deviation
    # ``deviation``.
    statistic: Floats,
    axes: Floats,
    directions: Floats,
    deviation: float,
) -> float:
    """Return a ridge for a noised statistic, from the statistic itself and public facts.

    To second order at zero the risk has the curvature ``h_j = c lambda_j`` along the j-th
    principal direction of X (c = 1/4, for K classes 1/K), and a ridge ``a`` costs
    ``sum_j h_j (sigma_j^2 + g_j^2 a^2/h_j^2)/(h_j + a)^2``: noise that is let in and signal that is
    shrunk. The square of the noised, centred statistic, less the noise's variance, stands for
    ``g_j^2``: negative in some directions, and right on average in all.
    """
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    dimensions, curvature = (1, 1 / 4)
    if statistic.ndim == 2:
        dimensions, curvature = len(statistic) - 1, 1 / len(statistic)
    steepness = curvature * np.maximum(values, 1e-9 * values[-1])
    noise = dimensions * deviation**2 * ((vectors.T @ directions * axes) ** 2).sum(axis=1)
    seen = np.atleast_2d(centred(X, statistic) @ vectors)
    signal = (seen**2).sum(axis=0) - noise
    ridges = _RIDGES[:, None]
    cost = steepness * (noise + signal * (ridges / steepness) ** 2) / (steepness + ridges) ** 2
    return float(_RIDGES[np.argmin(cost.sum(axis=1))])


#: Results are raised by this share, more than what rounding may have taken off.
_ROUNDING = 1e-14


def largest_norm(
    alpha: float,  # Strength of the regulariser, on the mean loss
    n_classes: int = 2,  # 2 for one weight vector; more for a weight matrix with one row per class
) -> float:
    """Return R(lambda), the norm that no regularised logistic minimiser exceeds.

    The supremum over all data with ``||x|| <= 1`` of ``||w*||`` for two classes and of
    ``||W*||_F`` for a softmax over K > 2; it is attained.

    Two classes: ``r = ||w*||``. At the minimum ``lambda w = mean sigma(-t_i) y_i x_i`` with
    ``t_i = y_i w.x_i``; times ``w``, ``lambda r^2 = mean h(t_i)`` with ``h(t) = t sigma(-t)`` and
    ``t_i <= r``. h rises up to ``t* = 1 + W(1/e)``, where ``h(t*) = W(1/e) = t* - 1`` (W is
    Lambert's), and falls beyond. So ``lambda r^2 <= h(min(r, t*))``, which is

    - ``r <= sqrt(W(1/e)/lambda)`` if that is at least ``t*``, i.e. if
      ``lambda <= W(1/e)/(1 + W(1/e))^2 = 0.170370``;
    - ``lambda r <= sigma(-r)`` otherwise.

    Rows all equal to ``min(1, t*/r) e`` with label +1 attain it at ``w = r e``.

    K classes: the same with ``lambda r^2 = mean g(z_i)``, ``g(z) = z_y - sum_k p_k z_k`` and
    ``||z_i|| <= r``. Let c be a value of g and ``m_k = z_y - z_k`` for the K - 1 others; then
    ``sum psi(m_k) = c`` with ``psi(m) = (m - c) exp(-m)``, which rises, and is concave, up to its
    maximum at ``1 + c``. By Jensen the value c is reached with all margins equal to some m not
    above their mean, and equal margins have the smallest ``||z|| = m sqrt((K-1)/K)``. There
    ``g = m (K-1)/(exp(m) + K - 1)``, at most ``W((K-1)/e) = m* - 1``. So
    ``lambda r^2 <= g(min(r sqrt(K/(K-1)), m*))``.
    """
    others = n_classes - 1
    # The largest margin that a unit of norm buys.
    reach = 1.0 if n_classes == 2 else math.sqrt(n_classes / others)
    peak = float(lambertw(others / math.e).real)
    free = math.sqrt(peak / alpha)
    if reach * free >= 1 + peak:
        return free * (1 + _ROUNDING)

    def slack(r: float) -> float:
        return alpha * r * (math.exp(reach * r) + others) - reach * others

    return float(brentq(slack, 0.0, 2 * free, xtol=1e-300, rtol=1e-15)) * (1 + _ROUNDING)


def statistic_sensitivity(
    n_parties: int,  # Number of parties M, public
    *,
    n_classes: int = 2,  # 2 for the vector of +1's fractions; more for the matrix of all
    radius: float = 1.0,  # From :func:`auxiliary_radius`
) -> float:
    """Return the L2 sensitivity of ``s = (1/N) sum_i alpha_i x_i``, the rows public.

    ``||X'delta||/N <= radius/M``; for K classes the matrix ``(1/N) sum_i alpha_i x_i'`` moves by
    at most ``sqrt2 radius/M`` in Frobenius norm, and its rows' sum, the mean of x, not at all.
    """
    return _move(n_classes) * radius / n_parties * (1 + _ROUNDING)


def soft_sensitivity(
    alpha: float,  # Strength of the regulariser, on the mean loss over the auxiliary rows
    n_parties: int,  # Number of parties M, public
    *,
    n_classes: int = 2,
    radius: float = 1.0,  # From :func:`auxiliary_radius`, if the auxiliary rows are public
    # Number of auxiliary rows, if they are private too; the radius is 1 then.
    private_auxiliary: int | None = None,
) -> float:
    """Return the L2 sensitivity of the minimiser on rows with vote fractions (002, Algorithm 2).

    Between M - 1 tied votes one party decides every label of a majority (002, Algorithm 1): that
    is the case of a single party.

    By ``l'(t) + l'(-t) = -1`` it is ``radius/(M lambda)`` (K classes: ``sqrt2`` times that), and
    never more than ``2 R(lambda)``. If one auxiliary row may change together with the party, its
    term of the gradient, ``(sigma - alpha_i) x_i``, moves by at most 2 instead of 1/M (K classes:
    ``2 sqrt2`` instead of ``sqrt2/M``), so the bound grows by ``(N - 1 + 2M)/N``.
    """
    rows = private_auxiliary
    joint = 1.0 if rows is None else (rows - 1 + 2 * n_parties) / rows
    steepest = _move(n_classes) * radius * joint / (n_parties * alpha) * (1 + _ROUNDING)
    return min(steepest, 2 * largest_norm(alpha, n_classes))


def _move(n_classes: int) -> float:
    """Return the norm by which a vote that changes moves a row's weights of the classes."""
    return 1.0 if n_classes == 2 else math.sqrt(2)


def auxiliary_radius(
    X: NDArray[np.floating],  # Public auxiliary rows of norm at most 1
    # "unit" is 1. "spectral" is the smaller of ``sqrt(lambda_max(X'X/N))`` and the mean norm of
    # the rows, rounded up; rows that point in all directions have one near ``1/sqrt d``.
    kind: Literal["unit", "spectral"] = "spectral",
) -> float:
    """Return how far votes that change by at most one per row can move ``X'alpha/N``."""
    rows = X.astype(np.float64, copy=False)
    norms = np.linalg.norm(rows, axis=1)
    if not float(norms.max()) <= 1:
        raise InvalidData("X has rows longer than 1; clip them first.")
    if kind == "unit":
        return 1.0
    n_rows, n_features = rows.shape
    # What sums of so many products, and the eigenvalues of so large a matrix, may be off by.
    margin = 4 * (n_rows + n_features) * _EPS
    gram = rows.T @ rows if n_features <= n_rows else rows @ rows.T
    largest = float(np.linalg.eigvalsh(gram)[-1] + margin * np.trace(gram))
    return float(min(1.0, math.sqrt(largest / n_rows), norms.mean() * (1 + margin)))


def _check_tally(mechanism: PartyTotal, tally: Tally) -> None:
    if tally.n_parties != mechanism.n_parties or tally.n_classes != mechanism.n_classes:
        raise InvalidData("the tally is of other parties or classes than were declared.")


def _check_sizes(mechanism: PartyTotal, *sizes: int) -> None:
    if min(mechanism.n_parties, *sizes) < 1 or mechanism.n_classes < 2:
        raise InvalidData("needed are at least one party, row, column and cell, and two classes.")


def _check_total(total: NDArray[np.number], shape: tuple[int, ...], *, clipped: bool) -> None:
    if total.shape != shape:
        raise InvalidData("the sum of the uploads does not have the shape of one.")
    if not clipped:
        raise InvalidData("the uploads were not clipped before they were added up.")


@dataclass(frozen=True, kw_only=True)
class PartyAverage(PartyTotal):
    """Clip the weights that parties upload, divide their sum by all parties' number, add noise.

    A party that is left out counts as zero; more than two classes have a K x d matrix whose columns
    sum to zero.
    """

    theorem: ClassVar[str] = "docs/proofs/party_average.md"
    auxiliary: ClassVar[str | None] = None

    n_features: int  #: Number of columns of an upload
    alpha: float  #: Ridge of the parties' own problems, on the mean loss
    normalise: bool = False  #: Average directions: every upload is brought to norm one

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_sizes(self, self.n_features)
        check_bound(self.alpha, "alpha")

    @property
    def norm(self) -> float:
        """The norm that no upload exceeds once it is clipped."""
        return 1.0 if self.normalise else largest_norm(self.alpha, self.n_classes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one upload."""
        return (self.n_features,) if self.n_classes == 2 else (self.n_classes, self.n_features)

    @property
    @override
    def sensitivity(self) -> float:
        return 2 * self.norm / self.n_parties + self.rounding

    @property
    @override
    def noise(self) -> Point | SharedNoise:
        size = self.n_features * (self.n_classes - 1)
        return self.noise_on(size, self.norm, 2 * self.norm / self.n_parties)

    @property
    def rounding(self) -> float:
        """What floats may add to the move."""
        # A float sum of M vectors, in any order, is off by at most M units of each.
        summing = 2 * (self.n_parties + 8) * _EPS * self.norm
        return summing + 2 * coordinate_rounding(self.norm, self.n_classes)

    def clipped(self, uploads: Floats) -> Floats:
        """Return uploads, one per party, as they are added up: none is longer than :attr:`norm`."""
        if uploads.shape[1:] != self.shape or not np.all(np.isfinite(uploads)):
            raise InvalidData("an upload must be finite, with one number per weight.")
        if uploads.ndim == 3:
            with np.errstate(over="ignore", invalid="ignore"):
                uploads = uploads - uploads.mean(axis=1, keepdims=True)
        flat = into_ball(uploads.reshape(len(uploads), -1), self.norm, unit=self.normalise)
        return np.asarray(self.norm * flat).reshape(uploads.shape)

    def part(self, upload: Floats) -> Floats:
        """Return what one party adds to the sum: its clipped upload over all parties' number."""
        return coordinates(self.clipped(upload[None])[0] / self.n_parties)

    def of_parts(self, released: Floats) -> Floats:
        """Return the mean from the noised sum of all parts; who is not there counts as zero."""
        return np.asarray(self.turned(released[None])[0])

    @override
    def value(self, total: Floats) -> Floats:
        """Return the mean, from the sum of the clipped uploads."""
        longest = self.n_parties * self.norm * (1 + 1e-6)
        _check_total(total, self.shape, clipped=bool(np.linalg.norm(total) <= longest))
        return coordinates(total / self.n_parties)


#: What a party has to give away among cells and classes, in whole numbers: then sums are exact.
WHOLE = 2**16


@dataclass(frozen=True, kw_only=True)
class PartyCells(PartyTotal):
    """Add up how every party's rows are shared over cells and classes, then add integer noise.

    A party that is left out counts as zero.
    """

    theorem: ClassVar[str] = "docs/proofs/cells.md"

    n_cells: int  #: Number of cells

    def __post_init__(self) -> None:
        theorem_of_point("L1", "Gaussian" if self.delta else "pure")
        super().__post_init__()
        _check_sizes(self, self.n_cells)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of what a party sends."""
        return (self.n_cells, self.n_classes)

    @property
    @override
    def sensitivity(self) -> int:
        return 2 * WHOLE  # all that a party has, twice, as a sum of absolute changes

    @property
    @override
    def noise(self) -> Point | SharedNoise:
        return self.noise_on(self.n_cells * self.n_classes, math.inf, float(WHOLE), "integer")

    @property
    @override
    def deviation(self) -> float:
        return super().deviation / (WHOLE * self.n_parties)  # on one share

    def clipped(self, uploads: NDArray[np.number]) -> Integers:
        """Return what parties sent as it is added up; what nobody can have, counts as nothing."""
        if uploads.shape[1:] != self.shape or not np.issubdtype(uploads.dtype, np.integer):
            raise InvalidData("an upload must hold one whole number per cell and class.")
        # In floats, a sum of huge numbers is not a small one again.
        fits = (uploads >= 0).all(axis=(1, 2)) & (
            uploads.sum(axis=(1, 2), dtype=np.float64) <= WHOLE
        )
        return np.where(fits[:, None, None], uploads, 0).astype(np.int64)

    @override
    def turned(self, released: Floats) -> Floats:
        return np.stack([self.of_parts(each) for each in released])

    def part(self, upload: Integers) -> Floats:
        """Return what one party adds to the sum."""
        return np.asarray(self.clipped(upload[None])[0].ravel().astype(np.float64))

    def of_parts(self, released: Floats) -> Floats:
        """Return the shares of all rows from the noised sum; who is not there counts as zero."""
        return np.asarray(released.reshape(self.shape) / (WHOLE * self.n_parties))

    @override
    def value(self, total: NDArray[np.number]) -> Integers:
        """Return the sum of the uploads."""
        clipped = not np.any(total < 0) and total.sum() <= WHOLE * self.n_parties
        _check_total(total, self.shape, clipped=bool(clipped))
        return np.asarray(total, dtype=np.int64).ravel()


def shares_of_parties(
    # Cell and class of every row, party by party, and where each party's begin; none is empty.
    cells: NDArray[np.intp],
    codes: NDArray[np.intp],
    offsets: Integers,
    shape: tuple[int, int],  # Numbers of cells and classes
) -> Integers:
    """Return every party's rows shared over cells and classes, ``(m, k, K)``.

    A party's numbers add up to :data:`WHOLE`: they are differences of whole parts of running
    counts, exactly.
    """
    sizes = np.diff(offsets)
    entries = shape[0] * shape[1]
    owner = np.repeat(np.arange(len(sizes)), sizes)
    places = (owner * shape[0] + cells) * shape[1] + codes
    counts = np.bincount(places, minlength=len(sizes) * entries).reshape(len(sizes), entries)
    running = np.cumsum(counts, axis=1) * WHOLE // sizes[:, None]
    return np.diff(running, axis=1, prepend=0).reshape(len(sizes), *shape)


Radius = Literal["ellipsoid", "spectral", "unit"]

#: Squared axes of the ellipsoid are raised by this share of the longest.
_FLATTEST = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class PartyStatistic(PartyTotal):
    """Release ``s = (1/N) sum_i alpha_i x_i`` with noise; whatever follows is post-processing."""

    theorem: ClassVar[str] = "docs/proofs/statistic.md"

    rows: Floats  #: Public auxiliary rows in the unit ball
    #: Shape of the noise. A party moves s by ``X'delta/N`` with ``|delta_i| <= 1/M``: within the
    #: ellipsoid of ``X'X/N``, within a ball around it, or within the ball that any rows allow.
    radius: Radius = "ellipsoid"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rows.ndim != 2:
            raise InvalidData("auxiliary must be a table of rows.")
        _check_sizes(self, *self.rows.shape)
        certify_rows(self.rows)
        if not np.any(self.rows):
            raise InvalidData("auxiliary has rows of zeros only: votes on them say nothing.")

    @cached_property
    def shape(self) -> tuple[Floats, Floats]:
        """Axes ``(d,)`` and orthonormal directions ``(d, d)`` of the noise."""
        n_features = self.rows.shape[1]
        if self.radius != "ellipsoid":
            ball = auxiliary_radius(self.rows, self.radius)
            return np.full(n_features, ball), np.eye(n_features)
        values, directions = np.linalg.eigh(self._gram)
        # Longer axes contain the ellipsoid: a floor under the flat ones costs a hair, and keeps
        # rounding small in its norm.
        floor = max(_FLATTEST, 4 * self._off) * values[-1]
        return np.sqrt(np.maximum(values, 0.0) + floor), directions

    @cached_property
    def _roots(self) -> tuple[Floats, Floats]:
        """The ellipsoid's symmetric root, and its inverse.

        They are unique, where directions of one length are not: parties on different machines
        compute the same coordinates.
        """
        axes, directions = self.shape
        return (directions * axes) @ directions.T, (directions / axes) @ directions.T

    @cached_property
    def _gram(self) -> Floats:
        return np.asarray(self.rows.T @ self.rows / len(self.rows))

    @property
    def _off(self) -> float:
        """Bound on the error of the computed ellipsoid's squared axes, over the longest."""
        spread = float(np.trace(self._gram) / np.linalg.norm(self._gram, 2))
        return 8 * sum(self.rows.shape) * _EPS * spread

    @property
    @override
    def sensitivity(self) -> float:
        """Largest move, between neighbours, of the computed statistic over the axes."""
        axes, _ = self.shape
        move = statistic_sensitivity(self.n_parties, n_classes=self.n_classes)
        slack = 0.0 if self.radius != "ellipsoid" else self._off / max(_FLATTEST, 4 * self._off)
        # The computed inverse root is off by d^2 roundings of its largest entry at the most.
        slack += 2 * len(axes) ** 2 * _EPS * float(axes.max() / axes.min())
        # Summing, and then a product with the inverse root.
        off = statistic_rounding(len(self.rows)) + statistic_rounding(len(axes))
        off += coordinate_rounding(1.0, self.n_classes)
        return move * (1 + slack) + 2 * off / float(axes.min())

    @property
    @override
    def noise(self) -> Point | SharedNoise:
        """The noise in units of the axes."""
        axes, _ = self.shape
        reach, size = 2 / float(axes.min()), len(axes) * (self.n_classes - 1)
        return self.noise_on(size, reach, reach / self.n_parties)

    @override
    def turned(self, released: Floats) -> Floats:
        # Noise and output step are in units of the axes; turning them back touches no data.
        statistics = from_coordinates(released, self.n_classes) @ self._roots[0]
        # Of more classes the columns' sums are the mean of x, public.
        return np.asarray(statistics if self.n_classes == 2 else statistics + self._even)

    @property
    def _even(self) -> Floats:
        """What evenly split votes make."""
        return np.asarray(self.rows.mean(axis=0) / self.n_classes)

    @override
    def unturned(self, released: Floats) -> Floats:
        return np.asarray(released @ self._roots[1])

    @override
    def value(self, tally: Tally) -> Floats:
        """Return the statistic in units of the axes, of more classes where columns sum to zero."""
        _check_tally(self, tally)
        return coordinates(vote_statistic(self.rows, tally.fractions) @ self._roots[1])

    def part(self, ballot: NDArray[np.bool_] | Integers) -> Floats:
        """Return what one party adds to the sum: its votes, less an even split.

        Of more than two classes a ballot holds codes.
        """
        two = self.n_classes == 2
        votes = ballot.astype(np.float64) if two else np.eye(self.n_classes)[ballot]
        statistic = vote_statistic(self.rows, votes - 1 / self.n_classes)
        return coordinates(statistic @ self._roots[1]) / self.n_parties

    def of_parts(self, released: Floats) -> Floats:
        """Return the statistic from the noised sum of all parts; who is not there is split."""
        (statistic,) = from_coordinates(released[None], self.n_classes)
        return np.asarray(statistic @ self._roots[0] + self._even)

    def model(self, noised: Floats, alpha: float | None) -> tuple[Floats, float]:
        """Return the weights of a noised statistic, and their ridge, which it may choose."""
        rows, (axes, directions) = self.rows, self.shape
        if alpha is None:
            alpha = ridge_under_noise(rows, noised, axes, directions, self.deviation)
        longest = float(np.linalg.norm(noised))
        smallest = weighted_tolerance(
            *rows.shape, alpha=alpha, statistic_norm=longest, n_classes=self.n_classes
        )
        tolerance = max(TOLERANCE * len(rows), 2 * smallest)
        return minimise_weighted(rows, noised, alpha=alpha, tolerance=tolerance), alpha


@dataclass(frozen=True, kw_only=True)
class PartyVotes(PartyTotal):
    """Minimise the risk of voted auxiliary rows, then add noise to the minimiser."""

    theorem: ClassVar[str] = "docs/proofs/multiparty.md"

    n_auxiliary: int  #: Public number of auxiliary rows
    n_features: int
    alpha: float  #: Ridge on the mean loss
    #: Fractions of the votes, or their majority: one vote can turn a majority on every row.
    labels: Literal["soft", "vote"] = "soft"
    radius: float = 1.0  #: From :func:`auxiliary_radius`, if the rows are public
    auxiliary_private: bool = False  #: Whether one row may change together with the party

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bound(self.alpha, "alpha")
        _check_sizes(self, self.n_auxiliary, self.n_features)
        if self.labels not in ("soft", "vote"):
            raise InvalidParameter("labels must be 'soft' or 'vote'.")
        if not 0 <= self.radius <= 1 or (self.auxiliary_private and self.radius != 1):
            raise InvalidParameter(
                "radius must lie between 0 and 1, and be 1 when the auxiliary rows are private."
            )

    @cached_property
    def tolerance(self) -> float:
        """Certified bound on the gradient of the summed risk before noise."""
        # No votes have a longer statistic, rounding included: certifying it always succeeds.
        smallest = weighted_tolerance(
            self.n_auxiliary,
            self.n_features,
            alpha=self.alpha,
            statistic_norm=1 + statistic_rounding(self.n_auxiliary),
            n_classes=self.n_classes,
        )
        return max(TOLERANCE, smallest)

    @property
    def exact(self) -> float:
        """Largest L2 move of the exact minimiser between neighbours."""
        # Between ties one party decides every label, as if it were alone.
        return soft_sensitivity(
            self.alpha,
            1 if self.labels == "vote" else self.n_parties,
            n_classes=self.n_classes,
            radius=self.radius,
            private_auxiliary=self.n_auxiliary if self.auxiliary_private else None,
        )

    @property
    def _off(self) -> float:
        """What an answer is off by, times the ridge: the certified gradient, and rounding."""
        return self.tolerance / self.n_auxiliary + statistic_rounding(self.n_auxiliary)

    @property
    @override
    def sensitivity(self) -> float:
        rounding = coordinate_rounding(self._reach, self.n_classes)
        return self.exact + 2 * self._off / self.alpha + 2 * rounding

    @property
    def _reach(self) -> float:
        """No minimiser is longer, solver and rounding included."""
        return largest_norm(self.alpha, self.n_classes) + self._off / self.alpha

    @property
    @override
    def noise(self) -> Point:
        parts = (Part(self.n_features * (self.n_classes - 1), self._reach),)
        return Point(promise=self.guarantee(), sensitivity=self.sensitivity, parts=parts)

    @override
    def guarantee(self, units: int = 1) -> Guarantee:
        known = "number of auxiliary rows" if self.auxiliary_private else "auxiliary rows"
        one = party_guarantee(
            self.epsilon,
            self.theorem,
            auxiliary=known,
            jointly=self.auxiliary_private,
            delta=self.delta,
        )
        return one.guarantee(units)

    @override
    def value(self, tally: Tally, rows: Floats) -> Floats:
        """Return the minimiser, in the coordinates of the noise."""
        _check_tally(self, tally)
        if rows.shape != (self.n_auxiliary, self.n_features):
            raise InvalidData("auxiliary does not have the declared number of rows and columns.")
        certify_rows(rows)
        labels = tally.fractions if self.labels == "soft" else tally.majority
        return coordinates(
            minimise_weighted(
                rows, vote_statistic(rows, labels), alpha=self.alpha, tolerance=self.tolerance
            )
        )
