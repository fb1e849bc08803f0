"""A model of what many parties send: votes on auxiliary rows, clipped weights, shares of cells.

Each is a bounded vector, of which all parties' total is noised: docs/proofs/multiparty.md. Blocks
in which it is added up are made of public numbers only, and a faulty party keeps its place: no
party's data decide in which company another's floats are computed.

Ties are broken by fixed, public rules: a classifier whose scores tie, or differ by less than
rounding does, votes for the first class (for two classes, -1); a majority that ties is +1 for two
classes (002, equation 6) and the first class for more.

The vote-weighted risk (002, equation 19) is minimised from its statistic: docs/proofs/statistic.md.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special
from scipy.spatial.distance import cdist
from sklearn.base import clone

from confrere.arrays import (
    ClassRows,
    Floats,
    Integers,
    coordinate_rounding,
    coordinates,
    sum_zero_basis,
)
from confrere.data.cells import encode_labels
from confrere.data.frame import Frame, into_ball
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.accountants import check_delta, loss_of, theorem
from confrere.kernel.guarantee import (
    FACTS,
    FLOATS,
    RANDOM,
    Guarantee,
    Neighbours,
    Unit,
    check_bound,
    check_epsilon,
)
from confrere.kernel.measurements import (
    TOLERANCE,
    Part,
    Point,
    SecureSum,
    certified,
    smallest_tolerance,
    sum_assumptions,
)
from confrere.kernel.noise import RandomSource, certify_rows
from confrere.methods.allowance import SOLVER, Alpha, problem
from confrere.methods.asking import MANY, Ask, Asked, Protocol, Told, Tries, drive, party_codes
from confrere.methods.plan import LabelledTable, Names, Plan, Target, Term, linear_model
from confrere.model import Facts, Linear
from confrere.solver.descent import minimise_each
from confrere.views import progress_bar

Places = NDArray[np.intp]
Flags = NDArray[np.bool_]
Words = NDArray[np.generic]  #: Labels, or names of parties
Sent = NDArray[Any]  #: Weights, shares of cells, or votes
Trust = Literal["coordinator", "sum"]
Method = Literal["statistic", "cells", "soft", "vote", "weights"]

_EPS = float(np.finfo(np.float64).eps)

# --- votes on auxiliary rows ----------------------------------------------------------------------

#: Models per block: their votes on a row are added up in one byte.
BALLOT = 240

#: For what is computed in blocks, beside the rows themselves.
_BYTES = 2**27

#: Scores of rows in the ball, by weights of at most one, that are this near are a tie.
_TIE = 2.0**-30


def count_votes(
    W: NDArray[np.floating], X: NDArray[np.floating], *, block: int | None = None
) -> Integers:
    """Count the votes of linear classifiers for every row and class; no table of all scores."""
    if W.ndim not in (2, 3) or X.ndim != 2 or W.shape[-1] != X.shape[1]:
        raise InvalidData("W and X must be matrices with the same number of features.")
    rows = np.ascontiguousarray(X, dtype=np.float64)
    stacked = W[:, None] if W.ndim == 2 else W
    k = stacked.shape[1]
    block = block or max(64, min(8192, _BYTES // (2200 if k == 1 else 2000 * (k + 2))))
    votes = np.zeros((max(2, k), len(rows)), dtype=np.int64)
    for first in range(0, len(W), BALLOT):
        some = stacked[first : first + BALLOT]
        # A model's votes do not depend on its size: a power of two, which changes no digit, brings
        # its largest weight near one, where no score overflows or vanishes.
        _, exponents = np.frexp(np.abs(some).max(axis=(1, 2)))
        scaled = np.ldexp(some, -exponents[:, None, None])
        models = np.ascontiguousarray(scaled.transpose(1, 0, 2), dtype=np.float64)
        for start in range(0, len(rows), block):
            part = rows[start : start + block]
            scores = (models.reshape(-1, models.shape[2]) @ part.T).reshape(*models.shape[:2], -1)
            for counted, chosen in zip(
                votes[:, start : start + block], _votes(scores), strict=True
            ):
                counted += chosen.view(np.uint8).sum(axis=0, dtype=np.uint8)
    return np.ascontiguousarray(votes.T)


def _votes(scores: Floats) -> Iterator[Flags]:
    """Yield who votes for each class: once, for the first that reaches the highest score.

    Scores have shape (n_classes, n_models, n_rows); of two classes there are the second's.
    """
    if len(scores) == 1:
        yield from (scores[0] <= _TIE, scores[0] > _TIE)
        return
    highest = scores.max(axis=0) - _TIE
    free = np.ones(highest.shape, dtype=bool)
    for score in scores:
        chosen = (score >= highest) & free
        free &= ~chosen
        yield chosen


def vote_fractions(votes: Integers, n_parties: int) -> Floats:
    """Return shares of votes, ``(n, K)`` counts of those who voted: others are evenly split.

    Of two classes there is the second's.
    """
    k = votes.shape[1]
    shares = (votes + (n_parties - votes.sum(axis=1, keepdims=True)) / k) / n_parties
    return np.asarray(shares[:, 1] if k == 2 else shares)


def vote_majority(votes: Integers) -> Floats:
    """Return 1 for the winner of a row and 0 for the others, as :func:`vote_fractions`."""
    if votes.shape[1] == 2:
        return np.asarray((votes[:, 1] >= votes[:, 0]).astype(np.float64))
    return np.asarray(np.eye(votes.shape[1])[np.argmax(votes, axis=1)])


# --- the model of votes ---------------------------------------------------------------------------


def vote_statistic(X: NDArray[np.floating], fractions: Floats) -> Floats:
    """Return ``s = (1/N) sum_i alpha_i x_i``, the only way in which the parties enter the risk."""
    if len(X) == 0 or len(X) != len(fractions):
        raise InvalidData("X and the fractions must have the same number of rows, at least one.")
    return np.asarray(fractions.T @ X.astype(np.float64, copy=False) / len(X))


def minimise_weighted(X: Floats, statistic: Floats, *, alpha: float, tolerance: float) -> Floats:
    """Return a minimiser: ``(d,)``, or ``(K, d)`` with columns that sum to zero; always some."""
    n_rows, two = len(X), statistic.ndim == 1
    linear = -n_rows * (statistic if two else _centred(X, statistic))
    if not two:
        # What turns the summed loss of class 0 into the weighted risk, with columns that sum to
        # zero: the first class takes the rows, all share the even split.
        total = X.sum(axis=0)
        linear -= total / len(statistic)
        linear[0] += total
        linear = linear - linear.mean(axis=0)
    labels, loss = np.full(n_rows, -1.0 if two else 0.0), loss_of(2 if two else len(statistic))
    asked = problem(X, labels, loss, n_rows * alpha, linear=linear)
    W = certified(SOLVER, asked, tolerance).reshape(statistic.shape)
    return W if two else np.asarray(W - W.mean(axis=0))


def weighted_tolerance(
    n_rows: int, n_features: int, *, alpha: float, statistic_norm: float = 1.0, n_classes: int = 2
) -> float:
    # For K classes the mean of x comes on top of the centred statistic.
    longest = n_rows * (statistic_norm if n_classes == 2 else statistic_norm + 1)
    return smallest_tolerance(
        n_rows, n_features, ridge=n_rows * alpha, linear_norm=longest, loss=loss_of(n_classes)
    )


def _statistic_rounding(n_rows: int) -> float:
    return 2 * (n_rows + 8) * 2.0**-53


def _centred(X: Floats, statistic: Floats) -> Floats:
    """Return the statistic less what it would be if every vote were split evenly."""
    share = 2 if statistic.ndim == 1 else len(statistic)
    return np.asarray(statistic - X.mean(axis=0) / share)


#: The ridges that :func:`ridge_under_noise` chooses from.
_RIDGES = np.geomspace(1e-5, 1.0, 81)


def ridge_under_noise(
    X: Floats, statistic: Floats, axes: Floats, directions: Floats, deviation: float
) -> float:
    """Return a ridge from the statistic itself and public facts: docs/proofs/statistic.md."""
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    dimensions, curvature = (1, 1 / 4)
    if statistic.ndim == 2:
        dimensions, curvature = len(statistic) - 1, 1 / len(statistic)
    steepness = curvature * np.maximum(values, 1e-9 * values[-1])
    noise = dimensions * deviation**2 * ((vectors.T @ directions * axes) ** 2).sum(axis=1)
    seen = np.atleast_2d(_centred(X, statistic) @ vectors)
    signal = (seen**2).sum(axis=0) - noise
    ridges = _RIDGES[:, None]
    cost = steepness * (noise + signal * (ridges / steepness) ** 2) / (steepness + ridges) ** 2
    return float(_RIDGES[np.argmin(cost.sum(axis=1))])


# --- how far a party moves what is computed -------------------------------------------------------

#: Results are raised by this share, more than what rounding may have taken off.
_ROUNDING = 1e-14


def largest_norm(alpha: float, n_classes: int = 2) -> float:
    """Return R(lambda), the norm of the longest minimiser: docs/proofs/party_average.md."""
    others = n_classes - 1
    # The largest margin that a unit of norm buys.
    reach = 1.0 if n_classes == 2 else math.sqrt(n_classes / others)
    peak = float(special.lambertw(others / math.e).real)
    free = math.sqrt(peak / alpha)
    if reach * free >= 1 + peak:
        return free * (1 + _ROUNDING)

    def slack(r: float) -> float:
        return alpha * r * (math.exp(reach * r) + others) - reach * others

    return float(optimize.brentq(slack, 0.0, 2 * free, xtol=1e-300, rtol=1e-15)) * (1 + _ROUNDING)


def soft_sensitivity(
    alpha: float,  # Strength of the regulariser, on the mean loss over the auxiliary rows
    n_parties: int,  # Number of parties M, public
    *,
    n_classes: int = 2,
    radius: float = 1.0,  # From :func:`auxiliary_radius`, if the auxiliary rows are public
    # Number of auxiliary rows, if they are private too; the radius is 1 then.
    private_auxiliary: int | None = None,
) -> float:
    """Return how far a party moves the minimiser of fractions: docs/proofs/multiparty.md."""
    rows = private_auxiliary
    joint = 1.0 if rows is None else (rows - 1 + 2 * n_parties) / rows
    steepest = _move(n_classes) * radius * joint / (n_parties * alpha) * (1 + _ROUNDING)
    return min(steepest, 2 * largest_norm(alpha, n_classes))


def _move(n_classes: int) -> float:
    """Return the norm by which a vote that changes moves a row's weights of the classes."""
    return 1.0 if n_classes == 2 else math.sqrt(2)


