"""Groups of columns: given, by name or place; by declared importance; or by chance.

None looks at the data. Importances are public facts: computed from private rows they would be a
release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.data.encoding import SchemaEncoder
from confrere.data.frame import Clipping, GroupRows, Groups
from confrere.errors import InvalidParameter


@dataclass(frozen=True, eq=False)
class SchemaGroups:
    """Groups of whole columns of a schema, before it is known how many records each has."""

    encoder: SchemaEncoder  #: Of a form for bodies
    columns: Groups  #: Positions of the schema's columns, of every group in use
    clipping: ClassVar[Clipping] = "separate"

    @classmethod
    def of_encoded(cls, encoder: SchemaEncoder, groups: Groups) -> SchemaGroups:
        blocks = encoder.blocks()
        owner = np.repeat(np.arange(len(blocks)), [block.size for block in blocks])
        found = cls(encoder, tuple(np.unique(owner[group]) for group in groups))
        if [np.sort(group).tolist() for group in groups] != [g.tolist() for g in found.groups]:
            raise InvalidParameter("geometry='schema' needs groups of whole columns of the schema.")
        return found

    @cached_property
    def groups(self) -> Groups:
        each = encoded_columns([block.size for block in self.encoder.blocks()])
        return tuple(np.concatenate([each[j] for j in group]) for group in self.columns)


#: What a plan is made for: groups in a ball, or in bodies that follow from their records.
PlannedGroups = GroupRows | SchemaGroups


def encoded_columns(sizes: Sequence[int]) -> Groups:
    """Return the encoded columns of every raw one, of which it has so many."""
    return tuple(np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1]))


def random_groups(n_features: int, n_groups: int, *, seed: int = 0) -> Groups:
    return _divided(np.random.default_rng(seed).permutation(n_features), n_groups)


def importance_groups(importance: ArrayLike, n_groups: int) -> Groups:
    return _divided(np.argsort(-check_importance(importance), kind="stable"), n_groups)


def _divided(order: NDArray[np.intp], n_groups: int) -> Groups:
    if not 1 <= n_groups <= len(order):
        raise InvalidParameter(f"n_groups must lie between 1 and the {len(order)} columns.")
    return tuple(np.sort(part) for part in np.array_split(order, n_groups))


def given_groups(
    groups: Sequence[ArrayLike], n_features: int, encoder: SchemaEncoder | None
) -> Groups:
    if by_name(groups):
        columns = () if encoder is None else encoder.columns
        sizes = [1 if n_features == len(columns) else len(one.names) for one in columns]
        names = (one.told["column"] for one in columns)
        place = dict(zip(names, encoded_columns(sizes), strict=False))
        unknown = [name for group in groups for name in np.ravel(group) if name not in place]
        if unknown:
            raise InvalidParameter(
                f"groups: there is no column {str(unknown[0])!r}; by name are those of a schema: "
                "where there is a schema=, name its columns, else give their positions."
            )
        groups = [np.concatenate([place[name] for name in np.ravel(group)]) for group in groups]
    parts = tuple(np.asarray(part, dtype=np.intp) for part in groups)
    together = np.sort(np.concatenate(parts)) if parts else np.array([], dtype=np.intp)
    if not np.array_equal(together, np.arange(n_features)) or any(p.size == 0 for p in parts):
        raise InvalidParameter(
            f"groups must hold every column from 0 to {n_features - 1} exactly once."
        )
    return parts


def group_importance(importance: ArrayLike, groups: Groups) -> NDArray[np.float64]:
    weights = check_importance(importance)
    shares = np.array([weights[part].sum() for part in groups])
    return np.asarray(shares / shares.sum())


def check_importance(importance: ArrayLike) -> NDArray[np.float64]:
    weights = np.asarray(importance, dtype=np.float64)
    if weights.ndim != 1 or not np.all(np.isfinite(weights) & (weights >= 0)) or not weights.any():
        raise InvalidParameter("importance must hold finite numbers >= 0, not all zero.")
    return weights


def by_name(groups: Sequence[ArrayLike]) -> bool:
    return any(isinstance(name, str) for group in groups for name in np.ravel(group))
