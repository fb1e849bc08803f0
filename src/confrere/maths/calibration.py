"""From a budget to a noise level: the accountant of logistic objective perturbation.

Objectives are sums, ``J(w) = sum_i l(y_i w.x_i) + (L/2)||w - u||^2 + b.w`` with rows of norm at
most ``q``, and the noise ``b`` has density proportional to ``exp(-rho ||b||)``. Write ``p`` for
the residual ``-l'`` of the changed record. Replacing it moves ``b(w)`` by at most ``q (p + p')``
and the Jacobian by a factor of at most ``1 + p(1-p) q^2 / L``, at the *same* ``p``; the loss of
privacy is

    eps(rho) = rho q kappa + max_{0 <= p <= kappa} [rho q p + log(1 + p(1-p) q^2 / L)]

where ``kappa`` caps the slope of the loss (1 for the logistic loss). The bracket is concave in
``p``, so its maximum has a closed form. See docs/proofs/objective_perturbation.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confrere.errors import CalibrationError, InvalidData, InvalidParameter
from confrere.guarantee import Neighbours, check_epsilon, check_positive


@dataclass(frozen=True, slots=True)
class Term:
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


def spent_epsilon(rho: float, term: Term, neighbours: Neighbours = Neighbours.REPLACE_ONE) -> float:
    """Return the exact worst-case loss of privacy of one perturbed objective."""
    r = rho * term.weight * term.row_norm
    m = term.ridge / term.row_norm**2
    if neighbours is Neighbours.LABEL_ONLY:
        # A flipped label turns p into 1-p: the slopes add up to one wherever neither is capped,
        # and the curvature is the same unless one of the two sides is capped.
        uncapped = 1 - term.cap
        p = worst_residual(r, m, cap=uncapped)
        return max(r, r * (p + term.cap) + math.log1p(p * (1 - p) / m))
    p = worst_residual(r, m, cap=term.cap)
    added = r * p + math.log1p(p * (1 - p) / m)
    if neighbours is Neighbours.ADD_REMOVE:
        return added
    return r * term.cap + added


def calibrate(
    epsilon: float,
    terms: Sequence[Term],
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
) -> float:
    """Return the largest ``rho`` at which the terms' losses sum to at most ``epsilon``.

    Several terms are several objectives on the *same* records with independent noise.
    """
    if not terms:
        raise InvalidParameter("terms must not be empty.")
    return _largest_rho(
        check_epsilon(epsilon),
        lambda rho: math.fsum(spent_epsilon(rho, term, neighbours) for term in terms),
        largest_slope=math.fsum(term.weight * term.row_norm * term.cap for term in terms),
    )


def spent_epsilon_softmax(
    rho: float,
    ridge: float,
    n_classes: int,
    row_norm: float = 1.0,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
) -> float:
    """Return a sound (not tight) loss of privacy of the multinomial objective.

    A record's gradient ``(p - e_c) x'`` has norm at most ``sqrt(2) q``; its Hessian block
    ``diag(p) - pp'`` has rank ``K-1`` and trace at most ``1 - 1/K``, so by the inequality of
    arithmetic and geometric means the Jacobian grows by at most ``(1 + q^2/(K L))^(K-1)``.
    A label leaves the Hessian alone and moves the gradient by ``sqrt(2) q``.
    """
    slope = math.sqrt(2) * rho * row_norm
    if neighbours is Neighbours.LABEL_ONLY:
        return slope
    jacobian = (n_classes - 1) * math.log1p(row_norm**2 / (n_classes * ridge))
    return (slope if neighbours is Neighbours.ADD_REMOVE else 2 * slope) + jacobian


def calibrate_softmax(
    epsilon: float,
    ridge: float,
    n_classes: int,
    row_norm: float = 1.0,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
) -> float:
    """Return the largest ``rho`` of the multinomial objective within ``epsilon``."""
    check_positive(ridge, "ridge")
    return _largest_rho(
        check_epsilon(epsilon),
        lambda rho: spent_epsilon_softmax(rho, ridge, n_classes, row_norm, neighbours),
        largest_slope=math.sqrt(2) * row_norm,
    )


@dataclass(frozen=True, slots=True)
class PrintedCalibration:
    """What Algorithm 1 of the stacking papers prints: ``epsilon' = 2 rho`` and ``Delta``."""

    epsilon_prime: float
    extra_ridge: float

    @property
    def rho(self) -> float:
        """The rate of the noise's norm."""
        return self.epsilon_prime / 2


def printed_calibration(epsilon: float, n_samples: int, alpha: float) -> PrintedCalibration:
    """Return Algorithm 1's noise for rows of norm at most 1: sound, but loose.

    ``alpha`` is the papers' lambda, on the mean loss, and ``extra_ridge`` their Delta.
    """
    check_epsilon(epsilon)
    check_positive(alpha, "alpha")
    epsilon_prime = epsilon - 2 * math.log1p(1 / (4 * n_samples * alpha))
    if epsilon_prime > 0:
        return PrintedCalibration(epsilon_prime, 0.0)
    return PrintedCalibration(epsilon / 2, 1 / (4 * n_samples * math.expm1(epsilon / 4)) - alpha)


def printed_group_epsilon(
    epsilon: float, n_samples: int, alphas: Sequence[float], row_norms: Sequence[float]
) -> float:
    """Return ``epsilon'`` of Algorithm 3 (feature groups, bounds ``q_k`` that sum to one).

    Zero bounds contribute nothing. A value at or below zero means that the algorithm switches to
    its second branch.
    """
    return epsilon - math.fsum(
        2 * math.log1p(q * q / (4 * n_samples * alpha))
        for alpha, q in zip(alphas, row_norms, strict=True)
    )


def free_ridge(epsilon: float, row_norm: float = 1.0, factor: float = 2.0) -> float:
    """Return the smallest ridge at which the Jacobian costs nothing: ``factor q^2/epsilon``.

    With ``factor = 2`` the tight calibration gives ``2 rho q = epsilon`` exactly. A smaller factor
    trades a little noise for a weaker ridge (1 gives about ``rho q = .473 epsilon``).
    """
    return factor * row_norm**2 / check_epsilon(epsilon)


def automatic_ridge(
    epsilon: float, n_samples: float, n_features: int, *, capped: bool = False, floor: float = 2.0
) -> float:
    """Return the public rule for the ridge of rows in the unit ball.

    ``max(floor/epsilon, k d^3/(n epsilon^2))`` with ``k = 1``, or ``.3`` for the capped loss: the
    variance of the noise over prior variance times curvature.
    """
    if n_samples < 1:
        raise InvalidData("X needs at least one row.")
    k = 0.3 if capped else 1.0
    return max(free_ridge(epsilon, factor=floor), k * n_features**3 / (n_samples * epsilon**2))


def _largest_rho(epsilon: float, spent: Callable[[float], float], *, largest_slope: float) -> float:
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
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return low
        low, high = (middle, high) if spent(middle) <= epsilon else (low, middle)
