"""A model of what many parties send: votes on auxiliary rows, clipped weights, shares of cells.

Each is a bounded vector, of which all parties' total is noised: docs/proofs/multiparty.md.

It is added up in blocks. Blocks are made of public numbers only (parties, auxiliary rows, classes),
and a faulty party keeps its place in them: no party's data decide in which company another's floats
are computed. A fault is found within a party's own data, so it never changes what another sends;
which parties are faulty is logged or raised here, inside, and not released.

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

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import lambertw
from sklearn.base import clone
from typing_extensions import override

from confrere.arrays import Floats
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
    check_positive,
)
from confrere.kernel.norms import certify_rows
from confrere.kernel.streams import RandomSource
from confrere.mechanisms.measurements import (
    TOLERANCE,
    Part,
    Point,
    SecureSum,
    coordinate_rounding,
    coordinates,
    from_coordinates,
    sum_assumptions,
)
from confrere.methods.allowance import Alpha
from confrere.methods.asking import (
    MANY,
    Ask,
    Asked,
    Colluding,
    Protocol,
    Told,
    check_tries,
    colluders_of,
    drive,
    fewest_of,
    party_codes,
)
from confrere.methods.plan import Names, Plan, Term, linear_model
from confrere.methods.public_cells import Cells, HalfWhite
from confrere.model import Facts, Linear
from confrere.solver.certificate import smallest_tolerance
from confrere.solver.descent import minimise
from confrere.solver.parties import solve_parties
from confrere.views import progress_bar

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Sent = NDArray[Any]  #: Weights, shares of cells, or votes
Trust = Literal["coordinator", "sum"]
Method = Literal["statistic", "cells", "soft", "vote", "weights"]
Radius = Literal["ellipsoid", "spectral", "unit"]

_EPS = float(np.finfo(np.float64).eps)

# --- votes on auxiliary rows ----------------------------------------------------------------------

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
    stacked = W[:, None] if W.ndim == 2 else W
    votes = np.zeros((max(2, stacked.shape[1]), len(rows)), dtype=np.int64)
    for first in range(0, len(W), BALLOT):
        some = stacked[first : first + BALLOT]
        # A model's votes do not depend on its size: a power of two, which changes no digit, brings
        # its largest weight near one, where no score overflows or vanishes.
        _, exponents = np.frexp(np.abs(some).max(axis=(1, 2)))
        scaled = np.ldexp(some, -exponents[:, None, None])
        models = np.ascontiguousarray(scaled.transpose(1, 0, 2), dtype=np.float64)
        for start in range(0, len(rows), block):
            part = rows[start : start + block]
            scores = models.reshape(-1, models.shape[2]) @ part.T
            _poll(scores.reshape(*models.shape[:2], len(part)), votes[:, start : start + block])
    return votes[1] if W.ndim == 2 else np.ascontiguousarray(votes.T)


def _poll(scores: Floats, votes: Integers) -> None:
    """Add one ballot's votes; scores have shape (n_classes, n_models, n_rows)."""

    def count(chosen: Flags) -> NDArray[np.uint8]:
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
        if self.votes.ndim == 1:
            return np.asarray((2 * self.votes >= self.counted).astype(np.float64))
        return np.asarray(np.eye(self.n_classes)[np.argmax(self.votes, axis=1)])


# --- the model of votes ---------------------------------------------------------------------------


def vote_statistic(X: NDArray[np.floating], fractions: Floats) -> Floats:
    """Return ``s = (1/N) sum_i alpha_i x_i``, the only way in which the parties enter the risk."""
    if len(X) == 0 or len(X) != len(fractions):
        raise InvalidData("X and the fractions must have the same number of rows, at least one.")
    return np.asarray(fractions.T @ X.astype(np.float64, copy=False) / len(X))


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
    linear = -n_rows * (statistic if two else _centred(X, statistic))
    if not two:
        # What turns the summed loss of class 0 into the weighted risk, with columns that sum to
        # zero: the first class takes the rows, all share the even split.
        total = X.sum(axis=0)
        linear -= total / len(statistic)
        linear[0] += total
        linear = linear - linear.mean(axis=0)
    W = minimise(
        X,
        np.full(n_rows, -1.0 if two else 0.0),
        loss_of(2 if two else len(statistic)),
        ridge=n_rows * alpha,
        linear=linear,
        tolerance=tolerance,
    )
    return W if two else np.asarray(W - W.mean(axis=0))


def weighted_tolerance(
    n_rows: int, n_features: int, *, alpha: float, statistic_norm: float = 1.0, n_classes: int = 2
) -> float:
    """Return the smallest tolerance that any statistic of at most this norm allows."""
    # For K classes the mean of x comes on top of the centred statistic.
    longest = n_rows * (statistic_norm if n_classes == 2 else statistic_norm + 1)
    return smallest_tolerance(
        n_rows, n_features, ridge=n_rows * alpha, linear_norm=longest, n_classes=n_classes
    )


def _statistic_rounding(n_rows: int) -> float:
    """Bound the error, in norm, of a statistic that was summed in floats in any order."""
    return 2 * (n_rows + 8) * 2.0**-53


def _centred(X: Floats, statistic: Floats) -> Floats:
    """Return the statistic less what it would be if every vote were split evenly."""
    share = 2 if statistic.ndim == 1 else len(statistic)
    return np.asarray(statistic - X.mean(axis=0) / share)


