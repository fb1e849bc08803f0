"""How far one party can move what an ensemble of parties releases (002; replace one party).

N auxiliary rows ``x_i`` with ``||x_i|| <= 1`` are labelled by M local classifiers; the released
weights minimise the mean logistic loss plus ``(lambda/2)||w||^2`` (``alpha`` in the code).

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
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import lambertw

from confrere.errors import InvalidData, InvalidParameter
from confrere.guarantee import check_positive

#: ``printed``: as the paper has it. ``identity``: by l'(t) + l'(-t) = -1. ``sharp``: by both the
#: identity and the largest norm, whichever is smaller.
Bound: TypeAlias = Literal["printed", "identity", "sharp"]

#: Results are raised by this share, more than what rounding may have taken off.
_ROUNDING = 1e-14


def largest_norm(alpha: float, n_classes: int = 2) -> float:
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

    Parameters
    ----------
    alpha : float
        Strength of the regulariser, on the mean loss.
    n_classes : int, default=2
        2 for one weight vector; more for a weight matrix with one row per class.
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


def vote_sensitivity(
    alpha: float,
    *,
    n_classes: int = 2,
    bound: Bound = "sharp",
    radius: float = 1.0,
    private_auxiliary: int | None = None,
) -> float:
    """Return the L2 sensitivity of the minimiser on majority-voted rows (002, Algorithm 1).

    Between M - 1 tied votes one party decides every label: this is :func:`soft_sensitivity` for
    a single party. Printed ``2/lambda``, by the identity ``1/lambda`` (K classes: ``sqrt2/lambda``
    both), and never more than ``2 R(lambda)``, which rows ``min(1, t*/R) e`` attain for two classes
    when all labels turn.

    Parameters
    ----------
    alpha, n_classes, bound, radius, private_auxiliary
        As for :func:`soft_sensitivity`.
    """
    return soft_sensitivity(
        alpha,
        1,
        n_classes=n_classes,
        bound=bound,
        radius=radius,
        private_auxiliary=private_auxiliary,
    )


def soft_sensitivity(
    alpha: float,
    n_parties: int,
    *,
    n_classes: int = 2,
    bound: Bound = "sharp",
    radius: float = 1.0,
    private_auxiliary: int | None = None,
) -> float:
    """Return the L2 sensitivity of the minimiser on rows with vote fractions (002, Algorithm 2).

    Printed ``2/(M lambda)``; by the identity ``radius/(M lambda)`` (K classes: ``sqrt2`` times
    that, as printed for radius 1), and never more than ``2 R(lambda)``.

    If one auxiliary row may change together with the party, its term of the gradient,
    ``(sigma - alpha_i) x_i``, moves by at most 2 instead of 1/M (K classes: ``2 sqrt2`` instead
    of ``sqrt2/M``), so the identity's bound grows by ``(N - 1 + 2M)/N`` and the printed one by
    ``(N - 1 + M)/N``.

    Parameters
    ----------
    alpha : float
        Strength of the regulariser, on the mean loss over the auxiliary rows.
    n_parties : int
        Number of parties M, public.
    n_classes : int, default=2
        2 for one weight vector; more for a weight matrix with one row per class.
    bound : {"printed", "identity", "sharp"}, default="sharp"
        Which bound.
    radius : float, default=1.0
        From :func:`auxiliary_radius`, if the auxiliary rows are public; not used by "printed".
    private_auxiliary : int, optional
        Number of auxiliary rows, if they are private too; the radius must be 1 then.
    """
    check_positive(alpha, "alpha")
    _check_parties(n_parties)
    _check_bound(bound, ("printed", "identity", "sharp"))
    _check_radius(radius)
    doubling = 1.0
    if bound == "printed":
        # The paper knew the identity for K classes only.
        doubling, radius = (2.0 if n_classes == 2 else 1.0), 1.0
    joint = 1.0
    if private_auxiliary is not None:
        if private_auxiliary < 1:
            raise InvalidParameter("private_auxiliary must be the number of auxiliary rows.")
        if radius != 1:
            raise InvalidParameter("radius must be 1 when the auxiliary rows are private.")
        joint = (private_auxiliary - 1 + 2 / doubling * n_parties) / private_auxiliary
    steepest = _raised(doubling * _move(n_classes) * radius * joint / (n_parties * alpha))
    if bound == "sharp":
        return min(steepest, 2 * largest_norm(alpha, n_classes))
    return steepest


def average_sensitivity(
    alpha: float, n_parties: int, *, n_classes: int = 2, bound: Bound = "sharp"
) -> float:
    """Return the L2 sensitivity of the mean of the parties' weights.

    Printed ``2/(M lambda)`` (K classes: ``2 sqrt2/(M lambda)``), from ``lambda ||w*|| <= 1``;
    sharp ``2 R(lambda)/M``, attained by a party that turns all its rows round. It holds for
    whatever a party uploads if every upload is clipped to ``R(lambda)``, which no honest one
    exceeds.

    Parameters
    ----------
    alpha : float
        Strength of the regulariser of the local problems, on the mean loss.
    n_parties : int
        Number of parties M, public.
    n_classes : int, default=2
        2 for one weight vector; more for a weight matrix with one row per class.
    bound : {"printed", "sharp"}, default="sharp"
        Which bound; the identity says nothing about rows that are replaced.
    """
    check_positive(alpha, "alpha")
    _check_parties(n_parties)
    _check_bound(bound, ("printed", "sharp"))
    if bound == "sharp":
        return 2 * largest_norm(alpha, n_classes) / n_parties
    return _raised(2 * _move(n_classes) / (n_parties * alpha))


def statistic_sensitivity(n_parties: int, *, n_classes: int = 2, radius: float = 1.0) -> float:
    """Return the L2 sensitivity of ``s = (1/N) sum_i alpha_i x_i``, the rows public.

    ``||X'delta||/N <= radius/M``; for K classes the matrix ``(1/N) sum_i alpha_i x_i'`` moves by
    at most ``sqrt2 radius/M`` in Frobenius norm, and its rows' sum, the mean of x, not at all.

    Parameters
    ----------
    n_parties : int
        Number of parties M, public.
    n_classes : int, default=2
        2 for the vector of +1's fractions; more for the matrix of all.
    radius : float, default=1.0
        From :func:`auxiliary_radius`.
    """
    _check_parties(n_parties)
    _check_radius(radius)
    return _raised(_move(n_classes) * radius / n_parties)


def auxiliary_radius(
    X: NDArray[np.floating], kind: Literal["unit", "spectral"] = "spectral"
) -> float:
    """Return how far votes that change by at most one per row can move ``X'alpha/N``.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Public auxiliary rows of norm at most 1.
    kind : {"unit", "spectral"}, default="spectral"
        "unit" is 1. "spectral" is the smaller of ``sqrt(lambda_max(X'X/N))`` and the mean norm of
        the rows, rounded up; rows that point in all directions have one near ``1/sqrt d``.
    """
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


def _check_bound(bound: str, known: tuple[str, ...]) -> None:
    if bound not in known:
        raise InvalidParameter(f"bound must be one of {', '.join(known)}.")


def _check_radius(radius: float) -> None:
    if not 0 <= radius <= 1:
        raise InvalidParameter("radius must lie between 0 and 1.")