def auxiliary_radius(X: NDArray[np.floating]) -> float:
    """Return how far votes that change by one per row at most move ``X'alpha/N``, rounded up."""
    rows = X.astype(np.float64, copy=False)
    norms = np.linalg.norm(rows, axis=1)
    if not float(norms.max()) <= 1:
        raise InvalidData("X has rows longer than 1; clip them first.")
    n_rows, n_features = rows.shape
    # What sums of so many products, and the eigenvalues of so large a matrix, may be off by.
    margin = 4 * (n_rows + n_features) * _EPS
    gram = rows.T @ rows if n_features <= n_rows else rows @ rows.T
    largest = float(np.linalg.eigvalsh(gram)[-1] + margin * np.trace(gram))
    return float(min(1.0, math.sqrt(largest / n_rows), norms.mean() * (1 + margin)))


# --- public cells ---------------------------------------------------------------------------------
# Clusters of public rows without labels, and a softmax model of how classes share them, from noised
# shares: post-processing, whose every choice is free (docs/proofs/cells.md, "Afterwards").

#: Cells are found along so many directions; more are mostly noise to distances.
_DIRECTIONS = 20

#: Directions with less than this share of the largest variance are left out.
_THINNEST = 1e-3

#: Squared mean length of a half-white row, to which the ridges of models belong.
_LENGTH = 20.0

_ROUNDS = 100


@dataclass(frozen=True, eq=False)
class Cells:
    """A row lies in the cell of the largest ``directions @ x + offset``; a tie is for the first."""

    directions: Floats
    offsets: Floats

    def __len__(self) -> int:
        return len(self.offsets)

    def of(self, rows: Floats) -> Places:
        """Return the cell of every row; whatever the numbers are, it is one of them."""
        with np.errstate(all="ignore"):
            return np.asarray(np.argmax(rows @ self.directions.T + self.offsets, axis=1))


@dataclass(frozen=True, eq=False)
class HalfWhite:
    """Public rows, their principal directions half-way to the same spread.

    As they are a few decide every score; white, those of noise count as much as any.
    """

    rows: Floats  #: Public rows
    #: The public constant of an intercept: with one, rows are taken from their mean.
    constant: float = 0.0

    @cached_property
    def mean(self) -> Floats:
        return self.rows.mean(axis=0) if self.constant else np.zeros(self.rows.shape[1])

    @cached_property
    def turn(self) -> Floats:
        """The ``(d, c)`` map to half-white coordinates, widest direction first."""
        values, vectors = self._directions
        return np.asarray(vectors / values**0.25 * math.sqrt(_LENGTH / np.sqrt(values).sum()))

    @cached_property
    def _white(self) -> Floats:
        values, vectors = self._directions
        return np.asarray((vectors / np.sqrt(values))[:, :_DIRECTIONS])

    @cached_property
    def _directions(self) -> tuple[Floats, Floats]:
        away = self.rows - self.mean
        values, vectors = np.linalg.eigh(away.T @ away / len(away))
        kept = values > max(_THINNEST * values[-1], 1e-12)
        if not kept.any():  # all rows are the same
            return np.ones(1), np.zeros((self.rows.shape[1], 1))
        return values[kept][::-1], vectors[:, kept][:, ::-1]

    @cached_property
    def stretches(self) -> tuple[Floats, Floats]:
        """What half-white coordinates are multiplied by: nothing, or to see rows as they are."""
        values, _ = self._directions
        plain = values**0.25 * math.sqrt(np.sqrt(values).sum() / values.sum())
        return np.ones(len(values)), plain

    def coordinates(self, rows: Floats) -> Floats:
        return np.asarray((rows - self.mean) @ self.turn)

    def cells(self, count: int) -> Cells:
        """Return a partition into ``count`` clusters at most, each with some of the public rows."""
        centres = _k_means((self.rows - self.mean) @ self._white, count)
        directions = 2 * centres @ self._white.T
        return Cells(directions, -(centres**2).sum(axis=1) - directions @ self.mean)

    def explained(self, cells: Cells) -> float:
        points = (self.rows - self.mean) @ self._white
        points = points - points.mean(axis=0)
        spread = float((points**2).sum())
        sizes, means = _means_by(cells.of(self.rows), points, len(cells))
        return float((sizes @ means**2).sum()) / spread if spread > 0 else 1.0

    def model(
        self, places: Places, shares: Floats, deviation: float, n_parties: int, alpha: float | None
    ) -> tuple[Floats, float]:
        """Return weights of rows and of the constant, ``(d,)`` or ``(K, d)``, and their ridge."""
        n_cells, n_classes = shares.shape
        sizes = np.bincount(places, minlength=n_cells) / len(self.rows)
        # A class's part of a cell is uncertain besides: private and public rows are samples.
        even = (1 - 1 / n_classes) / n_classes
        sampled = sizes * even * (1 / n_parties + 1 / len(self.rows))
        seen, intercept = self.coordinates(self.rows), self.constant > 0
        weights, ridge = fit_shares(
            seen,
            places,
            shares,
            deviation**2 + sampled + 1e-12,
            intercept=intercept,
            ridges=RIDGES if alpha is None else (alpha,),
            stretches=self.stretches,
        )
        if n_classes > 2:  # two are ranked by scores, which a sharper border makes coarser
            weights = learn_again(seen, weights, intercept=intercept)
        turned = weights[:, : self.turn.shape[1]] @ self.turn.T
        if intercept:
            intercepts = weights[:, -1] - turned @ self.mean
            turned = np.hstack([turned, intercepts[:, None] / self.constant])
        return (turned[1] - turned[0] if n_classes == 2 else turned), ridge