#: The ridges that :func:`ridge_under_noise` chooses from.
_RIDGES = np.geomspace(1e-5, 1.0, 81)


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
    seen = np.atleast_2d(_centred(X, statistic) @ vectors)
    signal = (seen**2).sum(axis=0) - noise
    ridges = _RIDGES[:, None]
    cost = steepness * (noise + signal * (ridges / steepness) ** 2) / (steepness + ridges) ** 2
    return float(_RIDGES[np.argmin(cost.sum(axis=1))])


# --- how far a party moves what is computed -------------------------------------------------------

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


def statistic_sensitivity(n_parties: int, *, n_classes: int = 2, radius: float = 1.0) -> float:
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


# --- totals, and the noise on them ----------------------------------------------------------------

#: What a party has to give away among cells and classes, in whole numbers: then sums are exact.
WHOLE = 2**16

#: Squared axes of the ellipsoid are raised by this share of the longest.
_FLATTEST = 1e-6


_OWN = "what a party sends depends on its own data alone"
_COORDINATOR = "whoever adds up what parties send adds the noise, and keeps the sums to itself"


class _Kind(NamedTuple):
    """What parties send by a method, and why noise on the total of it is private."""

    operation: str  #: How a coordinator who is trusted asks for it
    theorem: str


_KINDS: dict[Method, _Kind] = {
    "statistic": _Kind("ballot", "docs/proofs/statistic.md"),
    "cells": _Kind("shares", "docs/proofs/cells.md"),
    "soft": _Kind("ballot", "docs/proofs/multiparty.md"),
    "vote": _Kind("ballot", "docs/proofs/multiparty.md"),
    "weights": _Kind("upload", "docs/proofs/party_average.md"),
}


@dataclass(frozen=True, kw_only=True)
class PartyBudget:
    """What a release may cost whole parties, and who makes its noise."""

    epsilon: float
    n_parties: int  #: Public number M of parties
    n_classes: int = 2
    #: How many parties may pool what they know: the shares of the others make the noise. 0: a
    #: trusted coordinator adds it.
    colluding: int = 0
    fewest: int | None = None  #: Of shares: the fewest parties of a sum; all of them by default
    releases: int = 1  #: Of shares: how many sums the price is for
    delta: float = 0.0  #: With one the noise is Gaussian

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        _check_sizes(self.n_parties, self.n_classes - 1)
        if self.delta:
            check_delta(self.delta, self.n_parties, "party")

    def promise(self, method: Method, *, jointly: bool = False) -> Guarantee:
        """Return the price; ``jointly``: one auxiliary row may change together with the party."""
        auxiliary = "number of auxiliary rows" if jointly else "auxiliary rows"
        known = () if method == "weights" else (auxiliary,)
        trusted: tuple[str, ...] = (_COORDINATOR, FLOATS, RANDOM)
        if self.colluding:
            trusted = sum_assumptions(self.colluding, self.n_parties)
        also = ("one auxiliary row may change together with the party",) if jointly else ()
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            unit=Unit.PARTY,
            neighbours=Neighbours.REPLACE_ONE,
            theorem=_KINDS[method].theorem,
            public=("number of parties", *FACTS, *known),
            assumptions=(_OWN, *trusted, *also),
        )


def _check_sizes(*sizes: int) -> None:
    if min(sizes) < 1:
        raise InvalidData("needed are at least one party, row, column and cell, and two classes.")


@dataclass(frozen=True, kw_only=True, eq=False)
class PartyTotal:
    """A total to which every party adds a bounded part, with noise on it.

    What parties send, how long that is and how far one of them moves the total are data; so is what
    turns the noised total into what is wanted, which is post-processing.
    """

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
    #: From one party's upload to what it adds to a sum, where nobody has to see all of them.
    part: Callable[[Sent], Floats] | None = None
    #: From uploads, one per party, to what is added up: none moves it further than it may.
    clipped: Callable[[Sent], Sent] = np.asarray
    shape: tuple[int, ...] = ()  #: Of one upload
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
    def n_classes(self) -> int:
        """Number of classes."""
        return self.budget.n_classes

    @property
    def sensitivity(self) -> float:
        """Largest move of the computed total between neighbours, in the noise's norm."""
        return self.moved + self.off + self.rounding

    @property
    def deviation(self) -> float:
        """Standard deviation of one coordinate of the noise."""
        noise = self.noise
        one = noise.deviations[0] if isinstance(noise, Point) else noise.deviation
        return one / self.unit

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""
        return self.budget.promise(self.method, jointly=self.jointly)

    @cached_property
    def noise(self) -> Point | SecureSum:
        """Noise that a trusted coordinator adds, or that is made of the parties' shares."""
        budget, whole = self.budget, self.method == "cells"
        if not budget.colluding:
            parts = () if whole else (Part(self.size, self.reach),)
            return Point(promise=self.guarantee(), sensitivity=self.sensitivity, parts=parts)
        return SecureSum(
            epsilon=budget.epsilon,
            law="integer" if whole else "l2",
            delta=budget.delta,
            size=self.size,
            sensitivity=self.sensitivity,
            n_parties=budget.n_parties,
            fewest=budget.fewest,
            colluding=budget.colluding,
            releases=budget.releases,
            largest=self.largest,
            unit=Unit.PARTY,
        )

    def of_parts(self, released: Floats) -> Floats:
        """Return what the noised sum of all parts says; who is not there is split, or zero."""
        (found,) = self.turned(released[None])
        return np.asarray(found if self.split is None else found + self.split)


def _check_tally(budget: PartyBudget, tally: Tally) -> None:
    if (tally.n_parties, tally.n_classes) != (budget.n_parties, budget.n_classes):
        raise InvalidData("the tally is of other parties or classes than were declared.")


