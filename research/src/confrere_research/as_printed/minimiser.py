"""The library's solver by itself: certified minimisers of what papers print, without noise."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.accountants import Logistic, Loss
from confrere.kernel.guarantee import check_bound, check_positive
from confrere.kernel.measurements import Problem
from confrere.solver.descent import Descent
from confrere.solver.row_blocks import Matrix, SolverRows

#: The plain one, for two classes.
_LOGISTIC = Logistic()


def minimise(
    X: Matrix,
    y: ArrayLike,  # As the loss takes them: labels -1 and +1, or codes
    loss: Loss = _LOGISTIC,
    *,
    ridge: float,  # ``L``, above zero
    # ``B`` and ``U``, zero by default: ``(d,)``, of more classes ``(K, d)``. With one axis more
    # ``B`` stands for as many problems, which share each pass over the rows, and ``U`` may too.
    linear: Floats | None = None,
    centre: Floats | None = None,
    tolerance: float = 1e-6,  # Bound on the norm of the gradient, to be certified
    # Public bound on the norms of the rows; their root mean square is checked against it.
    row_norm: float = 1.0,
) -> Floats:
    """Minimise ``sum_i loss(W x_i, y_i) + (L/2)||W - U||^2 + <B, W>``.

    What is returned is within ``tolerance / ridge`` of the exact minimiser. If the columns of ``B``
    and ``U`` sum to zero over the classes, so do those of ``W``.
    """
    rows, labels = SolverRows(X, check_positive(row_norm, "row_norm")), np.asarray(y)
    if labels.shape != (rows.n,):
        raise InvalidData("y must be one label per row of X.")
    loss.check_labels(labels)
    one = (rows.d,) if loss.n_scores == 1 else (loss.n_scores, rows.d)
    shape = one if linear is None or np.ndim(linear) <= len(one) else (len(linear), *one)
    if 0 in shape:
        raise InvalidParameter("linear needs at least one row.")

    def weights(value: Floats | None, name: str, *shapes: tuple[int, ...]) -> Floats:
        given = np.zeros(shape) if value is None else np.asarray(value, dtype=np.float64)
        if given.shape not in shapes or not np.all(np.isfinite(given)):
            raise InvalidParameter(f"{name} must be finite, with one number per column of X.")
        return np.broadcast_to(given, shape).reshape(-1, math.prod(one))

    problem = Problem(
        rows=rows,
        labels=rows.keep(labels),
        loss=loss,
        ridge=check_bound(ridge, "ridge"),
        linear=weights(linear, "linear", shape),
        centre=weights(centre, "centre", shape, one),
    )
    solver = Descent()
    smallest = solver.smallest(problem)
    if not tolerance >= smallest:  # before any record is read
        digits = 10.0 ** (math.floor(math.log10(smallest)) - 1)
        raise InvalidParameter(
            "tolerance is below what double precision can certify for this number of rows, "
            f"ridge and linear term: use at least {math.ceil(smallest / digits) * digits:.1e}."
        )
    return solver.solve(problem, tolerance).reshape(shape)