def _k_means(points: Floats, count: int) -> Floats:
    """Return at most ``count`` centres, from a start that a fixed seed draws (k-means++)."""
    rng = np.random.default_rng(0)
    centres = points[[int(rng.integers(len(points)))]]
    nearest = cdist(points, centres, "sqeuclidean")[:, 0]
    tries = 2 + int(math.log(count))
    for draws in rng.uniform(size=(min(count, len(points)) - 1, tries)):
        if not nearest.any():
            break  # every row is a centre already
        drawn = np.searchsorted(np.cumsum(nearest), draws * nearest.sum(), side="right")
        tried = points[np.minimum(drawn, len(points) - 1)]
        left = np.minimum(nearest[:, None], cdist(points, tried, "sqeuclidean"))
        best = int(left.sum(axis=0).argmin())
        centres, nearest = np.vstack([centres, tried[best]]), left[:, best]
    places = None
    for _ in range(_ROUNDS):
        found = cdist(points, centres, "sqeuclidean").argmin(axis=1)
        if places is not None and np.array_equal(found, places):
            break
        sizes, means = _means_by(found, points, len(centres))
        centres, places = means[sizes > 0], found if sizes.all() else None
    return centres


def _means_by(places: Places, values: Floats, count: int) -> tuple[Places, Floats]:
    """Return how many rows there are in every place, and their mean."""
    sizes = np.bincount(places, minlength=count)
    columns = [np.bincount(places, weights=column, minlength=count) for column in values.T]
    return sizes, np.stack(columns, axis=1) / np.maximum(sizes, 1)[:, None]


#: The ridges that :func:`fit_shares` chooses from, largest first.
RIDGES = (10.0, 3.0)

#: Ridge of the intercept, as a share of the others'.
_INTERCEPT = 1e-3

#: How much surer than it is a model is taken when it is learned again, and with which ridge.
_SURER, _AGAIN = 4.0, 5.0


def fit_shares(
    rows: Floats,  # Public rows, half-white
    places: Places,  # Their cells
    shares: Floats,  # Share of all rows that are in a cell and of a class; noised
    variances: Floats,  # Of a share, noise and sampling together
    *,
    intercept: bool,  # Whether the model has one
    ridges: Sequence[float] = RIDGES,  # To choose from, largest first
    # To choose from: what columns are multiplied by. Default: none.
    stretches: Sequence[Floats] = (),
) -> tuple[Floats, float]:
    """Fit a softmax model to noised shares of cells and classes; return weights and the ridge.

    Ridge and stretch are those under which the shares are the most probable, by Laplace.
    """
    best, chosen = -math.inf, ridges[0]
    for stretch in stretches or [np.ones(rows.shape[1])]:
        fit = _ShareFit(rows * stretch, places, shares, variances, intercept)
        start = np.zeros(fit.size)
        for ridge in ridges:
            start, value = fit.minimise(ridge, start)
            evidence = -value - 0.5 * fit.log_determinant(ridge, start)
            if evidence > best:
                best, chosen, found, kept, seen = evidence, ridge, start, fit, stretch
    # Whoever computes it again, elsewhere, finds the same to seven digits.
    found, _ = kept.minimise(chosen, found, precise=True)
    weights = kept.weights(found)
    weights[:, : len(seen)] *= seen
    return weights, float(chosen)


def learn_again(rows: Floats, weights: Floats, *, intercept: bool) -> Floats:
    """Learn a model of several classes again, from its own answers for public rows, made surer.

    Borders between classes move to where there are few public rows; scores keep their size.
    """
    Z = np.hstack([rows, np.ones((len(rows), int(intercept)))])
    penalty = _penalty(Z.shape[1], intercept)
    basis = sum_zero_basis(len(weights))
    scores = Z @ weights.T
    labels = special.softmax(_SURER * scores, axis=1)

    def value(point: Floats) -> tuple[float, Floats]:
        U = point.reshape(-1, Z.shape[1])
        found = Z @ (basis @ U).T
        logs = special.logsumexp(found, axis=1)
        off = np.exp(found - logs[:, None]) - labels
        total = float(logs.sum() - (labels * found).sum() + _AGAIN * (U**2 @ penalty).sum())
        return total, (basis.T @ (off.T @ Z) + 2 * _AGAIN * U * penalty).ravel()

    done = optimize.minimize(
        value,
        np.zeros((len(weights) - 1) * Z.shape[1]),
        jac=True,
        method="L-BFGS-B",
        options=_PRECISE,
    )
    again = basis @ done.x.reshape(-1, Z.shape[1])
    new = Z @ again.T
    size = float((new**2).sum())
    return np.asarray(again * (float((new * scores).sum()) / size if size > 0 else 1.0))


_PRECISE: Any = {"maxiter": 5000, "maxfun": 10_000, "gtol": 1e-9, "ftol": 1e-16}


def _penalty(size: int, intercept: bool) -> Floats:
    penalty = np.ones(size)
    if intercept:
        penalty[-1] = _INTERCEPT
    return penalty