def _check_total(total: Sent, shape: tuple[int, ...], *, clipped: bool) -> None:
    if total.shape != shape:
        raise InvalidData("the sum of the uploads does not have the shape of one.")
    if not clipped:
        raise InvalidData("the uploads were not clipped before they were added up.")


def noised_average(
    budget: PartyBudget,
    *,
    n_features: int,  # Number of columns of an upload
    alpha: float,  # Ridge of the parties' own problems, on the mean loss
    normalise: bool = False,  # Average directions: every upload is brought to norm one
) -> PartyTotal:
    """Clip the weights that parties upload, divide their sum by all parties' number, add noise.

    A party that is left out counts as zero; more than two classes have a K x d matrix whose columns
    sum to zero.
    """
    _check_sizes(n_features)
    check_bound(alpha, "alpha")
    k, count = budget.n_classes, budget.n_parties
    norm = 1.0 if normalise else largest_norm(alpha, k)
    shape = (n_features,) if k == 2 else (k, n_features)

    def clipped(uploads: Floats) -> Floats:
        """Return uploads as they are added up: none is longer than the norm."""
        if uploads.shape[1:] != shape or not np.all(np.isfinite(uploads)):
            raise InvalidData("an upload must be finite, with one number per weight.")
        if uploads.ndim == 3:
            with np.errstate(over="ignore", invalid="ignore"):
                uploads = uploads - uploads.mean(axis=1, keepdims=True)
        flat = into_ball(uploads.reshape(len(uploads), -1), norm, unit=normalise)
        return np.asarray(norm * flat).reshape(uploads.shape)

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
        part=lambda upload: coordinates(clipped(upload[None])[0] / count),
        clipped=clipped,
        shape=shape,
        turned=lambda released: from_coordinates(released, k),
        alpha=alpha,
    )


def noised_cells(budget: PartyBudget, *, n_cells: int) -> PartyTotal:
    """Add up how every party's rows are shared over cells and classes, then add integer noise.

    A party that is left out counts as zero.
    """
    _check_sizes(n_cells)
    shape, every = (n_cells, budget.n_classes), WHOLE * budget.n_parties

    def clipped(uploads: Sent) -> Integers:
        """Return what parties sent as it is added up; what nobody can have, counts as nothing."""
        if uploads.shape[1:] != shape or not np.issubdtype(uploads.dtype, np.integer):
            raise InvalidData("an upload must hold one whole number per cell and class.")
        # In floats, a sum of huge numbers is not a small one again.
        fits = (uploads >= 0).all(axis=(1, 2)) & (
            uploads.sum(axis=(1, 2), dtype=np.float64) <= WHOLE
        )
        return np.where(fits[:, None, None], uploads, 0).astype(np.int64)

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
        part=lambda upload: clipped(upload[None])[0].ravel().astype(np.float64),
        clipped=clipped,
        shape=shape,
        turned=lambda released: released.reshape(-1, *shape) / every,
        unit=every,
    )


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


def noised_statistic(
    budget: PartyBudget,
    *,
    rows: Floats,  # Public auxiliary rows in the unit ball
    # Shape of the noise. A party moves s by ``X'delta/N`` with ``|delta_i| <= 1/M``: within the
    # ellipsoid of ``X'X/N``, within a ball around it, or within the ball that any rows allow.
    radius: Radius = "ellipsoid",
) -> PartyTotal:
    """Release ``s = (1/N) sum_i alpha_i x_i`` with noise; whatever follows is post-processing.

    Noise and output step are in units of the axes, of more classes where columns sum to zero.
    """
    if rows.ndim != 2:
        raise InvalidData("auxiliary must be a table of rows.")
    _check_sizes(*rows.shape)
    certify_rows(rows)
    if not np.any(rows):
        raise InvalidData("auxiliary has rows of zeros only: votes on them say nothing.")
    k, (n_rows, size) = budget.n_classes, rows.shape
    axes, directions, slack = _ellipsoid(rows, radius)
    least = float(axes.min())
    # The ellipsoid's symmetric root, and its inverse, are unique, where directions of one length
    # are not: parties on different machines compute the same coordinates.
    root, inverse = (directions * axes) @ directions.T, (directions / axes) @ directions.T
    even = np.asarray(rows.mean(axis=0) / k)
    # Summing, and then a product with the inverse root.
    off = _statistic_rounding(n_rows) + _statistic_rounding(size) + coordinate_rounding(1.0, k)

    def value(tally: Tally) -> Floats:
        _check_tally(budget, tally)
        return coordinates(vote_statistic(rows, tally.fractions) @ inverse)

    def part(ballot: Flags | Integers) -> Floats:
        """Return one party's votes, less an even split; of more classes a ballot holds codes."""
        votes = ballot.astype(np.float64) if k == 2 else np.eye(k)[ballot]
        return coordinates(vote_statistic(rows, votes - 1 / k) @ inverse) / budget.n_parties

    def turned(released: Floats) -> Floats:
        statistics = np.asarray(from_coordinates(released, k) @ root)
        # Of more classes the columns' sums are the mean of x, public.
        return statistics if k == 2 else statistics + even

    return PartyTotal(
        budget=budget,
        method="statistic",
        size=size * (k - 1),
        value=value,
        moved=statistic_sensitivity(budget.n_parties, n_classes=k) * (1 + slack),
        off=2 * off / least,
        reach=2 / least,
        largest=2 / least / budget.n_parties,
        part=part,
        turned=turned,
        split=even if k == 2 else None,
        axes=(axes, directions),
    )


