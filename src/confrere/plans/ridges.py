"""A ridge per column or per group, declared.

Proof: docs/proofs/objective_perturbation.md, "A ridge per column".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidParameter
from confrere.schema import PublicSchema

Floats = NDArray[np.float64]

#: A ridge on the mean loss or the public rule, for all or for each.
Alphas = float | Literal["auto"] | ArrayLike | Mapping[str, float]


def column_ridges(
    alpha: ArrayLike | Mapping[str, float],
    n_features: int,
    names: Sequence[str] | None = None,
    schema: PublicSchema | None = None,
) -> tuple[float, Floats]:
    """Return the smallest ridge, and the factor by which every column is shortened for its own.

    ``w_j = s_j v_j`` with ``s_j = sqrt(min alpha/alpha_j)`` turns a ridge per column into one
    ridge, of columns that are multiplied by ``s_j``.

    Parameters
    ----------
    alpha : array or mapping of column to float
        One number per column as it is learned from; a mapping may name raw columns of the schema.
    n_features : int
        How many columns there are.
    names : sequence of str, optional
        What they are called; where nobody says, only a price is asked.
    schema : PublicSchema, optional
        What raw columns they come from.
    """
    if isinstance(alpha, Mapping):
        if names is None:
            return min(map(float, alpha.values())), np.ones(n_features)
        alpha = _by_name(alpha, names, schema)
    given = np.asarray(alpha, dtype=np.float64)
    if given.shape != (n_features,):
        raise InvalidParameter(f"alpha must have one number per column ({n_features}).")
    smallest = float(given.min())
    return smallest, np.sqrt(smallest / given)


def _by_name(
    alpha: Mapping[str, float], names: Sequence[str], schema: PublicSchema | None
) -> list[float]:
    raw = {} if schema is None else {n: f.column for f in schema.features for n in f.names}
    lacking = [name for name in names if name not in alpha and raw.get(name) not in alpha]
    if lacking:
        raise InvalidParameter(
            f"alpha must name every column; it lacks {len(lacking)}, {lacking[0]!r} first."
        )
    unknown = sorted(set(alpha) - {*names, *raw.values()})
    if unknown:
        raise InvalidParameter(f"alpha: there is no column {unknown[0]!r}.")
    return [float(alpha[name] if name in alpha else alpha[raw[name]]) for name in names]


def group_ridges(alpha: Alphas, n_groups: int) -> list[float | Literal["auto"]]:
    """Return every group's ridge: the same for all, or one each.

    Parameters
    ----------
    alpha : float, "auto" or a sequence of them
    n_groups : int
        Groups that are in use.
    """
    if isinstance(alpha, Mapping):
        raise InvalidParameter("alpha: groups have no names; give one number per group, in order.")
    if isinstance(alpha, str) or np.ndim(alpha) == 0:
        return [alpha] * n_groups  # type: ignore[list-item]
    each: list[Any] = list(np.asarray(alpha, dtype=object))
    if len(each) != n_groups:
        raise InvalidParameter(f"alpha must have one number per group in use ({n_groups}).")
    return ["auto" if isinstance(one, str) else float(one) for one in each]