class _ShareFit:
    def __init__(
        self, rows: Floats, places: Places, shares: Floats, variances: Floats, intercept: bool
    ) -> None:
        order = np.argsort(places, kind="stable")
        ones = np.ones((len(rows), int(intercept)))
        self.Z = np.hstack([rows, ones])[order]
        self.places = places[order]
        present, self.starts = np.unique(self.places, return_index=True)
        # A cell without public rows: the model says nothing of it.
        self.seen = np.searchsorted(present, self.places)
        self.shares, self.roots = shares[present], np.sqrt(variances[present])[:, None]
        n_classes = shares.shape[1]
        self.basis = sum_zero_basis(n_classes)
        self.penalty = _penalty(self.Z.shape[1], intercept)
        self.size = (n_classes - 1) * self.Z.shape[1]

    def weights(self, point: Floats) -> Floats:
        return np.asarray(self.basis @ point.reshape(-1, self.Z.shape[1]))

    def _probabilities(self, point: Floats) -> Floats:
        return np.asarray(special.softmax(self.Z @ self.weights(point).T, axis=1))

    def _by_cell(self, values: Floats) -> Floats:
        return np.asarray(np.add.reduceat(values, self.starts, axis=0) / len(self.Z))

    def minimise(
        self, ridge: float, start: Floats, *, precise: bool = False
    ) -> tuple[Floats, float]:
        def value(point: Floats) -> tuple[float, Floats]:
            P = self._probabilities(point)
            off = (self._by_cell(P) - self.shares) / self.roots
            pull = (off / self.roots)[self.seen] / len(self.Z)
            slope = P * (pull - (pull * P).sum(axis=1, keepdims=True))
            U = point.reshape(-1, self.Z.shape[1])
            total = 0.5 * float((off**2).sum()) + ridge * float((U**2 @ self.penalty).sum())
            gradient = self.basis.T @ (slope.T @ self.Z) + 2 * ridge * U * self.penalty
            return total, gradient.ravel()

        options: Any = _PRECISE if precise else {"maxiter": 200, "gtol": 1e-4}
        done = optimize.minimize(value, start, jac=True, method="L-BFGS-B", options=options)
        return np.asarray(done.x), float(done.fun)

    def log_determinant(self, ridge: float, point: Floats) -> float:
        """Return that of the curvature over the ridge's, by Gauss and Newton."""
        P = self._probabilities(point)
        lead = self.basis[None] - (P @ self.basis)[:, None]  # (N, K, K-1)
        scaled = self.Z / np.sqrt(2 * ridge * self.penalty)
        n_cells, n_classes = self.shares.shape
        J = np.empty((n_cells, n_classes, n_classes - 1, self.Z.shape[1]))
        for y in range(n_classes):
            for b in range(n_classes - 1):
                J[:, y, b] = self._by_cell((P[:, y] * lead[:, y, b])[:, None] * scaled)
        J /= self.roots[:, :, None, None]
        J = J.reshape(n_cells * n_classes, -1)
        gram = J @ J.T if len(J) <= J.shape[1] else J.T @ J
        return float(np.linalg.slogdet(np.eye(len(gram)) + gram)[1])


# --- totals, and the noise on them ----------------------------------------------------------------

#: What a party has to give away among cells and classes, in whole numbers: then sums are exact.
WHOLE = 2**16

#: Squared axes of the ellipsoid are raised by this share of the longest.
_FLATTEST = 1e-6

_COORDINATOR = "whoever adds up what parties send adds the noise, and keeps the sums to itself"

#: By method: how a coordinator who is trusted asks for what parties send, and the proof.
_KINDS: dict[Method, tuple[str, str]] = {
    "statistic": ("ballot", "docs/proofs/statistic.md"),
    "cells": ("shares", "docs/proofs/cells.md"),
    "soft": ("ballot", "docs/proofs/multiparty.md"),
    "vote": ("ballot", "docs/proofs/multiparty.md"),
    "weights": ("upload", "docs/proofs/party_average.md"),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class PartyBudget(Tries):
    """What a release may cost whole parties, and who makes its noise."""

    epsilon: float  #: The price, for each whole party
    delta: float = 0.0  #: With one the noise is Gaussian; not for cells, whose noise is Laplace's
    n_parties: int = 2  #: Public number M of parties
    n_classes: int = 2
    #: Who sees what parties send, and adds the noise: a coordinator whom they trust, or nobody.
    #: "soft" and "vote" noise a model, which no sum can do: they need the coordinator.
    trust: Trust = "coordinator"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.epsilon)
        _check_sizes(self.n_parties, self.n_classes - 1)
        if self.delta:
            check_delta(self.delta, self.n_parties, "party")

    def promise(self, method: Method, *, jointly: bool = False) -> Guarantee:
        """Return the price; ``jointly``: one auxiliary row may change together with the party."""
        auxiliary = "number of auxiliary rows" if jointly else "auxiliary rows"
        known = () if method == "weights" else (auxiliary,)
        trusted: tuple[str, ...] = (_COORDINATOR, FLOATS, RANDOM)
        if self.trust == "sum":
            trusted = sum_assumptions(self.pooling(self.n_parties), self.n_parties)
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            unit=Unit.PARTY,
            neighbours=Neighbours.REPLACE_ONE,
            theorem=_KINDS[method][1],
            public=("number of parties", *FACTS, *known),
            assumptions=("what a party sends depends on its own data alone", *trusted)
            + ("one auxiliary row may change together with the party",) * jointly,
        )


def _check_sizes(*sizes: int) -> None:
    if min(sizes) < 1:
        raise InvalidData("needed are at least one party, row, column and cell, and two classes.")


@dataclass(frozen=True, kw_only=True, eq=False)
class PartyTotal:
    """A total to which every party adds a bounded part, with noise on it."""

    budget: PartyBudget
    method: Method
    size: int  #: Numbers of the total, in the coordinates of the noise
    value: Callable[..., Sent]  #: From what parties sent, added up, to the total in them
    moved: float  #: How far a party moves the exact total, in the norm of the noise
    #: What the solver, and what floats may add to that.
    off: float = 0.0
    rounding: float = 0.0
    reach: float = math.inf  #: No computed total is longer
    largest: float = math.inf  #: Bound on the absolute entries of one party's part
    #: One public auxiliary row may change together with the party.
    jointly: bool = False
    #: From one party's upload to what it adds to a sum, where that is not its own total.
    own: Callable[[Sent], Floats] | None = None
    #: From one party's upload to what is added up: none moves it further than it may.
    clipped: Callable[[Sent], Sent]
    shape: tuple[int, ...]  #: Of what is added up
    #: From noised totals, one per row, to what is wanted.
    turned: Callable[[Floats], Floats]
    split: Floats | None = None  #: What evenly split votes make, which parts are without
    unit: float = 1.0  #: What the noise is divided by
    alpha: float = 0.0  #: Ridge behind what parties send, or behind a model that is noised
    tolerance: float = 0.0  #: Certified bound on the gradient of a model before noise
    #: Axes ``(d,)`` and orthonormal directions ``(d, d)`` of noise that is no ball's.
    axes: tuple[Floats, Floats] | None = None

    def __post_init__(self) -> None:
        theorem("point", "L1" if self.method == "cells" else "L2", self.budget.delta)

    @property
    def sensitivity(self) -> float:
        """Largest move of the computed total between neighbours, in the noise's norm."""
        return self.moved + self.off + self.rounding

    @property
    def deviation(self) -> float:
        noise = self.noise
        return (noise.deviations[0] if isinstance(noise, Point) else noise.deviation) / self.unit

    def guarantee(self) -> Guarantee:
        return self.budget.promise(self.method, jointly=self.jointly)

    @cached_property
    def noise(self) -> Point | SecureSum:
        budget, whole = self.budget, self.method == "cells"
        if budget.trust == "coordinator":
            parts = () if whole else (Part(self.size, self.reach),)
            return Point(promise=self.guarantee(), sensitivity=self.sensitivity, parts=parts)
        return budget.tried(
            budget.n_parties,
            epsilon=budget.epsilon,
            law="integer" if whole else "l2",
            delta=budget.delta,
            size=self.size,
            sensitivity=self.sensitivity,
            largest=self.largest,
            unit=Unit.PARTY,
        )

    def part(self, upload: Sent) -> Floats:
        """Return what a party adds to a sum, where nobody has to see what all send."""
        if self.own is not None:
            return self.own(upload)
        return np.asarray(self.value(self.clipped(upload)), dtype=np.float64)

    def of_parts(self, released: Floats) -> Floats:
        """Return what the noised sum of all parts says; who is not there is split, or zero."""
        (found,) = self.turned(released[None])
        return np.asarray(found if self.split is None else found + self.split)