def _ellipsoid(rows: Floats, radius: Radius) -> tuple[Floats, Floats, float]:
    """Return axes and directions of the noise, and by which share a move may be outside."""
    size, slack = rows.shape[1], 0.0
    if radius != "ellipsoid":
        axes, directions = np.full(size, auxiliary_radius(rows, radius)), np.eye(size)
    else:
        gram = np.asarray(rows.T @ rows / len(rows))
        # Bound on the error of the computed squared axes, over the longest.
        error = 8 * sum(rows.shape) * _EPS * float(np.trace(gram) / np.linalg.norm(gram, 2))
        values, directions = np.linalg.eigh(gram)
        # Longer axes contain the ellipsoid: a floor under the flat ones costs a hair, and keeps
        # rounding small in its norm.
        floor = max(_FLATTEST, 4 * error)
        axes, slack = np.sqrt(np.maximum(values, 0.0) + floor * values[-1]), error / floor
    # The computed inverse root is off by d^2 roundings of its largest entry at the most.
    return axes, directions, slack + 2 * size**2 * _EPS * float(axes.max() / axes.min())


def statistic_model(
    made: PartyTotal, rows: Floats, noised: Floats, alpha: float | None
) -> tuple[Floats, float]:
    """Return the weights of a noised statistic, and their ridge, which it may choose."""
    if alpha is None:
        assert made.axes is not None
        alpha = ridge_under_noise(rows, noised, *made.axes, made.deviation)
    smallest = weighted_tolerance(
        *rows.shape,
        alpha=alpha,
        statistic_norm=float(np.linalg.norm(noised)),
        n_classes=made.n_classes,
    )
    tolerance = max(TOLERANCE * len(rows), 2 * smallest)
    return minimise_weighted(rows, noised, alpha=alpha, tolerance=tolerance), alpha


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

    def value(tally: Tally, rows: Floats) -> Floats:
        _check_tally(budget, tally)
        if rows.shape != (n_auxiliary, n_features):
            raise InvalidData("auxiliary does not have the declared number of rows and columns.")
        certify_rows(rows)
        statistic = vote_statistic(rows, tally.fractions if labels == "soft" else tally.majority)
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
        turned=lambda released: from_coordinates(released, k),
        alpha=alpha,
        tolerance=tolerance,
    )


# --- the protocol ---------------------------------------------------------------------------------

#: Weights of about this length are expected where a ridge is chosen before anything is seen.
_EXPECTED_NORM = 5.0

#: Ridge of the parties' own problems: their length is bounded, and directions hardly suffer.
_AVERAGE_ALPHA = 1e-2

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


@dataclass(frozen=True, eq=False)
class Polled(Asked):
    """What every party sends to be added up: to a sum, or to who is trusted to add the noise."""

    voting: Voting
    n_parties: int

    @property
    @override
    def operation(self) -> str:
        return "party_share" if self.voting.trust == "sum" else _KINDS[self.voting.method].operation


