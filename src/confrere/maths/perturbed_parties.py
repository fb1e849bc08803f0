"""Perturbed objectives of many parties with a few rows each, minimised together.

A linear term and a centre only move the origin: with ``w = u - b/L + v``, party i minimises in
``v`` a plain ridge problem whose scores are shifted by ``x.(u - b/L)``, which is what
:mod:`confrere.maths.party_newton` solves in stacks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from confrere.maths.party_newton import solve_each
from confrere.maths.solver import UNSOLVED, minimise, smallest_tolerance

Floats = NDArray[np.float64]

#: The part of the tolerance that the measured gradient may use, and rounding the rest.
_PART = 1 / 3
#: Scores here are sums of two products, so their error is at most twice that of one: the two thirds
#: that rounding may use hold twice its bound if the tolerance is so many times the smallest, which
#: is 1.5 times that bound.
ROOM = 2.0


def minimise_parties(
    X: Floats,
    y: Floats,
    offsets: NDArray[np.int64],
    *,
    ridge: Floats,
    tolerance: Floats,
    linear: Floats | None = None,
    centre: Floats | None = None,
    cap: float = 1.0,
    margin: float = 0.0,
) -> Floats:
    r"""Minimise :math:`\sum_i \ell(y_i w \cdot x_i) + \frac{L}{2}\|w-u\|^2 + b \cdot w`, each.

    Parameters
    ----------
    X : (n, d) array
        Rows in the unit ball, one party after the other.
    y : (n,) array
        Labels -1 and +1.
    offsets : (m + 1,) array of int
        Where each party's rows begin; the last number is ``n``.
    ridge, tolerance : (m,) arrays
        Every party's ``L``, and the bound on its gradient that is certified.
    linear : (m, d) array, optional
        Every party's ``b``.
    centre : (d,) array, optional
        ``u``, the same for all.
    cap : float, default=1.0
        Largest slope of the loss.
    margin : float, default=0.0
        Taken off ``y_i w.x_i``: above zero the loss is a smooth hinge.

    Returns
    -------
    (m, d) array
        What :func:`~confrere.maths.solver.minimise` would certify for every party. The few that
        the stacks do not certify are left to it; what it cannot solve is as without rows.
    """
    sizes = np.diff(offsets)
    origin = np.zeros((len(sizes), X.shape[1]))
    if linear is not None:
        origin -= linear / ridge[:, None]
    if centre is not None:
        origin += centre
    shift = np.einsum("ij,ij->i", X, np.repeat(origin, sizes, axis=0)) - margin * y
    moves = np.zeros((len(sizes), 1, X.shape[1]))
    norms = solve_each(
        np.ascontiguousarray(X),
        shift[:, None],
        (y > 0).astype(np.int64),
        offsets,
        ridge / sizes,
        cap,
        _PART * tolerance / sizes,
        moves,
    )
    points = origin + moves[:, 0]
    certified = norms * sizes <= _PART * tolerance
    centre_norm = margin + (0.0 if centre is None else float(np.linalg.norm(centre)))
    certified &= _roomy(sizes, ridge, tolerance, linear, centre_norm, X.shape[1])
    for party in np.flatnonzero(~certified):
        own = slice(offsets[party], offsets[party + 1])
        try:
            points[party] = minimise(
                X[own],
                y[own],
                ridge=float(ridge[party]),
                linear=None if linear is None else linear[party],
                centre=centre,
                cap=cap,
                margin=margin,
                tolerance=float(tolerance[party]),
            ).w
        except UNSOLVED:
            points[party] = origin[party]
    return np.asarray(points)


def _roomy(
    sizes: NDArray[np.int64],
    ridge: Floats,
    tolerance: Floats,
    linear: Floats | None,
    centre_norm: float,
    n_features: int,
) -> NDArray[np.bool_]:
    """Return whose tolerance leaves room for the rounding of scores that are sums."""
    kinds = list(zip(sizes.tolist(), ridge.tolist(), tolerance.tolist(), strict=True))
    longest = 0.0 if linear is None else float(np.linalg.norm(linear, axis=1).max())
    room = {
        (size, strength, bound): bound
        >= ROOM
        * smallest_tolerance(
            size, n_features, ridge=strength, linear_norm=longest, centre_norm=centre_norm
        )
        for size, strength, bound in set(kinds)
    }
    return np.array([room[kind] for kind in kinds])