def _check_total(total: Sent, shape: tuple[int, ...], *, clipped: bool) -> None:
    if total.shape != shape:
        raise InvalidData("the sum of the uploads does not have the shape of one.")
    if not clipped:
        raise InvalidData("the uploads were not clipped before they were added up.")


def _ballots(budget: PartyBudget, n_rows: int) -> dict[str, Any]:
    """Return how ballots are added up: class codes, one for every auxiliary row."""
    k = budget.n_classes

    def clipped(ballot: Sent) -> Integers:
        if ballot.shape != (n_rows,) or ballot.dtype.kind not in "biu":
            raise InvalidData("a ballot must hold one whole-numbered code per auxiliary row.")
        if not 0 <= ballot.min() <= ballot.max() < k:
            raise InvalidData("a ballot's codes must lie between 0 and n_classes - 1.")
        return np.eye(k, dtype=np.int64)[ballot.astype(np.intp)]

    return {"clipped": clipped, "shape": (n_rows, k)}


def _shares(budget: PartyBudget, votes: Sent, n_rows: int, *, majority: bool = False) -> Floats:
    counted = votes.sum(axis=-1)
    whole = np.issubdtype(votes.dtype, np.integer) and votes.min() >= 0
    once = whole and np.all(counted == counted[0]) and counted[0] <= budget.n_parties
    _check_total(votes, (n_rows, budget.n_classes), clipped=bool(once))
    return vote_majority(votes) if majority else vote_fractions(votes, budget.n_parties)


def noised_average(budget: PartyBudget, *, n_features: int, alpha: float) -> PartyTotal:
    """Clip the parties' weights, divide their sum by all parties' number, add noise."""
    _check_sizes(n_features)
    check_bound(alpha, "alpha")
    k, count = budget.n_classes, budget.n_parties
    norm = largest_norm(alpha, k)
    shape = (n_features,) if k == 2 else (k, n_features)

    def clipped(upload: Floats) -> Floats:
        if upload.shape != shape or not np.all(np.isfinite(upload)):
            raise InvalidData("an upload must be finite, with one number per weight.")
        if k > 2:
            with np.errstate(over="ignore", invalid="ignore"):
                upload = upload - upload.mean(axis=0)
        return np.asarray(norm * into_ball(upload.reshape(1, -1), norm)).reshape(shape)

    def value(total: Floats) -> Floats:
        longest = count * norm * (1 + 1e-6)
        _check_total(total, shape, clipped=bool(np.linalg.norm(total) <= longest))
        return coordinates(total / count)

    # A float sum of M vectors, in any order, is off by at most M units of each.
    summing = 2 * (count + 8) * _EPS * norm
    return PartyTotal(
        budget=budget,
        method="weights",
        size=n_features * (k - 1),
        value=value,
        moved=2 * norm / count,
        rounding=summing + 2 * coordinate_rounding(norm, k),
        reach=norm,
        largest=2 * norm / count,
        clipped=clipped,
        shape=shape,
        turned=ClassRows(k),
        alpha=alpha,
    )


def noised_cells(budget: PartyBudget, *, n_cells: int) -> PartyTotal:
    """Add up how every party's rows are shared over cells and classes, add integer noise."""
    _check_sizes(n_cells)
    shape, every = (n_cells, budget.n_classes), WHOLE * budget.n_parties

    def clipped(upload: Sent) -> Integers:
        """Return what a party sent as it is added up; what nobody can have, counts as nothing."""
        if upload.shape != shape or not np.issubdtype(upload.dtype, np.integer):
            raise InvalidData("an upload must hold one whole number per cell and class.")
        # In floats, a sum of huge numbers is not a small one again.
        fits = upload.sum(dtype=np.float64) <= WHOLE and upload.min() >= 0
        return np.asarray(upload * fits, dtype=np.int64)

    def value(total: Sent) -> Integers:
        _check_total(total, shape, clipped=bool(not np.any(total < 0) and total.sum() <= every))
        return np.asarray(total, dtype=np.int64).ravel()

    return PartyTotal(
        budget=budget,
        method="cells",
        size=n_cells * budget.n_classes,
        value=value,
        moved=2.0 * WHOLE,  # all that a party has, twice, as a sum of absolute changes
        largest=float(WHOLE),
        clipped=clipped,
        shape=shape,
        turned=lambda released: released.reshape(-1, *shape) / every,
        unit=every,
    )


def shares_of_cells(
    cells: NDArray[np.intp], codes: NDArray[np.intp], shape: tuple[int, int]
) -> Integers:
    """Return a party's rows shared over cells and classes, in exact parts of the whole."""
    counts = np.bincount(cells * shape[1] + codes, minlength=shape[0] * shape[1])
    running = np.cumsum(counts) * WHOLE // len(cells)
    return np.diff(running, prepend=0).reshape(shape)


def noised_statistic(budget: PartyBudget, *, rows: Floats) -> PartyTotal:
    """Release ``s = (1/N) sum_i alpha_i x_i`` with noise in the ellipsoid of ``X'X/N``."""
    if rows.ndim != 2:
        raise InvalidData("auxiliary must be a table of rows.")
    _check_sizes(*rows.shape)
    certify_rows(rows)
    if not np.any(rows):
        raise InvalidData("auxiliary has rows of zeros only: votes on them say nothing.")
    k, (n_rows, size) = budget.n_classes, rows.shape
    axes, directions, slack = _ellipsoid(rows)
    least = float(axes.min())
    # The ellipsoid's symmetric root, and its inverse, are unique, where directions of one length
    # are not: parties on different machines compute the same coordinates.
    root, inverse = (directions * axes) @ directions.T, (directions / axes) @ directions.T
    even = np.asarray(rows.mean(axis=0) / k)
    # Summing, and then a product with the inverse root.
    off = _statistic_rounding(n_rows) + _statistic_rounding(size) + coordinate_rounding(1.0, k)

    def value(votes: Integers) -> Floats:
        return coordinates(vote_statistic(rows, _shares(budget, votes, n_rows)) @ inverse)

    def own(ballot: Flags | Integers) -> Floats:
        """Return one party's votes, less an even split; of more classes a ballot holds codes."""
        votes = ballot.astype(np.float64) if k == 2 else np.eye(k)[ballot]
        return coordinates(vote_statistic(rows, votes - 1 / k) @ inverse) / budget.n_parties

    def turned(released: Floats) -> Floats:
        statistics = np.asarray(ClassRows(k)(released) @ root)
        # Of more classes the columns' sums are the mean of x, public.
        return statistics if k == 2 else statistics + even

    return PartyTotal(
        budget=budget,
        method="statistic",
        size=size * (k - 1),
        value=value,
        # Of K classes the sum over classes does not move at all.
        moved=_move(k) / budget.n_parties * (1 + _ROUNDING) * (1 + slack),
        off=2 * off / least,
        reach=2 / least,
        largest=2 / least / budget.n_parties,
        own=own,
        turned=turned,
        **_ballots(budget, n_rows),
        split=even if k == 2 else None,
        axes=(axes, directions),
    )