@dataclass(frozen=True, kw_only=True, eq=False)
class Voting:
    """How a model is made of what parties send, and what it costs them."""

    frame: Frame  #: The public coordinates, in L2
    epsilon: float  #: The price, for each whole party
    #: Noise on the votes' statistic; on the shares of classes in public cells; on the model of the
    #: votes' fractions, or of their majority; on the mean of the parties' weights.
    method: Method = "statistic"
    #: Unlabelled rows, as encoded, to vote on or ("cells") to learn with.
    auxiliary: Floats | None = None
    n_classes: int = 2
    alpha: Alpha = "auto"  #: Ridge of the released model; of the parties' own ones for "weights"
    local_alpha: float = 1e-4  #: Ridge of the classifiers that vote
    #: What noise owes to the public rows: see :func:`noised_statistic`. "soft" and "vote" take the
    #: spectral radius for an ellipsoid.
    radius: Radius = "ellipsoid"
    auxiliary_private: bool = False  #: Whether an auxiliary row may change together with a party
    normalise: bool = False  #: Average directions
    #: Who sees what parties send, and adds the noise: a coordinator whom they trust, or nobody.
    #: "soft" and "vote" noise a model, which no sum can do: they need the coordinator.
    trust: Trust = "coordinator"
    #: Of a sum: how many parties may pool what they know, by default a minority; how often one that
    #: came to nothing may be tried again at the price; what share of the parties it needs.
    colluding: Colluding = "auto"
    reserve: int = 0
    quorum: float = 1.0
    #: For "cells", as a party is told them; by default they are found in the auxiliary rows.
    partition: Cells | None = None
    delta: float = 0.0  #: With one the noise is Gaussian; not for "cells", whose noise is Laplace's

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_tries(self.reserve, self.quorum)
        check_positive(self.local_alpha, "local_alpha")
        if self.alpha != "auto":
            check_positive(self.alpha, "alpha")
        known = {"method": _KINDS, "radius": get_args(Radius), "trust": get_args(Trust)}
        for name, choices in known.items():
            if getattr(self, name) not in choices:
                raise InvalidParameter(f"{name} must be one of {', '.join(map(repr, choices))}.")
        if self.delta and self.method == "cells":
            theorem("point", "L1", self.delta)
        if self.frame.norm != "l2":
            raise InvalidParameter("votes are bounded in L2: use a frame with norm='l2'.")
        if self.trust == "sum" and self._noises_model:
            raise InvalidParameter(
                f"trust='sum': method={self.method!r} noises a model of all votes, which somebody "
                "has to see: use trust='coordinator', or method='statistic'."
            )
        if self.trust == "sum" and self.colluding != "auto" and self.colluding < 1:
            raise InvalidParameter(
                "colluding must be at least 1: every party knows its own share of the noise."
            )
        if self.normalise and self.method != "weights":
            raise InvalidParameter("normalise=True is for method='weights'.")
        if self.auxiliary_private and not self._noises_model:
            raise InvalidParameter(
                f"auxiliary_private=True: method={self.method!r} has no private auxiliary rows; "
                "use 'soft' or 'vote'."
            )

    @property
    def votes(self) -> bool:
        """Whether parties send votes, and not weights or shares."""
        return _KINDS[self.method].operation == "ballot"

    @property
    def _noises_model(self) -> bool:
        return self.method in ("soft", "vote")

    @cached_property
    def rows(self) -> Floats:
        """The auxiliary rows in the frame's coordinates."""
        if self.auxiliary is None or len(self.auxiliary) == 0:
            raise InvalidParameter(
                f"auxiliary must hold unlabelled rows: method={self.method!r} learns from them."
            )
        return self.frame.rows(self.auxiliary).written()

    def guarantee(self, n_parties: int = 2) -> Guarantee:
        """Return what one run promises every party; their number matters to a sum alone."""
        return self.budget(n_parties).promise(self.method, jointly=self.auxiliary_private)

    def check(self, n_parties: int) -> None:
        """Refuse, before anything is paid, what the mechanism would refuse."""
        _ = self.mechanism(n_parties).noise
        if self.method != "weights":
            _ = self.rows  # says so if there are none

    def shared(self, n_parties: int) -> SecureSum:
        """Return the sum of what so many parties send, where their shares make the noise."""
        noise = self.mechanism(n_parties).noise
        if not isinstance(noise, SecureSum):
            raise InvalidParameter("trust: a coordinator adds the noise; nobody has a share.")
        return noise

    @cached_property
    def _public(self) -> HalfWhite:
        """The public rows without the constant."""
        plain = self.rows[:, :-1] if self.frame.constant else self.rows
        return HalfWhite(np.ascontiguousarray(plain), self.frame.constant)

    @cached_property
    def _kept(self) -> tuple[dict[int, Cells], dict[int, PartyTotal]]:
        return {}, {}

    def cells(self, n_parties: int) -> Cells:
        """Return the public partition for so many parties, in the frame's coordinates."""
        if self.partition is not None:
            return self.partition
        count = cells_for(self.epsilon, n_parties, len(self.rows), self.n_classes)
        kept = self._kept[0]
        if count not in kept:
            found = self._public.cells(count)
            if self.frame.constant:
                found = Cells(np.pad(found.directions, ((0, 0), (0, 1))), found.offsets)
            kept[count] = found
        return kept[count]

    def budget(self, n_parties: int) -> PartyBudget:
        """Return what a release of so many parties may cost."""
        shared = self.trust == "sum"
        return PartyBudget(
            epsilon=self.epsilon,
            delta=self.delta,
            n_parties=n_parties,
            n_classes=self.n_classes,
            colluding=colluders_of(self.colluding, n_parties, self.quorum) if shared else 0,
            fewest=fewest_of(n_parties, self.quorum) if shared else None,
            releases=1 + self.reserve if shared else 1,
        )

    def mechanism(self, n_parties: int) -> PartyTotal:
        """Return what noises the total of what so many parties send."""
        kept = self._kept[1]
        if n_parties not in kept:
            kept[n_parties] = self._total(self.budget(n_parties))
        return kept[n_parties]

    def _total(self, budget: PartyBudget) -> PartyTotal:
        if self.method == "cells":
            return noised_cells(budget, n_cells=len(self.cells(budget.n_parties)))
        if self.method == "statistic":
            return noised_statistic(budget, rows=self.rows, radius=self.radius)
        size = self.frame.size
        if self.method == "weights":
            alpha = _AVERAGE_ALPHA if self.alpha == "auto" else float(self.alpha)
            return noised_average(budget, n_features=size, alpha=alpha, normalise=self.normalise)
        own = self.auxiliary_private or self.radius == "unit"
        return noised_votes(
            budget,
            n_auxiliary=len(self.rows),
            n_features=size,
            alpha=self.output_alpha(budget.n_parties),
            labels=self.method,
            radius=1.0 if own else auxiliary_radius(self.rows),
            auxiliary_private=self.auxiliary_private,
        )

    def steps(self, parties: Sequence[str]) -> Protocol[Released]:
        """Ask so many parties, and return what is made of the sum of what they send, noised."""
        count = len(parties)
        told = yield Ask(self.asked(count), dict.fromkeys(parties, 0))
        if "sum" not in told.arrays:
            return self.of_noised(told.arrays["noised"], count)
        return self.of_noised(self.mechanism(count).of_parts(told.arrays["sum"]), count)

    def asked(self, n_parties: int) -> Polled:
        """Return what so many parties are asked for."""
        return Polled(self, n_parties)

    def weights(
        self, X: Any, codes: NDArray[np.intp], offsets: NDArray[np.int64], n_parties: int
    ) -> tuple[Sent, Flags]:
        """Return weights, or shares of cells, of parties whose rows begin there; and who has any.

        Rows of parties that are solved together are one after the other.
        """
        rows = self.frame.rows(X).written()
        if self.method == "cells":
            cells = self.cells(n_parties)
            shape = (len(cells), self.n_classes)
            shares = shares_of_parties(cells.of(rows), codes, offsets, shape)
            return shares, np.ones(len(shares), dtype=bool)
        alpha = self.local_alpha if self.votes else self.mechanism(n_parties).alpha
        labels = np.where(codes == 1, 1, -1) if self.n_classes == 2 else codes
        found = solve_parties(rows, labels, offsets, loss_of(self.n_classes), alpha=alpha)
        return found.W, found.solved

    def sent(self, own: Sent) -> Sent:
        """Return what a party with these weights or shares sends: those, or its votes."""
        if not self.votes:
            return own
        votes = count_votes(own[None], self.rows)
        return votes > 0 if votes.ndim == 1 else np.argmax(votes, axis=1).astype(np.int64)

    def part(self, sent: Sent, there: bool, n_parties: int) -> Floats:
        """Return what a party adds to a sum; one that has nothing to send adds zeros."""
        summed = self.mechanism(n_parties)
        assert summed.part is not None
        return summed.part(sent) if there else np.zeros(summed.size)

    def inputs(self, sent: Tally | Floats) -> tuple[object, ...]:
        """Return what the mechanism takes: what parties sent, added up, and what it is about."""
        return (sent, self.rows) if self._noises_model else (sent,)

    def noised(self, sent: Tally | Floats, n_parties: int, *, source: RandomSource) -> Floats:
        """Return what parties sent, added up, with noise."""
        made = self.mechanism(n_parties)
        (noised,) = source.draw(made.noise, made.value(*self.inputs(sent)))
        return np.asarray(made.turned(noised)[0])

    def of_noised(self, noised: Floats, n_parties: int) -> Released:
        """Return the model: post-processing."""
        made, alpha = self.mechanism(n_parties), None if self.alpha == "auto" else self.alpha
        if self.method == "statistic":
            return Released(*statistic_model(made, self.rows, noised, alpha), noised)
        if self.method != "cells":
            return Released(noised, made.alpha)
        places = self.cells(n_parties).of(self.rows)
        told = self._public.model(places, noised, made.deviation, n_parties, alpha)
        return Released(*told, noised)

    def output_alpha(self, n_parties: int) -> float:
        """Return the ridge: noise of variance ~ 1/(M ridge eps)^2 against weights that shrink."""
        if self.alpha != "auto":
            return float(self.alpha)
        if self.method != "soft":
            n_parties = 1  # a majority is not quieter for being one of many
        # The least of (1/8d)E||noise||^2 + (ridge/2)||w||^2, with the identity's sensitivity.
        reach = n_parties * self.epsilon * _EXPECTED_NORM
        return float((self.frame.size / (2 * reach**2)) ** (1 / 3))


