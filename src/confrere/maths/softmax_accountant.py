"""From a budget to a noise level where there are more than two classes.

The objective is the multinomial one, ``sum_i [logsumexp(W x_i) - W_{c_i}.x_i] + (L/2)||W||^2 +
<B, W>`` with rows of norm at most ``q``. A record's gradient is ``(pi - e_c) x'`` and its Hessian
``(diag(pi) - pi pi') x x'``; the Jacobian is paid at the same ``pi`` as the noise. Two laws of
noise are priced: one norm of the whole matrix, and a norm per class, which needs less from four
classes on. See docs/proofs/objective_perturbation.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from confrere.errors import CalibrationError
from confrere.guarantee import Neighbours, check_epsilon, check_positive
from confrere.maths.calibration import largest_rho

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
    Jacobian is paid at the same ``pi`` as the noise. A label leaves the Hessian alone and moves
    the gradient by ``sqrt(2) q``.
    """
    r = rho * row_norm
    if neighbours is Neighbours.LABEL_ONLY:
        return math.sqrt(2) * r
    added = _worst_softmax(r, ridge / row_norm**2, n_classes)
    return added if neighbours is Neighbours.ADD_REMOVE else math.sqrt(2) * r + added


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
    ``diag(pi) - pi pi'`` is at most ``2 t - t^2 K/(K-1)``. A label leaves the Hessian alone and
    moves the gradient by ``2 q``.
    """
    r = 2 * rho * row_norm
    if neighbours is Neighbours.LABEL_ONLY:
        return r
    added = _worst_classwise(r, ridge / row_norm**2, n_classes)
    return added if neighbours is Neighbours.ADD_REMOVE else r + added


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