def _ellipsoid(rows: Floats) -> tuple[Floats, Floats, float]:
    """Return axes and directions of the noise, and by which share a move may be outside."""
    gram = np.asarray(rows.T @ rows / len(rows))
    # Bound on the error of the computed squared axes, over the longest.
    error = 8 * sum(rows.shape) * _EPS * float(np.trace(gram) / np.linalg.norm(gram, 2))
    values, directions = np.linalg.eigh(gram)
    # Longer axes contain the ellipsoid: a floor under the flat ones keeps rounding small.
    floor = max(_FLATTEST, 4 * error)
    axes, slack = np.sqrt(np.maximum(values, 0.0) + floor * values[-1]), error / floor
    # The computed inverse root is off by d^2 roundings of its largest entry at the most.
    return axes, directions, slack + 2 * len(axes) ** 2 * _EPS * float(axes.max() / axes.min())


def noised_votes(
    budget: PartyBudget,
    *,
    n_auxiliary: int,  # Public number of auxiliary rows
    n_features: int,
    alpha: float,  # Ridge on the mean loss
    # Fractions of the votes, or their majority: one vote can turn a majority on every row.
    labels: Literal["soft", "vote"] = "soft",
    radius: float = 1.0,  # From :func:`auxiliary_radius`, if the rows are public
    auxiliary_private: bool = False,  # Whether one row may change together with the party
) -> PartyTotal:
    """Minimise the risk of voted auxiliary rows, then add noise to the minimiser."""
    check_bound(alpha, "alpha")
    _check_sizes(n_auxiliary, n_features)
    if not 0 <= radius <= 1 or (auxiliary_private and radius != 1):
        raise InvalidParameter(
            "radius must lie between 0 and 1, and be 1 when the auxiliary rows are private."
        )
    k, rounding = budget.n_classes, _statistic_rounding(n_auxiliary)
    # No votes have a longer statistic, rounding included: certifying it always succeeds.
    smallest = weighted_tolerance(
        n_auxiliary, n_features, alpha=alpha, statistic_norm=1 + rounding, n_classes=k
    )
    tolerance = max(TOLERANCE, smallest)
    # What an answer is off by, times the ridge: the certified gradient, and rounding.
    off = tolerance / n_auxiliary + rounding
    reach = largest_norm(alpha, k) + off / alpha

    def value(votes: Integers, rows: Floats) -> Floats:
        if rows.shape != (n_auxiliary, n_features):
            raise InvalidData("auxiliary does not have the declared number of rows and columns.")
        certify_rows(rows)
        shares = _shares(budget, votes, n_auxiliary, majority=labels == "vote")
        statistic = vote_statistic(rows, shares)
        return coordinates(minimise_weighted(rows, statistic, alpha=alpha, tolerance=tolerance))

    return PartyTotal(
        budget=budget,
        method=labels,
        size=n_features * (k - 1),
        value=value,
        # Between ties one party decides every label, as if it were alone.
        moved=soft_sensitivity(
            alpha,
            1 if labels == "vote" else budget.n_parties,
            n_classes=k,
            radius=radius,
            private_auxiliary=n_auxiliary if auxiliary_private else None,
        ),
        off=2 * off / alpha,
        rounding=2 * coordinate_rounding(reach, k),
        reach=reach,
        jointly=auxiliary_private,
        **_ballots(budget, n_auxiliary),
        turned=ClassRows(k),
        alpha=alpha,
        tolerance=tolerance,
    )


# --- the protocol ---------------------------------------------------------------------------------

#: Weights of about this length are expected where a ridge is chosen before anything is seen.
_EXPECTED_NORM = 5.0

#: Ridge of the parties' own problems: their length is bounded, and directions hardly suffer.
_AVERAGE_ALPHA = 1e-2

#: What noises a model of all votes.
_MODELS = ("soft", "vote")
#: There are so many cells times a power of ``epsilon M``: noise and detail balance.
_CELLS, _POWER = 0.4, 0.65

#: Public rows that a cell has at least, on average; and no more cells than this.
_ROWS_OF_A_CELL, _MOST = 8, 1000