def cells_for(epsilon: float, n_parties: int, n_rows: int, n_classes: int) -> int:
    """Return how many cells there are, by public sizes alone.

    Noise on a share is the same whatever its cell's size, so its part in all grows with the number
    of cells; what lies within a cell is not seen, so detail grows with it, too.
    """
    wanted = max(math.ceil(_CELLS * math.pow(epsilon * n_parties, _POWER)), 2 * n_classes)
    return max(1, min(wanted, n_rows // _ROWS_OF_A_CELL, _MOST))


# --- parties whose rows are here ------------------------------------------------------------------

OnFaulty = Literal["leave-out", "refuse"]

NOT_FINITE = "X has NaN, infinite or non-numeric values"
UNDECLARED = "y has labels outside classes"
COLUMNS = "X has another number of columns"
LENGTHS = "X and y must be tables of the same number of rows, at least one"

#: How many parties a message names.
_NAMED = 10

#: Rows of a party that blocks are sized for; larger parties take more memory than asked for.
_ROWS = 32

#: Products of a weight and a value from which on a bar is shown.
_LONG = 5e9

logger = logging.getLogger("confrere.methods")


@dataclass(frozen=True, eq=False)
class Parties:
    """The parties in a fixed order, with their rows."""

    names: NDArray[Any]  #: Sorted, or in the order given
    X: Any  #: All rows, an array or CSR; those of faulty parties may be missing
    codes: NDArray[np.intp]  #: Class of every row, -1 if undeclared
    classes: NDArray[Any]  #: The declared labels, sorted
    order: NDArray[np.intp]  #: Positions of the rows, party by party
    offsets: NDArray[np.int64]  #: Where each party's rows begin in ``order``
    faults: Mapping[int, str]  #: What is wrong with a party, by its position
    features: Sequence[str] = ()  #: Names of the columns
    #: The sum of their votes, if it was taken already: code of others may fail on anything, so it
    #: runs before anything is spent.
    total: Tally | Floats | None = None

    def __len__(self) -> int:
        return len(self.names)

    def rows_of(self, positions: Sequence[int]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return where the rows of some parties are in ``X``, and where each party's begin."""
        parts = [self.order[self.offsets[k] : self.offsets[k + 1]] for k in positions]
        sizes = [len(part) for part in parts]
        return np.concatenate(parts), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def dense(rows: Any) -> NDArray[np.float64]:
    """Return rows as an array of doubles."""
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)


def group_rows(X: Any, y: NDArray[Any], party: ArrayLike | None, classes: NDArray[Any]) -> Parties:
    """Return the parties of stacked rows; without ``party`` every row is a party of its own."""
    names, owners = party_codes(np.arange(X.shape[0]) if party is None else party, X.shape[0])
    codes = _codes(y, classes)
    faults = {int(k): UNDECLARED for k in owners[codes < 0]}
    faults |= {int(k): NOT_FINITE for k in owners[~_usable_rows(X)]}
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(names)))])
    return Parties(names, X, codes, classes, np.argsort(owners, kind="stable"), offsets, faults)


