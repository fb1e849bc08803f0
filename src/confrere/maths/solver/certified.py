"""The three ways to ask for a certified minimiser."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidData, InvalidParameter
from confrere.guarantee import check_positive
from confrere.maths.logistic import check_cap
from confrere.maths.solver.certificate import (
    Certificate,
    Solution,
    Solutions,
    check_tolerance,
    smallest_tolerance,
)
from confrere.maths.solver.descent import descend
from confrere.maths.solver.objective import Binary, Objective, Softmax
from confrere.maths.solver.row_blocks import Floats, Matrix, SolverRows


def minimise(
    X: Matrix,
    y: ArrayLike,
    *,
    ridge: float,
    linear: Floats | None = None,
    centre: Floats | None = None,
    cap: float = 1.0,
    margin: float = 0.0,
    tolerance: float = 1e-6,
    start: Floats | None = None,
    row_norm: float = 1.0,
) -> Solution:
    r"""Minimise :math:`\sum_i \ell(y_i w \cdot x_i) + \frac{L}{2}\|w-u\|^2 + b \cdot w`.

    Parameters
    ----------
    X : (n, d) ndarray, CSR or BlockRows
        One row per record. It is read in blocks and never copied whole; double precision in C
        order is fastest.
    y : (n,) array
        Labels -1 and +1.
    ridge : float
        ``L``, above zero.
    linear : (d,) array, optional
        ``b``; zero by default.
    centre : (d,) array, optional
        ``u``; zero by default.
    cap : float, default=1.0
        Largest slope of the loss; 1 is the logistic loss.
    margin : float, default=0.0
        Taken off ``y_i w.x_i``: above zero the loss is a smooth hinge.
    tolerance : float, default=1e-6
        Bound on the Euclidean norm of the gradient of ``J``, to be certified.
    start : (d,) array, optional
        Where to begin; by default at ``centre``.
    row_norm : float, default=1.0
        Public bound on the norms of the rows; their root mean square is checked against it.

    Returns
    -------
    Solution
        Within ``tolerance / ridge`` of the exact minimiser.

    Raises
    ------
    InvalidParameter
        If ``tolerance`` is below :func:`smallest_tolerance` at the norms of ``linear`` and
        ``centre``. A very long ``linear`` moves the minimiser so far out that doubles no longer
        resolve it: a caller that draws it at random chooses a tolerance that suits all but a
        negligible share of draws. The refusal does not depend on the records.
    InvalidData
        If the labels or the rows are not as declared; a caller that clips never sees it.
    """
    rows = SolverRows(X, check_positive(row_norm, "row_norm"))
    objective = Binary(
        rows=rows,
        labels=rows.keep(_signs(y, rows.n)),
        ridge=_finite_positive(ridge, "ridge"),
        linear=_weights(linear, (1, rows.d), "linear", shared=True),
        centre=_weights(centre, (1, rows.d), "centre", shared=True),
        cap=check_cap(cap),
        margin=_margin(margin),
    )
    begin = (
        objective.centre if start is None else _weights(start, (1, rows.d), "start", shared=True)
    )
    W, (certificate,) = _certified(objective, begin, tolerance)
    return Solution(W[0], certificate)


def minimise_many(
    X: Matrix,
    y: ArrayLike,
    *,
    ridge: float,
    linear: Floats,
    centre: Floats | None = None,
    cap: float = 1.0,
    margin: float = 0.0,
    tolerance: float = 1e-6,
    row_norm: float = 1.0,
) -> Solutions:
    """Minimise for every row of ``linear``, sharing each pass over the data.

    Parameters
    ----------
    X, y, ridge, cap, margin, tolerance, row_norm
        As for :func:`minimise`.
    linear : (m, d) array
        One ``b`` per problem.
    centre : (d,) or (m, d) array, optional
        One ``u`` for all problems, or one each.

    Returns
    -------
    Solutions
        What ``m`` calls of :func:`minimise` would certify, much sooner.
    """
    rows = SolverRows(X, check_positive(row_norm, "row_norm"))
    shape = (len(linear), rows.d)
    if shape[0] < 1:
        raise InvalidParameter("linear needs at least one row.")
    objective = Binary(
        rows=rows,
        labels=rows.keep(_signs(y, rows.n)),
        ridge=_finite_positive(ridge, "ridge"),
        linear=_weights(linear, shape, "linear"),
        centre=_weights(centre, shape, "centre", shared=True),
        cap=check_cap(cap),
        margin=_margin(margin),
    )
    return Solutions(*_certified(objective, objective.centre, tolerance))


def minimise_softmax(
    X: Matrix,
    codes: NDArray[np.integer],
    n_classes: int,
    *,
    ridge: float,
    linear: Floats | None = None,
    centre: Floats | None = None,
    tolerance: float = 1e-6,
    row_norm: float = 1.0,
) -> Solution:
    r"""Minimise the softmax objective of ``K`` classes.

    .. math:: \sum_i [\mathrm{logsumexp}(W x_i) - W_{c_i} \cdot x_i]
              + \tfrac{L}{2}\|W - U\|_F^2 + \langle B, W \rangle

    If the columns of ``B`` and ``U`` sum to zero, so do those of ``W``.

    Parameters
    ----------
    X, ridge, tolerance, row_norm
        As for :func:`minimise`.
    codes : (n,) integer array
        Class of every row, from 0 to ``n_classes - 1``.
    n_classes : int
        ``K``, at least 2.
    linear, centre : (K, d) arrays, optional
        ``B`` and ``U``; zero by default.

    Returns
    -------
    Solution
        ``w`` has shape ``(K, d)``.
    """
    rows = SolverRows(X, check_positive(row_norm, "row_norm"))
    if n_classes < 2:
        raise InvalidParameter("n_classes must be at least 2.")
    codes = np.asarray(codes)
    if codes.shape != (rows.n,) or not np.all((codes >= 0) & (codes < n_classes)):
        raise InvalidData("codes must be one integer from 0 to n_classes - 1 per row of X.")
    size = n_classes * rows.d
    objective = Softmax(
        rows=rows,
        labels=rows.keep(codes),
        ridge=_finite_positive(ridge, "ridge"),
        linear=_weights(linear, (n_classes, rows.d), "linear").reshape(1, size),
        centre=_weights(centre, (n_classes, rows.d), "centre").reshape(1, size),
        classes=n_classes,
    )
    W, (certificate,) = _certified(objective, objective.centre, tolerance)
    return Solution(W.reshape(n_classes, rows.d), certificate)


def _certified(
    objective: Objective, start: Floats, tolerance: float
) -> tuple[Floats, tuple[Certificate, ...]]:
    smallest = smallest_tolerance(
        objective.rows.n,
        objective.rows.d,
        ridge=objective.ridge,
        row_norm=objective.rows.row_norm,
        linear_norm=float(np.linalg.norm(objective.linear, axis=1).max()),
        centre_norm=float(np.linalg.norm(objective.centre, axis=1).max()),
        n_classes=objective.n_classes,
    )
    tolerance = check_tolerance(tolerance, smallest)
    W, G = descend(objective, start, tolerance)
    roundings = objective.rounding(W)
    bounds = objective.bound(G, roundings)
    return W, tuple(
        Certificate(bound, rounding, tolerance)
        for bound, rounding in zip(bounds.tolist(), roundings.tolist(), strict=True)
    )


def _signs(y: ArrayLike, n: int) -> NDArray[Any]:
    y = np.asarray(y)
    if y.shape != (n,) or not np.all((y == 1.0) | (y == -1.0)):
        raise InvalidData("y must be one label, -1 or +1, per row of X.")
    return y


def _weights(
    value: ArrayLike | None, shape: tuple[int, int], name: str, *, shared: bool = False
) -> Floats:
    """Return ``value`` in the given shape; a ``shared`` vector stands for every row."""
    if value is None:
        return np.zeros(shape)
    value = np.asarray(value, dtype=np.float64)
    if shared and value.shape == shape[1:]:
        value = np.broadcast_to(value, shape)
    if value.shape != shape or not np.all(np.isfinite(value)):
        raise InvalidParameter(
            f"{name} must be finite, with one number per column of X"
            f"{'' if shared else ' in every row'}."
        )
    return value


def _finite_positive(value: float, name: str) -> float:
    number = check_positive(value, name)
    if not np.isfinite(number):
        raise InvalidParameter(f"{name} must be finite.")
    return number


def _margin(margin: float) -> float:
    if not 0 <= margin < np.inf:
        raise InvalidParameter("margin must be a finite number of at least 0.")
    return float(margin)
