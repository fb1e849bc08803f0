"""From a budget to a noise level: the accountant of logistic objective perturbation.

Objectives are sums, ``J(w) = sum_i l(y_i w.x_i) + (L/2)||w - u||^2 + b.w`` with rows of norm at
most ``q``, and the noise ``b`` has density proportional to ``exp(-rho ||b||)``. Write ``p`` for
the residual ``-l'`` of the changed record. Replacing it moves ``b(w)`` by at most ``q (p + p')``
and the Jacobian by a factor of at most ``1 + p(1-p) q^2 / L``, at the *same* ``p``; the loss of
privacy is

    eps(rho) = rho q kappa + max_{0 <= p <= kappa} [rho q p + log(1 + p(1-p) q^2 / L)]

where ``kappa`` caps the slope of the loss (1 for the logistic loss). The bracket is concave in
``p``, so its maximum has a closed form. See docs/proofs/objective_perturbation.md.

With more than two classes the objective is the multinomial one, ``sum_i [logsumexp(W x_i) -
W_{c_i}.x_i] + (L/2)||W||^2 + <B, W>`` with rows of norm at most ``q``. A record's gradient is ``(pi
- e_c) x'`` and its Hessian ``(diag(pi) - pi pi') x x'``; the Jacobian is paid at the same ``pi`` as
the noise. Two laws of noise are priced: one norm of the whole matrix, and a norm per class, which
needs less from four classes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from scipy.optimize import brentq

from confrere.errors import CalibrationError, InvalidParameter
from confrere.kernel.guarantee import Neighbours, check_epsilon, check_positive, check_relation


@dataclass(frozen=True, slots=True)
class RidgeTerm:
    """One perturbed objective: its ridge ``L``, row bound ``q``, slope cap and noise weight.

    ``weight`` multiplies the common ``rho``: noise of this objective has density
    ``exp(-rho weight ||b||)``.
    """

    ridge: float
    row_norm: float = 1.0
    cap: float = 1.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self.ridge, "ridge")
        check_positive(self.row_norm, "row_norm")
        check_positive(self.weight, "weight")
        if not 0.5 <= self.cap <= 1:
            raise InvalidParameter("cap must lie between 0.5 and 1.")


def worst_residual(r: float, m: float, cap: float = 1.0) -> float:
    """Return the maximiser in ``[0, cap]`` of ``r p + log(1 + p(1-p)/m)``.

    It solves ``r p^2 - (r-2) p - (r m + 1) = 0``; of the two forms of the root the one without
    cancellation is taken.
    """
    root = math.sqrt(r * r + 4 + 4 * r * r * m)
    p = (r - 2 + root) / (2 * r) if r > 2 else 2 * (r * m + 1) / (2 - r + root)
    return min(cap, p)


def _alone(neighbours: Neighbours) -> bool:
    """Say whether a record comes or goes and takes no other's place."""
    return (
        neighbours is not Neighbours.REPLACE_ONE
        and check_relation(neighbours) is Neighbours.ADD_REMOVE
    )


def spent_epsilon(
    rho: float, term: RidgeTerm, neighbours: Neighbours = Neighbours.REPLACE_ONE
) -> float:
    """Return the exact worst-case loss of privacy of one perturbed objective."""
    r = rho * term.weight * term.row_norm
    m = term.ridge / term.row_norm**2
    p = worst_residual(r, m, cap=term.cap)
    added = r * p + math.log1p(p * (1 - p) / m)
    return added if _alone(neighbours) else r * term.cap + added


def calibrate(
    epsilon: float,
    terms: Sequence[RidgeTerm],
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
) -> float:
    """Return the largest ``rho`` at which the terms' losses sum to at most ``epsilon``.

    Several terms are several objectives on the *same* records with independent noise.
    """
    if not terms:
        raise InvalidParameter("terms must not be empty.")
    return largest_rho(
        check_epsilon(epsilon),
        lambda rho: math.fsum(spent_epsilon(rho, term, neighbours) for term in terms),
        largest_slope=math.fsum(term.weight * term.row_norm * term.cap for term in terms),
    )