def stack_tables(
    X: Sequence[Any],
    y: Sequence[Any],
    party: ArrayLike | None,
    classes: NDArray[Any],
    n_features: int | None,
) -> Parties:
    """Return the parties of separate tables; a table that does not fit is a fault."""
    names = np.arange(len(X)) if party is None else np.asarray(party)
    if len(y) != len(X) or names.shape != (len(X),) or len(np.unique(names)) != len(names):
        raise InvalidData("X, y and party must hold one table, labels and one name per party.")
    width = n_features or Counter((np.shape(table) or (0,))[-1] for table in X).most_common(1)[0][0]
    faults: dict[int, str] = {}
    kept: list[tuple[Floats, NDArray[np.intp]]] = []
    sizes = np.zeros(len(X), dtype=np.int64)
    for k, (table, labels) in enumerate(zip(X, y, strict=True)):
        try:
            kept.append(_checked_table(table, labels, width, classes))
            sizes[k] = len(kept[-1][1])
        except InvalidData as error:
            faults[k] = str(error)
    if not kept:
        raise InvalidData(f"no party has usable rows: {_named_faults(names, faults)}.")
    stacked, codes = map(np.concatenate, zip(*kept, strict=True))
    order, offsets = np.arange(len(stacked)), np.concatenate([[0], np.cumsum(sizes)])
    return Parties(names, stacked, codes, classes, order, offsets, faults)


def apply_policy(parties: Parties, on_faulty: OnFaulty) -> None:
    """Refuse faulty parties, or log that they are left out."""
    if not parties.faults:
        return
    named = _named_faults(parties.names, parties.faults)
    if on_faulty == "refuse":
        raise InvalidData(f"{named}. Repair the data, or set on_faulty='leave-out'.")
    logger.warning("left out %d of %d parties: %s", len(parties.faults), len(parties), named)


def _named_faults(names: NDArray[Any], faults: Mapping[int, str]) -> str:
    named = [f"party {names[k]!s}: {why}" for k, why in sorted(faults.items())[:_NAMED]]
    more = f"; and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
    return "; ".join(named) + more


