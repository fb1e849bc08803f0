"""What an ensemble of local classifiers says about auxiliary rows, and the model of its votes.

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
:mod:`confrere.maths.solver` minimises, with the votes in the linear term.

How far can one party move what is released (replace one party)? N auxiliary rows ``x_i`` with
``||x_i|| <= 1`` are labelled by M local classifiers; the released weights minimise the mean
logistic loss plus ``(lambda/2)||w||^2`` (``alpha`` in the code).

**Gradient.** For the logistic loss ``l'(t) + l'(-t) = -1``, so the gradient of the risk is
``(1/N) sum_i (sigma(w.x_i) - alpha_i) x_i + lambda w``, with ``alpha_i`` in [0, 1] the weight of +1
on row i. If a party moves ``alpha`` by ``delta``, the gradient moves by ``-X'delta/N`` whatever
``w`` is, and the minimiser by at most ``||X'delta||/(N lambda)``. A party casts one vote per row:
``|delta_i| <= 1/M`` for fractions, and ``|delta_i| <= 1`` for a majority, which a single vote can
turn on every row at once. For K classes ``delta_i`` is ``e_v - e_v'`` over M or 1, of norm sqrt 2.

**Radius.** ``||X'delta||/N <= radius max_i ||delta_i||``, where the radius may be 1, the mean of
``||x_i||``, or ``sqrt(lambda_max(X'X/N))``, as ``||X'delta|| <= ||X||_2 ||delta||`` and
``||delta|| <= sqrt N max_i ||delta_i||``. The last two look at the rows, which must be public then.

**Norm.** Whatever the data, no minimiser is longer than :func:`largest_norm`, so two of them are
never more than twice that apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import lambertw

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import check_positive
from confrere.maths.solver import minimise, minimise_softmax, smallest_tolerance

#: Models per block: their votes on a row are added up in one byte.
_BALLOT = 240

#: Scores of rows in the ball, by weights of at most one, that are this near are a tie.
_TIE = 2.0**-30


def count_votes(
    # Of shape (n_models, n_features) or (n_models, n_classes, n_features). A model votes
    # +1 where ``w.x > 0`` else -1, or for the first of the largest scores ``W x``.
    W: NDArray[np.floating],
    X: NDArray[np.floating],  # Of shape (n_rows, n_features). The auxiliary rows.
    *,
    block: int = 2048,  # Rows per block
    # Called with the number of models that have voted and the number of all.
    progress: Callable[[int, int], None] | None = None,
) -> NDArray[np.int64]:
    """Count the votes of linear classifiers on every row.

    The table of all scores never exists: memory is about ``2200 * block`` bytes
    (``2000 * block * (n_classes + 2)`` for more than two classes), and that of a copy of ``X`` if
    it is not of float64.

    Returns
    -------
    votes : ndarray of shape (n_rows,) or (n_rows, n_classes)
        Votes for +1, or for each class.
    """
    if W.ndim not in (2, 3) or X.ndim != 2 or W.shape[-1] != X.shape[1]:
        raise InvalidData("W and X must be matrices with the same number of features.")
    if W.ndim == 3 and W.shape[1] < 2:
        raise InvalidData("W must have scores for at least two classes.")
    if block < 1:
        raise InvalidParameter("block must be at least 1.")
    rows = np.ascontiguousarray(X, dtype=np.float64)
    n_models, n_rows = W.shape[0], rows.shape[0]
    n_classes = 2 if W.ndim == 2 else W.shape[1]
    votes = np.zeros((n_classes, n_rows), dtype=np.int64)
    for first in range(0, n_models, _BALLOT):
        models = _by_class(W[first : first + _BALLOT])
        size = models.shape[1]
        for start in range(0, n_rows, block):
            part = rows[start : start + block]
            scores = (models.reshape(-1, models.shape[2]) @ part.T).reshape(-1, size, len(part))
            _poll(scores, votes[:, start : start + block])
        if progress is not None:
            progress(first + size, n_models)
    return votes[1] if W.ndim == 2 else np.ascontiguousarray(votes.T)


def _by_class(W: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the weights, classes outside, one class if two share a vector.

    A model's votes do not depend on its size: a power of two, which changes no digit, brings its
    largest weight near one, where no score overflows or vanishes.
    """
    stacked = W[:, None] if W.ndim == 2 else W
    _, exponents = np.frexp(np.abs(stacked).max(axis=(1, 2)))
    scaled = np.ldexp(stacked, -exponents[:, None, None])
    return np.ascontiguousarray(scaled.transpose(1, 0, 2), dtype=np.float64)