@dataclass(frozen=True, eq=False)
class Released:
    """What the coordinator may publish."""

    weights: Floats  #: In the frame's coordinates, (d,) or (K, d)
    alpha: float  #: The ridge behind them
    #: The noised statistic they are made from; other models of it cost nothing more.
    statistic: Floats | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Voting(PartyBudget, Asked):
    """What every party sends, how a model is made of it, and what it costs them.

    The number of parties is what :meth:`steps` is told.
    """

    frame: Frame  #: The public coordinates, in L2
    #: Noise on the votes' statistic; on the shares of classes in public cells; on the model of the
    #: votes' fractions, or of their majority; on the mean of the parties' weights.
    method: Method = "statistic"
    #: Unlabelled rows, as encoded, to vote on or ("cells") to learn with.
    auxiliary: Floats | None = None
    alpha: Alpha = "auto"  #: Ridge of the released model; of the parties' own ones for "weights"
    local_alpha: float = 1e-4  #: Ridge of the classifiers that vote
    auxiliary_private: bool = False  #: Whether an auxiliary row may change together with a party
    #: For "cells", as a party is told them; by default they are found in the auxiliary rows.
    partition: Cells | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta and self.method == "cells":
            theorem("point", "L1", self.delta)
        told, shared, model = f"method={self.method!r}", self.trust == "sum", self.method in _MODELS
        if shared and model:
            raise InvalidParameter(
                f"trust='sum': {told} noises a model of all votes, which somebody has to see: use "
                "trust='coordinator', or method='statistic'."
            )
        if shared and self.collusion_threshold != "auto" and self.collusion_threshold < 1:
            raise InvalidParameter(
                "collusion_threshold must be at least 1: every party knows its own share."
            )
        if self.auxiliary_private and not model:
            raise InvalidParameter(
                f"auxiliary_private=True: {told} has no private auxiliary rows; use 'soft' or "
                "'vote'."
            )

    @property
    def votes(self) -> bool:
        return _KINDS[self.method][0] == "ballot"

    @cached_property
    def rows(self) -> Floats:
        if self.auxiliary is None or len(self.auxiliary) == 0:
            raise InvalidParameter(
                f"auxiliary must hold unlabelled rows: method={self.method!r} learns from them."
            )
        return self.frame.rows(self.auxiliary).written()

    @property
    def operation(self) -> str:
        """How parties are asked: for a share of a sum, or by who is trusted to add the noise."""
        return "party_share" if self.trust == "sum" else _KINDS[self.method][0]

    def guarantee(self) -> Guarantee:
        """Return what one run promises every party; their number matters to a sum alone."""
        return self.promise(self.method, jointly=self.auxiliary_private)

    def check(self) -> None:
        _ = self.mechanism.noise
        if self.method != "weights":
            _ = self.rows  # says so if there are none

    @property
    def shared(self) -> SecureSum:
        noise = self.mechanism.noise
        if not isinstance(noise, SecureSum):
            raise InvalidParameter("trust: a coordinator adds the noise; nobody has a share.")
        return noise

    @cached_property
    def _public(self) -> HalfWhite:
        """The public rows without the constant."""
        return HalfWhite(
            np.ascontiguousarray(self.rows[:, : self.frame.n_features]), self.frame.constant
        )

    @cached_property
    def cells(self) -> Cells:
        """The public partition, in the frame's coordinates."""
        if self.partition is not None:
            return self.partition
        count = cells_for(self.epsilon, self.n_parties, len(self.rows), self.n_classes)
        found, pad = self._public.cells(count), ((0, 0), (0, 1 if self.frame.constant else 0))
        return Cells(np.pad(found.directions, pad), found.offsets)

    @cached_property
    def mechanism(self) -> PartyTotal:
        if self.method == "cells":
            return noised_cells(self, n_cells=len(self.cells))
        if self.method == "statistic":
            return noised_statistic(self, rows=self.rows)
        if self.method == "weights":
            alpha = _AVERAGE_ALPHA if self.alpha == "auto" else float(self.alpha)
            return noised_average(self, n_features=self.frame.size, alpha=alpha)
        return noised_votes(
            self,
            n_auxiliary=len(self.rows),
            n_features=self.frame.size,
            alpha=self.output_alpha,
            labels=self.method,
            radius=1.0 if self.auxiliary_private else auxiliary_radius(self.rows),
            auxiliary_private=self.auxiliary_private,
        )

    def steps(self, parties: Sequence[str]) -> Protocol[Released]:
        plan = self if len(parties) == self.n_parties else replace(self, n_parties=len(parties))
        arrays = (yield Ask(plan, dict.fromkeys(parties, 0))).arrays
        noised = plan.mechanism.of_parts(arrays["sum"]) if "sum" in arrays else arrays["noised"]
        return plan.released(noised)

    def weights(self, X: Any, codes: Places) -> Sent:
        """Return the weights, or shares of cells, of a party with these rows."""
        (own,) = self.learned(X, codes, np.array([0, len(codes)]))
        if own is None:
            raise InvalidData("X needs at least one row.")
        return own

    def learned(self, X: Any, codes: Places, offsets: NDArray[np.int64]) -> list[Sent | None]:
        """Return :meth:`weights` of every party whose rows begin there; of no rows nothing."""
        k, sizes = self.n_classes, np.diff(offsets)
        found: list[Sent | None] = [None] * len(sizes)
        for n in np.unique(sizes[sizes > 0]).tolist():
            alike, few = np.flatnonzero(sizes == n), min(n, self.frame.size)
            # So many that their Hessians, the largest there is, stay near the processor.
            most = max(1, _STACK // (n * max(self.frame.size, k * k * few)))
            for some in np.split(alike, range(most, len(alike), most)):
                where = offsets[some][:, None] + np.arange(n)
                rows = self.frame.rows(dense(X[where.ravel()])).written().reshape(len(some), n, -1)
                for at, one in zip(some, self._own(rows, codes[where]), strict=True):
                    found[at] = one
        return found

    def _own(self, rows: Floats, codes: Places) -> Iterable[Sent]:
        if self.method == "cells":
            shape, pairs = (len(self.cells), self.n_classes), zip(rows, codes, strict=True)
            return [shares_of_cells(self.cells.of(one), told, shape) for one, told in pairs]
        alpha = self.local_alpha if self.votes else self.mechanism.alpha
        return local_weights(rows, codes, self.n_classes, alpha)

    def sent(self, own: Sent) -> Sent:
        if not self.votes:
            return own
        votes = count_votes(own[None], self.rows)
        return votes[:, 1] > 0 if self.n_classes == 2 else np.argmax(votes, axis=1).astype(np.int64)

    def inputs(self, sent: Sent) -> tuple[object, ...]:
        return (sent, self.rows) if self.method in _MODELS else (sent,)

    def noised(self, sent: Sent, source: RandomSource) -> Floats:
        made = self.mechanism
        (noised,) = source.draw(made.noise, made.value(*self.inputs(sent)))
        return np.asarray(made.turned(noised)[0])

    def released(self, noised: Floats) -> Released:
        """Return the model that noised totals make: post-processing."""
        made, alpha = self.mechanism, None if self.alpha == "auto" else self.alpha
        if self.method in (*_MODELS, "weights"):
            return Released(noised, made.alpha)
        if self.method == "cells":
            places = self.cells.of(self.rows)
            told = self._public.model(places, noised, made.deviation, self.n_parties, alpha)
            return Released(*told, noised)
        if alpha is None:
            assert made.axes is not None
            alpha = ridge_under_noise(self.rows, noised, *made.axes, made.deviation)
        length, rows = float(np.linalg.norm(noised)), self.rows
        smallest = weighted_tolerance(
            *rows.shape, alpha=alpha, statistic_norm=length, n_classes=self.n_classes
        )
        tolerance = max(TOLERANCE * len(rows), 2 * smallest)
        found = minimise_weighted(rows, noised, alpha=alpha, tolerance=tolerance)
        return Released(found, alpha, noised)

    @property
    def output_alpha(self) -> float:
        """The ridge: noise of variance ~ 1/(M ridge eps)^2 against weights that shrink."""
        if self.alpha != "auto":
            return float(self.alpha)
        count = self.n_parties if self.method == "soft" else 1  # a majority is no quieter
        # The least of (1/8d)E||noise||^2 + (ridge/2)||w||^2, with the identity's sensitivity.
        reach = count * self.epsilon * _EXPECTED_NORM
        return float((self.frame.size / (2 * reach**2)) ** (1 / 3))


#: How far what a party learns may be from the exact minimiser, at a ridge that allows it; and the
#: smallest gradient per row that is told from rounding.
_AIM, _FINEST = 1e-10, 1e-14

#: Numbers in a stack's largest array: few enough to stay near the processor.
_STACK = 1 << 19


def local_weights(rows: Floats, codes: Places, n_classes: int, alpha: float) -> Floats:
    """Minimise ``(1/n) sum_i loss(W x_i) + (alpha/2) ||W||_F^2`` of parties with n rows each."""
    # A minimiser lies among the rows: it has no more coordinates there than they are.
    turn, few = np.linalg.qr(rows.mT)
    wanted, n = np.eye(n_classes)[codes], rows.shape[1]
    wanted = wanted[..., 1:] if n_classes == 2 else wanted
    own = np.ascontiguousarray(few.mT)
    few = minimise_each(own, wanted, n * alpha, n * max(_AIM * alpha, _FINEST))
    W: Floats = few @ turn.mT
    return W[:, 0] if n_classes == 2 else W


def cells_for(epsilon: float, n_parties: int, n_rows: int, n_classes: int) -> int:
    """Return how many cells there are, by public sizes: noise and detail grow with them."""
    wanted = max(math.ceil(_CELLS * math.pow(epsilon * n_parties, _POWER)), 2 * n_classes)
    return max(1, min(wanted, n_rows // _ROWS_OF_A_CELL, _MOST))


# --- parties whose rows are here ------------------------------------------------------------------

OnFaulty = Literal["leave-out", "refuse"]

#: How many parties a message names.
_NAMED = 10

logger = logging.getLogger("confrere.methods")


@dataclass(frozen=True, kw_only=True, eq=False)
class Parties(LabelledTable):
    """Whose every row has a party; a class of -1 is undeclared."""

    ids: Words  #: Of the parties, sorted as their rows are
    offsets: NDArray[np.int64]  #: Where each party's rows begin: of one that is left out, none
    faults: Mapping[int, str]  #: What is wrong with a party, by its position
    #: The sum of their votes, if it was taken already: code of others may fail on anything, so it
    #: runs before anything is spent.
    total: Sent | None = None

    def __len__(self) -> int:
        return len(self.ids)


def dense(rows: object) -> NDArray[np.float64]:
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)


def group_rows(
    X: Any, y: Words, party: ArrayLike | None, classes: Words, features: Sequence[str]
) -> Parties:
    """Return the parties of stacked rows; without ``party`` every row is a party of its own."""
    ids, owners = party_codes(np.arange(X.shape[0]) if party is None else party, X.shape[0])
    codes = _codes(y, classes)
    faults = dict.fromkeys(owners[codes < 0].tolist(), "y has labels outside classes")
    with np.errstate(invalid="ignore"):  # NaN is not zero
        lost = X * 0.0 if hasattr(X, "indptr") else ~np.isfinite(X)
        odd = owners[np.ravel(lost.sum(axis=1)) != 0].tolist()
    faults |= dict.fromkeys(odd, "X has NaN, infinite or non-numeric values")
    sound = ~np.isin(owners, [*faults])
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owners[sound], minlength=len(ids)))])
    order = np.argsort(owners, kind="stable")
    order = order[sound[order]]
    told = X[order], codes[order], classes, features
    return Parties(*told, ids=ids, offsets=offsets, faults=faults)