def _codes(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the position of every label among the classes, -1 if it is not there."""
    try:
        codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    except TypeError:
        return np.full(len(y), -1, dtype=np.intp)
    return np.where(classes[codes] == y, codes, -1)


def _usable_rows(X: Any) -> Flags:
    if not hasattr(X, "indptr"):
        return np.asarray(np.isfinite(X).all(axis=1))
    owners = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    bad = owners[~np.isfinite(X.data)]
    return np.asarray(np.bincount(bad, minlength=X.shape[0]) == 0)


def _checked_table(
    table: Any, labels: Any, width: int, classes: NDArray[Any]
) -> tuple[Floats, NDArray[np.intp]]:
    """Return one party's rows and the codes of their labels, or refuse what is wrong with them."""
    try:
        rows = dense(table)
    except (TypeError, ValueError):
        raise InvalidData(NOT_FINITE) from None
    if rows.ndim != 2 or len(rows) == 0 or np.shape(labels) != (len(rows),):
        raise InvalidData(LENGTHS)
    if rows.shape[1] != width:
        raise InvalidData(COLUMNS)
    if not _usable_rows(rows).all():
        raise InvalidData(NOT_FINITE)
    codes = _codes(np.asarray(labels), classes)
    if np.any(codes < 0):
        raise InvalidData(UNDECLARED)
    return rows, codes


class MultipartyResult(NamedTuple):
    """A released model, and the noised statistic that it was made from, if there is one."""

    model: Linear
    statistic: Floats | None


@dataclass(frozen=True, kw_only=True, eq=False)
class MultipartyPlan(Plan[MultipartyResult]):
    """So many parties, and a coordinator that is trusted with what they send and adds the noise.

    With ``trust="sum"`` the parties' shares make the noise, and nobody has to see what they send.
    """

    voting: Voting  #: What is made of what parties send
    n_parties: int  #: Their public number
    local: Any = None  #: What parties train; None is logistic regression, all parties at once
    on_faulty: OnFaulty = "leave-out"  #: Parties whose local classifier fails
    memory: float = 256.0  #: Megabytes for what is computed in blocks

    @override
    def guarantee(self) -> Guarantee:
        return self.voting.guarantee(self.n_parties)

    @override
    def run(self, data: Parties, source: RandomSource) -> MultipartyResult:
        plan, count = self.voting, self.n_parties

        def answer(ask: Ask) -> Told:
            if plan.trust == "sum" and self._few and data.total is None:  # as between machines
                stream = source.stream(ask.asked.operation, ask.step)
                parts = zip(ask.to, self._parts(data), strict=True)
                ((total,),) = stream.draw(plan.shared(count), parts)
                return Told((), {"sum": total})
            return Told((), {"noised": plan.noised(self.total(data), count, source=source)})

        released = drive(plan.steps([str(name) for name in data.names]), answer)
        names = Names(tuple(data.classes.tolist()), tuple(data.features))
        return MultipartyResult(self.model(released, names), released.statistic)

    def model(self, released: Released, names: Names) -> Linear:
        """Return the model of what was made of the noised sum."""
        frame, auxiliary = self.voting.frame, self.voting.auxiliary
        facts = Facts(
            method=self.voting.method,
            parties=self.n_parties,
            alpha=float(released.alpha),
            n_auxiliary=None if auxiliary is None else len(auxiliary),
            **frame.learned_with(),
        )
        return linear_model(frame, released.weights, facts, names, loss_of(len(names.classes)))

    @override
    def terms(self, data: Parties) -> list[Term]:
        if self.local is not None:
            raise InvalidParameter(
                "local: only built-in classifiers of parties are audited this way."
            )
        plan, made = self.voting, self.voting.mechanism(self.n_parties)
        return [Term(plan.method, made.noise, made.value(*plan.inputs(self.total(data))))]

    @property
    @override
    def batched(self) -> bool:
        # Other classifiers of parties are trained anew for every run.
        return self.local is None and self.voting.n_classes == 2

    @property
    def _few(self) -> bool:
        """Whether every party is worked on by itself."""
        return self.n_parties < MANY

    @property
    def _block(self) -> int:
        """Parties that are solved together."""
        outputs = 1 if self.voting.n_classes == 2 else self.voting.n_classes
        each = 8 * self.voting.frame.size * (2 * _ROWS + 2 * outputs)
        most = BALLOT * max(1, min(10, int(self.memory * 2**19 / each / BALLOT)))
        return 1 if self._few else most

    def _each(self, data: Parties) -> Iterator[tuple[Sent, Flags]]:
        """Yield blocks of parties' weights or shares, zeros for those left out, and who is not."""
        plan, count, k, d = self.voting, len(data), self.voting.n_classes, self.voting.frame.size
        shape: tuple[int, ...] = (d,) if k == 2 else (k, d)
        if not plan.votes:
            shape = plan.mechanism(self.n_parties).shape
        kind = "i8" if plan.method == "cells" else "f8"
        values = len(plan.rows) if plan.votes else _ROWS * d
        with progress_bar("parties", count, shown=float(count) * values * d >= _LONG) as step:
            for first in range(0, count, self._block):
                last = min(first + self._block, count)
                W, there = np.zeros((last - first, *shape), kind), np.zeros(last - first, bool)
                sound = [at for at in range(first, last) if at not in data.faults]
                if sound:
                    where, offsets = data.rows_of(sound)
                    rows, codes = dense(data.X[where]), data.codes[where]
                    own = np.array(sound) - first
                    W[own], there[own] = plan.weights(rows, codes, offsets, self.n_parties)
                yield W, there
                step(last)

    def _parts(self, data: Parties) -> Iterator[Floats]:
        for (own,), (there,) in self._each(data):
            yield self.voting.part(self.voting.sent(own), bool(there), self.n_parties)

    def total(self, data: Parties) -> Tally | Floats:
        """Return what parties send, added up; without noise, so not for anyone to see.

        Votes, where who is left out is split; or clipped weights or shares, where it is zero.
        """
        plan, k, counted = self.voting, self.voting.n_classes, 0
        if data.total is not None:
            return data.total
        if self.local is not None:
            return tally_estimators(data, plan.auxiliary, self.local, on_faulty=self.on_faulty)
        if not plan.votes:
            made = plan.mechanism(self.n_parties)
            blocks = (made.clipped(block).sum(axis=0) for block, _ in self._each(data))
            return sum(blocks, start=np.zeros(made.shape))
        # Auxiliary rows that are voted on together.
        each = 2200 if k == 2 else 2000 * (k + 2)
        block = max(64, min(8192, int(self.memory * 2**19 / each)))
        votes = np.zeros((len(plan.rows), k)[: k - 1], dtype=np.int64)
        for W, there in self._each(data):
            votes += count_votes(W, plan.rows, block=block)
            counted += int(np.count_nonzero(there))
        if k > 2:
            # Weights of zero tie, and a tie is a vote for the first class.
            votes[:, 0] -= len(data) - counted
        return Tally(votes, counted, len(data))


def tally_estimators(parties: Parties, auxiliary: Any, local: Any, *, on_faulty: OnFaulty) -> Tally:
    """Fit a classifier of any kind on each party's rows and add up the votes.

    A party whose rows are of one class votes for it. One whose classifier fails is faulty too; if
    all fail, it is the classifier that is.
    """
    classes = parties.classes
    failed: list[str] = []
    trained = 0

    def ballots(step: Callable[[int], None]) -> Iterator[NDArray[np.intp]]:
        nonlocal trained
        for k in range(len(parties)):
            step(k)
            if k in parties.faults:
                continue
            where, _ = parties.rows_of([k])
            codes = parties.codes[where]
            if np.all(codes == codes[0]):
                yield np.full(auxiliary.shape[0], codes[0], dtype=np.intp)
                continue
            model = local_of(local, k, len(parties), parties.names[k])
            try:
                model.fit(parties.X[where], classes[codes])
                ballot = encode_labels(np.asarray(model.predict(auxiliary)), classes)
            except Exception as error:
                if on_faulty == "refuse":
                    raise InvalidData(
                        f"party {parties.names[k]!s}: its local classifier failed "
                        f"({type(error).__name__})."
                    ) from error
                failed.append(f"party {parties.names[k]!s}: {type(error).__name__}")
                continue
            trained += 1
            yield ballot

    with progress_bar("local classifiers", len(parties)) as step:
        votes, counted = accumulate_votes(
            ballots(step), n_rows=auxiliary.shape[0], n_classes=len(classes)
        )
    if failed and not trained:
        raise InvalidData(f"local: every party's classifier failed; the first is {failed[0]}.")
    if failed:
        logger.warning("left out %d whose local classifier failed: %s", len(failed), failed[:10])
    return Tally(votes, counted, len(parties))


def local_of(local: Any, position: int, n_parties: int, name: Any) -> Any:
    """Return the unfitted classifier of a party: one for all, one each, or as a rule says."""
    if isinstance(local, list | tuple):
        if len(local) != n_parties:
            raise InvalidParameter("local: a list must hold one classifier per party.")
        chosen = local[position]
    else:
        chosen = local(name) if callable(local) and not hasattr(local, "fit") else local
    if not (hasattr(chosen, "fit") and hasattr(chosen, "predict")):
        raise InvalidParameter(
            "local must be a classifier, a list of them, or party -> classifier."
        )
    return clone(chosen)