def spent_epsilon_joint(
    rho: float, ridges: Sequence[float], weights: Sequence[float], cap: float = 1.0
) -> float:
    """Bound the loss of groups of features whose parts of a row share one unit of length.

    Group k has noise of rate ``rho q_k`` and the part ``a_k`` of a row's length, with the sum of
    ``a_k^2`` at most one. The loss is at most ``rho cap ||q||``, for the record that comes, and
    the largest of ``sum_k [rho q_k a_k p_k + log(1 + p_k (1 - p_k) a_k^2 / L_k)]`` over lengths
    and residuals, for the one that goes. Lagrange's bound with any price ``mu`` of length is
    sound; from ``mu = max 1/(4 L_k)`` on every group's own problem is concave.
    """
    groups = list(zip([rho * q for q in weights], ridges, strict=True))
    floor = max(1 / (4 * ridge) for ridge in ridges)

    def excess(mu: float) -> float:
        return math.fsum(_dear_length(r, ridge, cap, mu)[0] ** 2 for r, ridge in groups) - 1

    mu = floor
    if excess(floor) > 0:
        dear = 2 * floor
        while excess(dear) > 0:
            dear *= 2
        mu = float(brentq(excess, floor, dear))
    other = rho * cap * math.sqrt(math.fsum(q * q for q in weights))
    return other + mu + math.fsum(_dear_length(r, ridge, cap, mu)[1] for r, ridge in groups)


def _dear_length(r: float, ridge: float, cap: float, mu: float) -> tuple[float, float]:
    """Return the length in [0, 1] that is worth most at the price ``mu``, and its worth at most.

    The worth is ``max_p [r a p + log(1 + p(1-p) a^2 / L)] - mu a^2``, concave in ``a``.
    """

    def slope(a: float) -> float:
        p = _residual_at(a)
        bend = p * (1 - p) / ridge
        return r * p + 2 * bend * a / (1 + bend * a * a) - 2 * mu * a

    def _residual_at(a: float) -> float:
        return worst_residual(r * a, ridge / (a * a), cap) if r > 0 else min(cap, 0.5)

    # Rows of no length are worth nothing, and the worth rises from there.
    nearest = 1e-9
    if slope(1.0) >= 0:
        a = 1.0
    elif slope(nearest) <= 0:
        a = nearest
    else:
        a = float(brentq(slope, nearest, 1.0, xtol=1e-15))
    p = _residual_at(a)
    worth = r * a * p + math.log1p(p * (1 - p) * a * a / ridge) - mu * a * a
    # A concave function lies below its tangents, and no length is further away than this.
    off = max(0.0, slope(a)) * (1 - a) + max(0.0, -slope(a)) * a
    return a, worth + off


def calibrate_joint(
    epsilon: float, ridges: Sequence[float], weights: Sequence[float], cap: float = 1.0
) -> float:
    """Return the largest ``rho`` of groups under joint clipping within ``epsilon``."""
    for ridge, weight in zip(ridges, weights, strict=True):
        check_positive(ridge, "ridge")
        check_positive(weight, "weight")
    return _calibrate_joint(check_epsilon(epsilon), tuple(ridges), tuple(weights), cap)


@lru_cache(maxsize=4096)
def _calibrate_joint(
    epsilon: float, ridges: tuple[float, ...], weights: tuple[float, ...], cap: float
) -> float:
    """Two searches inside a third take a second: one plan is priced, run and replayed at one."""
    return largest_rho(
        epsilon,
        lambda rho: spent_epsilon_joint(rho, ridges, weights, cap),
        largest_slope=2 * cap * math.sqrt(math.fsum(q * q for q in weights)),
    )


def free_ridge(epsilon: float, row_norm: float = 1.0, factor: float = 2.0) -> float:
    """Return the smallest ridge at which the Jacobian costs nothing: ``factor q^2/epsilon``.

    With ``factor = 2`` the tight calibration gives ``2 rho q = epsilon`` exactly. A smaller factor
    trades a little noise for a weaker ridge (1 gives about ``rho q = .473 epsilon``).
    """
    return factor * row_norm**2 / check_epsilon(epsilon)


