"""What a solver hands back: a point, and what is proved about it."""

from __future__ import annotations

from dataclasses import dataclass

from confrere.maths.solver.solver_rows import Floats


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is known of the gradient of the objective at a returned point.

    Parameters
    ----------
    gradient_norm : float
        Upper bound on the Euclidean norm: the computed norm plus ``rounding``.
    rounding : float
        Bound on the floating-point error of the computed gradient.
    tolerance : float
        What was asked; ``gradient_norm <= tolerance`` always holds.
    """

    gradient_norm: float
    rounding: float
    tolerance: float


@dataclass(frozen=True, slots=True)
class Solution:
    """One certified minimiser.

    Parameters
    ----------
    w : ndarray
        ``(d,)``, or ``(K, d)`` for the softmax objective.
    certificate : Certificate
        How small the gradient at ``w`` is.
    """

    w: Floats
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class Solutions:
    """Certified minimisers of several objectives on the same rows.

    Parameters
    ----------
    W : (m, d) ndarray
        One minimiser per row.
    certificates : tuple of Certificate
        One per row of ``W``.
    """

    W: Floats
    certificates: tuple[Certificate, ...]
