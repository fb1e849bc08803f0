"""Splits of rows and of features that never look at the data, and shares of a budget.

Importances are public facts (experts, literature, public data): computed from the private data they
would be a release of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidParameter

Clipping = Literal["separate", "joint"]
Groups = tuple[NDArray[np.intp], ...]

#: Share of the rows for the high level of a stack, of two classes and of more; and the fewest of
#: them, as far as half of the rows go.
_HIGH, _HIGH_CLASSES, _HIGH_ROWS = 0.5, 0.05, 20


def split_rows(
    n_rows: int,  # Public number of rows
    # Non-negative and of positive sum; sizes are rounded so that every row has one part.
    fractions: Sequence[float],
    *,
    seed: int | None = 0,  # Public seed of the permutation; None keeps the rows in their order
) -> list[NDArray[np.intp]]:
    """Divide ``range(n_rows)`` into disjoint parts of public sizes."""
    weights = np.asarray(fractions, dtype=np.float64)
    if weights.ndim != 1 or not np.all(np.isfinite(weights) & (weights >= 0)) or not weights.sum():
        raise InvalidParameter("fractions must be numbers >= 0 with a positive sum.")
    order = np.arange(n_rows) if seed is None else np.random.default_rng(seed).permutation(n_rows)
    ends = np.rint(np.cumsum(weights) / weights.sum() * n_rows).astype(np.intp)
    return np.split(order, ends[:-1])


def high_share(fraction: float | Literal["auto"], n_rows: int, n_classes: int) -> float:
    """Return the share of the rows from which a stack's high level learns, by public sizes.

    Of several classes it learns one weight per group, which needs few rows, while every class of
    the low level has weights of its own.
    """
    if fraction != "auto":
        return float(fraction)
    if n_classes == 2:
        return _HIGH
    return max(_HIGH_CLASSES, min(_HIGH, _HIGH_ROWS / max(n_rows, 1)))


def random_groups(n_features: int, n_groups: int, *, seed: int = 0) -> Groups:
    """Return groups of nearly equal size, by a public permutation of the features."""
    _check_groups(n_features, n_groups)
    order = np.random.default_rng(seed).permutation(n_features)
    return tuple(np.sort(part) for part in np.array_split(order, n_groups))


def importance_groups(importance: ArrayLike, n_groups: int) -> Groups:
    """Return groups of nearly equal size, the most important features first."""
    weights = check_importance(importance)
    _check_groups(len(weights), n_groups)
    order = np.argsort(-weights, kind="stable")
    return tuple(np.sort(part) for part in np.array_split(order, n_groups))


def given_groups(groups: Sequence[ArrayLike], n_features: int) -> Groups:
    """Return declared groups, checked to hold every feature exactly once."""
    parts = tuple(np.asarray(part, dtype=np.intp) for part in groups)
    together = np.sort(np.concatenate(parts)) if parts else np.array([], dtype=np.intp)
    if not np.array_equal(together, np.arange(n_features)) or any(p.size == 0 for p in parts):
        raise InvalidParameter(
            f"groups must hold every column from 0 to {n_features - 1} exactly once."
        )
    return parts


def group_importance(importance: ArrayLike, groups: Groups) -> NDArray[np.float64]:
    """Return every group's share of the importance (equation 6); the shares sum to one."""
    weights = check_importance(importance)
    shares = np.array([weights[part].sum() for part in groups])
    return np.asarray(shares / shares.sum())


def allocate(importance: ArrayLike, *, clipping: Clipping = "separate") -> NDArray[np.float64]:
    """Return the weights ``q_k`` of the groups' noise rates: group ``k`` gets ``rho q_k``.

    ``clipping="separate"`` bounds every group's rows by themselves and needs ``sum q_k = 1``, in
    proportion to importance as in the papers; ``"joint"`` bounds the whole row and needs only
    ``sum q_k^2 = 1``, the squares in proportion to it.
    """
    shares = check_importance(importance)
    shares = shares / shares.sum()
    return np.asarray(shares if clipping == "separate" else np.sqrt(shares))


def check_importance(importance: ArrayLike) -> NDArray[np.float64]:
    """Return importances as an array, or say what they must be."""
    weights = np.asarray(importance, dtype=np.float64)
    if weights.ndim != 1 or not np.all(np.isfinite(weights) & (weights >= 0)) or not weights.any():
        raise InvalidParameter("importance must hold finite numbers >= 0, not all zero.")
    return weights


def _check_groups(n_features: int, n_groups: int) -> None:
    if not 1 <= n_groups <= n_features:
        raise InvalidParameter(f"n_groups must lie between 1 and the {n_features} columns.")