def largest_rho(epsilon: float, spent: Callable[[float], float], *, largest_slope: float) -> float:
    """Invert an increasing function by bisection, always from the safe side.

    ``spent(rho) >= rho largest_slope`` for all relations here, hence the upper end.
    """
    low, high = 0.0, epsilon / largest_slope
    if spent(0.0) >= epsilon:
        raise CalibrationError(
            f"no noise level reaches epsilon={epsilon:g}: at this ridge the Jacobian alone costs "
            f"{spent(0.0):.4g}. Raise alpha (or the ridge floor)."
        )
    # The upper end is often exact (a free Jacobian), so it is tried before halving.
    for candidate in (high, high / 2):
        if spent(candidate) <= epsilon:
            low = candidate
            break
        high = candidate
    if low and spent(math.nextafter(low, math.inf)) > epsilon:
        return low
    low, high = _closer(low, high, lambda rho: spent(rho) - epsilon)
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return low
        low, high = (middle, high) if spent(middle) <= epsilon else (low, middle)


def _closer(low: float, high: float, excess: Callable[[float], float]) -> tuple[float, float]:
    """Narrow a bracket of a zero by the method of false position (Illinois), then around it.

    ``excess`` stays at most 0 at the lower end and above 0 at the upper one.
    """
    ends = [(low, excess(low)), (high, excess(high))]
    middle = low
    for _ in range(12):
        (a, below), (b, above) = ends
        if above == below:
            break
        before, middle = middle, a - below * (b - a) / (above - below)
        found = excess(middle)
        # The end that stays counts half, so that it moves next time.
        ends = [(a, below / 2), (middle, found)] if found > 0 else [(middle, found), (b, above / 2)]
        if abs(middle - before) <= 1e-15 * middle:
            break
    a, b = middle * (1 - 1e-14), middle * (1 + 1e-14)
    return (a if excess(a) <= 0 else low), (b if excess(b) > 0 else high)


#: From so many classes on every class has noise of its own: the first number at which that is less.
CLASSWISE_FROM = 4


def spent_epsilon_softmax(
    rho: float,
    ridge: float,
    n_classes: int,
    row_norm: float = 1.0,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
) -> float:
    """Return a sound (not tight) loss of privacy of the multinomial objective.

    A record's gradient ``(pi - e_c) x'`` has the norm ``x q`` with ``x = ||pi - e_c||``, at most
    ``sqrt(2) q``. Its Hessian block ``diag(pi) - pi pi'`` has rank ``K-1`` and the trace
    ``2 (1 - pi_c) - x^2``, where ``1 - pi_c`` is at most 1 and at most ``x sqrt((K-1)/K)``: the
    Jacobian is paid at the same ``pi`` as the noise.
    """
    r = rho * row_norm
    added = _worst_softmax(r, ridge / row_norm**2, n_classes)
    return added if _alone(neighbours) else math.sqrt(2) * r + added


def _worst_softmax(r: float, m: float, n_classes: int) -> float:
    """Return the largest ``r x + (K-1) log(1 + T(x)/((K-1) m))`` for x up to sqrt 2.

    ``T(x) = 2 min(1, a x) - x^2`` with ``a = sqrt((K-1)/K)`` is concave, and so is the whole: the
    largest value is where the derivative of one of the two pieces vanishes, or at an end of it.
    """
    others = n_classes - 1
    a = math.sqrt(others / n_classes)

    def value(x: float) -> float:
        return r * x + others * math.log1p((2 * min(1.0, a * x) - x * x) / (others * m))

    # Both derivatives vanish at the positive root of a quadratic, without cancellation here.
    bend = r / others
    slope, constant = 1 - a * bend, r * m + 2 * a
    root = math.sqrt(slope * slope + bend * constant)
    low = constant / (slope + root) if slope > 0 else (root - slope) / bend
    far = r * m + 2 * bend
    high = far / (1 + math.sqrt(1 + bend * far))
    return max(value(min(low, 1 / a)), value(min(max(high, 1 / a), math.sqrt(2))))