def _poll(scores: NDArray[np.float64], votes: NDArray[np.int64]) -> None:
    """Add one ballot's votes; scores have shape (n_classes, n_models, n_rows)."""
    if len(scores) == 1:
        votes[1] += _tally(scores[0] > _TIE)
        return
    highest = scores.max(axis=0) - _TIE
    # Every model votes once, for the first class that reaches its highest score.
    free = np.ones(highest.shape, dtype=bool)
    for k in range(len(scores)):
        chosen = (scores[k] >= highest) & free
        free &= ~chosen
        votes[k] += _tally(chosen)


def _tally(chosen: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return np.asarray(np.add.reduce(chosen.view(np.uint8), axis=0, dtype=np.uint8))


def accumulate_votes(
    # Each of shape (n_rows,). One array of codes 0 to ``n_classes - 1`` per
    # party; with two classes, 1 stands for +1.
    ballots: Iterable[ArrayLike],
    *,
    n_rows: int,  # Number of auxiliary rows
    n_classes: int = 2,  # Number of classes
) -> tuple[NDArray[np.int64], int]:
    """Count votes that classifiers of any kind have cast as class codes.

    Returns
    -------
    votes : ndarray of shape (n_rows,) or (n_rows, n_classes)
        As :func:`count_votes` returns them.
    n_parties : int
        Number of ballots.
    """
    if n_classes < 2:
        raise InvalidParameter("n_classes must be at least 2.")
    votes = np.zeros((n_rows, n_classes), dtype=np.int64)
    every_row = np.arange(n_rows)
    n_parties = 0
    for ballot in ballots:
        codes = np.asarray(ballot)
        if codes.shape != (n_rows,) or not np.issubdtype(codes.dtype, np.integer):
            raise InvalidData("a ballot must hold one whole-numbered code per auxiliary row.")
        if n_rows and (codes.min() < 0 or codes.max() >= n_classes):
            raise InvalidData("a ballot's codes must lie between 0 and n_classes - 1.")
        votes[every_row, codes] += 1
        n_parties += 1
    return (votes[:, 1].copy() if n_classes == 2 else votes), n_parties


def majority_labels(votes: NDArray[np.int64], n_parties: int) -> NDArray[np.int64]:
    """Return -1 or +1 (+1 from half the votes on), or the code of the first class with most."""
    if votes.ndim == 1:
        return np.where(2 * votes >= n_parties, 1, -1)
    return np.asarray(np.argmax(votes, axis=1))


def vote_statistic(X: NDArray[np.floating], fractions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``s = (1/N) sum_i alpha_i x_i``, the only way in which the parties enter the risk.

    With ``log(1+exp(-t)) = log(1+exp(t)) - t`` the weighted risk (002, equation 19) is
    ``mean log(1 + exp(w.x)) - s.w + (lambda/2)||w||^2``; for K classes it is
    ``mean logsumexp(W x) - <S, W> + (lambda/2)||W||_F^2`` with ``S = (1/N) sum_i alpha_i x_i'``.

    Returns
    -------
    s : ndarray of shape (n_features,) or (n_classes, n_features)
        By the shape of ``fractions``; in float64.
    """
    if len(X) == 0 or len(X) != len(fractions):
        raise InvalidData("X and the fractions must have the same number of rows, at least one.")
    return np.asarray(fractions.T @ X.astype(np.float64, copy=False) / len(X))


@dataclass(frozen=True, eq=False)
class Tally:
    """How many parties voted for what on every auxiliary row.

    The number of parties is public and fixed. One that was left out counts as split evenly over
    the classes, so leaving it out moves a row by less than changing its vote would.
    """

    #: Of shape (n_rows,) or (n_rows, n_classes). Votes for the second of two classes,
    #: or for each.
    votes: NDArray[np.int64]
    counted: int  #: Parties that voted: one vote on every row each. Not public.
    n_parties: int  #: All parties

    def __post_init__(self) -> None:
        votes = self.votes
        if not 0 <= self.counted <= self.n_parties or self.n_parties < 1:
            raise InvalidData("a tally counts some of its parties, of which there is at least one.")
        if votes.ndim not in (1, 2) or not np.issubdtype(votes.dtype, np.integer):
            raise InvalidData("votes must be whole numbers, per row or per row and class.")
        if votes.size and (votes.min() < 0 or votes.max() > self.counted):
            raise InvalidData("a party votes once on every row.")
        if votes.ndim == 2 and not np.all(votes.sum(axis=1) == self.counted):
            raise InvalidData("a party votes once on every row.")

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return 2 if self.votes.ndim == 1 else int(self.votes.shape[1])

    @property
    def fractions(self) -> NDArray[np.float64]:
        """Share of all parties behind the second class, or behind each."""
        absent = (self.n_parties - self.counted) / self.n_classes
        return np.asarray((self.votes + absent) / self.n_parties)

    @property
    def majority(self) -> NDArray[np.float64]:
        """1 for the winner of a row and 0 for the others, in the shape of :attr:`fractions`.

        Of two classes the second wins a tie, of more the first of the tied.
        """
        winners = majority_labels(self.votes, self.counted)
        if self.votes.ndim == 1:
            return np.asarray((winners > 0).astype(np.float64))
        return np.eye(self.n_classes)[winners]


_UNIT_ROUNDOFF = 2.0**-53

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
    n_rows = len(X)
    ridge = n_rows * alpha
    if statistic.ndim == 1:
        linear = -n_rows * statistic
        labels = np.full(n_rows, -1.0)
        return minimise(X, labels, ridge=ridge, linear=linear, tolerance=tolerance).w
    n_classes = len(statistic)
    codes = np.zeros(n_rows, dtype=np.intp)
    solution = minimise_softmax(
        X, codes, n_classes, ridge=ridge, linear=_softmax_term(X, statistic), tolerance=tolerance
    )
    return np.asarray(solution.w - solution.w.mean(axis=0))


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
    return 2 * (n_rows + 8) * _UNIT_ROUNDOFF


def centred(X: Floats, statistic: Floats) -> Floats:
    """Return the statistic less what it would be if every vote were split evenly."""
    share = 2 if statistic.ndim == 1 else len(statistic)
    return np.asarray(statistic - X.mean(axis=0) / share)


def ridge_under_noise(
    X: Floats,  # Public auxiliary rows
    # With noise ``directions @ (axes * e)``, each coordinate of ``e`` of standard deviation
    # ``deviation``.
    statistic: Floats,
    # ``axes``, ``directions``: shape of the noise.
    axes: Floats,
    directions: Floats,
    deviation: float,  # Its size
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


def _softmax_term(X: Floats, statistic: Floats) -> Floats:
    """Return the linear term that turns the summed loss of class 0 into the weighted risk."""
    if X.shape[1] != statistic.shape[1]:
        raise InvalidData("the statistic must have one column per column of X.")
    total = X.sum(axis=0)
    n_classes = len(statistic)
    # Columns that sum to zero: the first class takes the rows, all share the even split.
    term = -len(X) * centred(X, statistic)
    term -= total / n_classes
    term[0] += total
    return np.asarray(term - term.mean(axis=0))


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
    check_positive(alpha, "alpha")
    _check_classes(n_classes)
    others = n_classes - 1
    # The largest margin that a unit of norm buys.
    reach = 1.0 if n_classes == 2 else math.sqrt(n_classes / others)
    peak = float(lambertw(others / math.e).real)
    free = math.sqrt(peak / alpha)
    if reach * free >= 1 + peak:
        return _raised(free)

    def slack(r: float) -> float:
        return alpha * r * (math.exp(reach * r) + others) - reach * others

    return _raised(float(brentq(slack, 0.0, 2 * free, xtol=1e-300, rtol=1e-15)))


def soft_sensitivity(
    alpha: float,  # Strength of the regulariser, on the mean loss over the auxiliary rows
    n_parties: int,  # Number of parties M, public
    *,
    n_classes: int = 2,  # 2 for one weight vector; more for a weight matrix with one row per class
    radius: float = 1.0,  # From :func:`auxiliary_radius`, if the auxiliary rows are public
    # Number of auxiliary rows, if they are private too; the radius must be 1 then.
    private_auxiliary: int | None = None,
) -> float:
    """Return the L2 sensitivity of the minimiser on rows with vote fractions (002, Algorithm 2).

    Between M - 1 tied votes one party decides every label of a majority (002, Algorithm 1): that
    is the case of a single party.

    By ``l'(t) + l'(-t) = -1`` it is ``radius/(M lambda)`` (K classes: ``sqrt2`` times that), and
    never more than ``2 R(lambda)``.

    If one auxiliary row may change together with the party, its term of the gradient,
    ``(sigma - alpha_i) x_i``, moves by at most 2 instead of 1/M (K classes: ``2 sqrt2`` instead
    of ``sqrt2/M``), so the bound grows by ``(N - 1 + 2M)/N``.
    """
    check_positive(alpha, "alpha")
    _check_parties(n_parties)
    _check_radius(radius)
    joint = 1.0
    if private_auxiliary is not None:
        if private_auxiliary < 1:
            raise InvalidParameter("private_auxiliary must be the number of auxiliary rows.")
        if radius != 1:
            raise InvalidParameter("radius must be 1 when the auxiliary rows are private.")
        joint = (private_auxiliary - 1 + 2 * n_parties) / private_auxiliary
    steepest = _raised(_move(n_classes) * radius * joint / (n_parties * alpha))
    return min(steepest, 2 * largest_norm(alpha, n_classes))


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
    _check_parties(n_parties)
    _check_radius(radius)
    return _raised(_move(n_classes) * radius / n_parties)


def auxiliary_radius(
    # Of shape (n_rows, n_features). Public auxiliary rows of norm at most 1.
    X: NDArray[np.floating],
    # "unit" is 1. "spectral" is the smaller of ``sqrt(lambda_max(X'X/N))`` and the mean norm of
    # the rows, rounded up; rows that point in all directions have one near ``1/sqrt d``.
    kind: Literal["unit", "spectral"] = "spectral",
) -> float:
    """Return how far votes that change by at most one per row can move ``X'alpha/N``."""
    if kind not in ("unit", "spectral"):
        raise InvalidParameter('kind must be "unit" or "spectral".')
    if X.ndim != 2 or X.size == 0:
        raise InvalidData("X must be a matrix with at least one row.")
    rows = X.astype(np.float64, copy=False)
    norms = np.linalg.norm(rows, axis=1)
    if not float(norms.max()) <= 1:
        raise InvalidData("X has rows longer than 1; clip them first.")
    if kind == "unit":
        return 1.0
    n_rows, n_features = rows.shape
    # What sums of so many products, and the eigenvalues of so large a matrix, may be off by.
    margin = 4 * (n_rows + n_features) * float(np.finfo(np.float64).eps)
    gram = rows.T @ rows if n_features <= n_rows else rows @ rows.T
    largest = float(np.linalg.eigvalsh(gram)[-1] + margin * np.trace(gram))
    return float(min(1.0, math.sqrt(largest / n_rows), norms.mean() * (1 + margin)))


def _move(n_classes: int) -> float:
    """Return the norm by which a vote that changes moves a row's weights of the classes."""
    _check_classes(n_classes)
    return 1.0 if n_classes == 2 else math.sqrt(2)


def _raised(value: float) -> float:
    return value * (1 + _ROUNDING)


def _check_classes(n_classes: int) -> None:
    if n_classes < 2:
        raise InvalidParameter("n_classes must be at least 2.")


def _check_parties(n_parties: int) -> None:
    if n_parties < 1:
        raise InvalidParameter("n_parties must be at least 1.")


def _check_radius(radius: float) -> None:
    if not 0 <= radius <= 1:
        raise InvalidParameter("radius must lie between 0 and 1.")