def apply_policy(parties: Parties, on_faulty: OnFaulty) -> None:
    if not parties.faults:
        return
    faults, names = parties.faults, parties.ids
    shown = [f"party {names[k]!s}: {why}" for k, why in sorted(faults.items())]
    more = [f"and {len(faults) - _NAMED} more"] * (len(faults) > _NAMED)
    named = "; ".join([*shown[:_NAMED], *more])
    if on_faulty == "refuse":
        raise InvalidData(f"{named}. Repair the data, or set on_faulty='leave-out'.")
    logger.warning("left out %d of %d parties: %s", len(parties.faults), len(parties), named)


def _codes(y: Words, classes: Words) -> NDArray[np.intp]:
    try:
        codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    except TypeError:
        return np.full(len(y), -1, dtype=np.intp)
    return np.where(classes[codes] == y, codes, -1)


@dataclass(frozen=True, kw_only=True, eq=False)
class MultipartyPlan(Plan[tuple[Linear, Floats | None]]):
    """So many parties, and who is trusted to add up what they send, or nobody."""

    voting: Voting  #: What is made of what parties send, of which number of them
    local: Any = None  #: What parties train; None is logistic regression, all parties at once
    on_faulty: OnFaulty = "leave-out"  #: Parties whose local classifier fails

    def guarantee(self) -> Guarantee:
        return self.voting.guarantee()

    def run(self, data: Parties, source: RandomSource) -> tuple[Linear, Floats | None]:
        plan = self.voting

        def answer(ask: Ask) -> Told:
            few = plan.n_parties < MANY
            if plan.trust == "sum" and few and data.total is None:  # as between machines
                stream = source.stream(ask.asked.operation, ask.step)
                parts = zip(ask.to, self._parts(data), strict=True)
                ((total,),) = stream.draw(plan.shared, parts)
                return Told((), {"sum": total})
            return Told((), {"noised": plan.noised(self.total(data), source)})

        released = drive(plan.steps([str(name) for name in data.ids]), answer)
        return self.model(released, data.names), released.statistic

    def model(self, released: Released, names: Names) -> Linear:
        frame, auxiliary = self.voting.frame, self.voting.auxiliary
        facts = Facts(
            method=self.voting.method,
            parties=self.voting.n_parties,
            alpha=float(released.alpha),
            n_auxiliary=None if auxiliary is None else len(auxiliary),
        )
        target = Target(loss_of(len(names.classes)))
        return linear_model(frame, released.weights, facts, names, target)

    def terms(self, data: Parties) -> list[Term]:
        if self.local is not None:
            raise InvalidParameter(
                "local: only built-in classifiers of parties are audited this way."
            )
        plan, made = self.voting, self.voting.mechanism
        return [Term(plan.method, made.noise, made.value(*plan.inputs(self.total(data))))]

    @property
    def batched(self) -> bool:
        # Other classifiers of parties are trained anew for every run.
        return self.local is None and self.voting.n_classes == 2

    def _each(self, data: Parties) -> Iterator[Sent | None]:
        """Yield every party's weights or shares, or nothing if it is left out."""
        codes, ends = np.asarray(data.codes, dtype=np.intp), data.offsets
        with progress_bar("parties", len(data)) as step:
            for k in range(0, len(data), BALLOT):
                yield from self.voting.learned(data.X, codes, ends[k : k + BALLOT + 1])
                step(k)

    def _parts(self, data: Parties) -> Iterator[Floats]:
        made = self.voting.mechanism
        for own in self._each(data):
            yield np.zeros(made.size) if own is None else made.part(self.voting.sent(own))

    def total(self, data: Parties) -> Sent:
        """Return what parties send, added up; without noise, so not for anyone to see."""
        plan, made, each = self.voting, self.voting.mechanism, self._each(data)
        if data.total is not None:
            return data.total
        total = np.zeros(made.shape, dtype=np.int64 if plan.votes else np.float64)
        if self.local is not None:
            each = map(np.asarray, local_ballots(data, plan.auxiliary, self.local, self.on_faulty))
        elif plan.votes:
            # Who is left out keeps a place: weights of zero tie, and vote for the first class.
            nothing = np.zeros(loss_of(plan.n_classes).weight_shape(plan.frame.size))
            while some := list(islice(each, BALLOT)):
                W = np.array([nothing if own is None else own for own in some])
                total += count_votes(W, plan.rows)
                total[:, 0] -= sum(own is None for own in some)
            return total
        for upload in each:
            if upload is not None:
                total += made.clipped(upload)
        return total


def local_ballots(
    parties: Parties, auxiliary: Any, local: object, on_faulty: OnFaulty
) -> Iterator[ArrayLike]:
    """Fit a classifier of any kind on each party's rows and yield its votes."""
    classes, failed, trained = parties.classes, [], 0
    with progress_bar("local classifiers", len(parties)) as step:
        for k, name in enumerate(parties.ids):
            step(k)
            own = slice(*parties.offsets[k : k + 2])
            codes = parties.codes[own]
            if k in parties.faults:
                continue
            if np.all(codes == codes[0]):
                yield np.full(auxiliary.shape[0], codes[0])
                continue
            model = local_of(local, k, len(parties), name)
            try:
                model.fit(parties.X[own], classes[codes])
                ballot = encode_labels(np.asarray(model.predict(auxiliary)), classes)
            except Exception as error:
                kind = type(error).__name__
                if on_faulty == "refuse":
                    why = f"party {name!s}: its local classifier failed ({kind})."
                    raise InvalidData(why) from error
                failed.append(f"party {name!s}: {kind}")
                continue
            trained += 1
            yield ballot
    if failed and not trained:
        raise InvalidData(f"local: every party's classifier failed; the first is {failed[0]}.")
    if failed:
        logger.warning("left out %d whose local classifier failed: %s", len(failed), failed[:10])


def local_of(local: Any, position: int, n_parties: int, name: object) -> Any:
    if isinstance(local, list | tuple):
        chosen = local[position] if len(local) == n_parties else None
    else:
        chosen = local(name) if callable(local) and not hasattr(local, "fit") else local
    if not (hasattr(chosen, "fit") and hasattr(chosen, "predict")):
        raise InvalidParameter(
            "local must be a classifier, one for every party, or party -> classifier."
        )
    return clone(chosen)