def calibrate_softmax(
    epsilon: float,
    ridge: float,
    n_classes: int,
    row_norm: float = 1.0,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
) -> float:
    """Return the largest ``rho`` of the multinomial objective within ``epsilon``."""
    check_positive(ridge, "ridge")
    return largest_rho(
        check_epsilon(epsilon),
        lambda rho: spent_epsilon_softmax(rho, ridge, n_classes, row_norm, neighbours),
        largest_slope=math.sqrt(2) * row_norm,
    )


def spent_epsilon_classwise(
    rho: float,
    ridge: float,
    n_classes: int,
    row_norm: float = 1.0,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
) -> float:
    """Return a sound loss of privacy where noise has the density ``exp(-rho sum_k ||B_k||)``.

    With ``t = 1 - pi_c`` a record's gradient is ``2 t q`` long in that norm, and the trace of
    ``diag(pi) - pi pi'`` is at most ``2 t - t^2 K/(K-1)``.
    """
    r = 2 * rho * row_norm
    added = _worst_classwise(r, ridge / row_norm**2, n_classes)
    return added if _alone(neighbours) else r + added


def _worst_classwise(r: float, m: float, n_classes: int) -> float:
    """Return the largest ``r t + (K-1) log(1 + (2t - a t^2)/((K-1) m))``, a = K/(K-1), t up to 1.

    It is concave in ``t``, and its derivative vanishes at the positive root of a quadratic.
    """
    others = n_classes - 1
    a, bend = n_classes / others, r / others
    half, constant = a - bend, r * m + 2
    root = math.sqrt(half * half + a * bend * constant)
    # Of the two forms of the root the one without cancellation.
    t = constant / (half + root) if half > 0 else (root - half) / (a * bend)
    t = min(1.0, t)
    return r * t + others * math.log1p((2 * t - a * t * t) / (others * m))


def calibrate_classwise(
    epsilon: float,
    ridge: float,
    n_classes: int,
    row_norm: float = 1.0,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
) -> float:
    """Return the largest rate of class-wise noise within ``epsilon``."""
    check_positive(ridge, "ridge")
    return largest_rho(
        check_epsilon(epsilon),
        lambda rho: spent_epsilon_classwise(rho, ridge, n_classes, row_norm, neighbours),
        largest_slope=2 * row_norm,
    )


def calibrate_class_groups(
    epsilon: float,
    ridges: Sequence[float],
    weights: Sequence[float],
    n_classes: int,
    *,
    joint: bool = False,
) -> float:
    """Return the largest ``rho`` of groups of features with class-wise noise at ``rho q_k``.

    Parameters
    ----------
    epsilon : float
        For all groups, which see the same records.
    ridges, weights : sequences of float
        ``L_k`` and ``q_k`` of every group.
    n_classes : int
        ``K``.
    joint : bool, default=False
        Whether the parts of a row share one unit of length; else each may be one long. Then the
        Jacobians cost at most ``(K-1)/K`` over the smallest ridge together, and both records at
        most ``2 rho ||q||`` each.
    """
    check_epsilon(epsilon)
    for ridge, weight in zip(ridges, weights, strict=True):
        check_positive(ridge, "ridge")
        check_positive(weight, "weight")
    if not joint:
        return largest_rho(
            epsilon,
            lambda rho: math.fsum(
                spent_epsilon_classwise(rho * q, ridge, n_classes)
                for q, ridge in zip(weights, ridges, strict=True)
            ),
            largest_slope=2 * math.fsum(weights),
        )
    left = epsilon - (n_classes - 1) / (n_classes * min(ridges))
    if left <= 0:
        raise CalibrationError(
            f"no noise level reaches epsilon={epsilon:g}: at these ridges the Jacobian alone "
            "costs more. Raise alpha."
        )
    return left / (4 * math.sqrt(math.fsum(q * q for q in weights)))
