"""Whose rows are whose, and which parties' data cannot be used.

A fault is found within a party's own data, so it never changes what another party sends. Which
parties are faulty is about their data: it is logged or raised here, inside, and not released.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidData
from confrere.maths.voting import Tally
from confrere.methods.plan import Names

OnFaulty = Literal["leave-out", "refuse"]

NOT_FINITE = "X has NaN, infinite or non-numeric values"
UNDECLARED = "y has labels outside classes"
COLUMNS = "X has another number of columns"
LENGTHS = "X and y must be tables of the same number of rows, at least one"

#: How many parties a message names.
_NAMED = 10

logger = logging.getLogger("confrere.methods")


@dataclass(frozen=True, eq=False)
class Parties:
    """The parties in a fixed order, with their rows."""

    names: NDArray[Any]  #: Of shape (n_parties,). Sorted, or in the order given.
    #: Array or CSR of shape (n_rows, n_features). All rows; those of faulty parties may be missing.
    X: Any
    codes: NDArray[np.intp]  #: Int array of shape (n_rows,). Class of every row, -1 if undeclared.
    classes: NDArray[Any]  #: The declared labels, sorted
    order: NDArray[np.intp]  #: Int array of shape (n_rows,). Positions of the rows, party by party.
    #: Int array of shape (n_parties + 1,). Where each party's rows begin in ``order``.
    offsets: NDArray[np.int64]
    #: Mapping of int to str. What is wrong with a party, by its position.
    faults: Mapping[int, str]
    features: Sequence[str] = ()  #: Names of the columns
    #: The sum of their votes, if it was taken already: code of others may fail on anything, so it
    #: runs before anything is spent.
    tally: Tally | None = None

    @property
    def column_names(self) -> Names:
        """What a model of these records calls labels and columns."""
        return Names(tuple(self.classes.tolist()), tuple(self.features))

    def __len__(self) -> int:
        return len(self.names)

    def sound(self, first: int, last: int) -> NDArray[np.intp]:
        """Return the positions of the parties from ``first`` to ``last`` that are not faulty."""
        return np.array([k for k in range(first, last) if k not in self.faults], dtype=np.intp)

    def rows_of(self, positions: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return where the rows of some parties are in ``X``, and where each party's begin."""
        parts = [self.order[self.offsets[k] : self.offsets[k + 1]] for k in positions]
        sizes = [len(part) for part in parts]
        where = np.concatenate(parts) if parts else np.empty(0, dtype=np.intp)
        return where, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def take(self, where: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return some rows, dense."""
        return dense(self.X[where])


def dense(rows: Any) -> NDArray[np.float64]:
    """Return rows as an array of doubles."""
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)


def tables_of_parties(X: Any) -> bool:
    """Whether ``X`` is a sequence of tables, one per party."""
    return isinstance(X, list | tuple) and any(getattr(table, "ndim", 0) == 2 for table in X)


def group_rows(X: Any, y: NDArray[Any], party: ArrayLike | None, classes: NDArray[Any]) -> Parties:
    """Return the parties of stacked rows; without ``party`` every row is a party of its own."""
    n_rows = X.shape[0]
    ids = np.arange(n_rows) if party is None else np.asarray(party)
    if ids.shape != (n_rows,):
        raise InvalidData("party must name one party per row of X.")
    try:
        names, owners = np.unique(ids, return_inverse=True)
    except TypeError:
        raise InvalidData("party must hold names of one type.") from None
    codes = _codes(y, classes)
    faults = {int(k): UNDECLARED for k in owners[codes < 0]}
    faults |= {int(k): NOT_FINITE for k in owners[~_usable_rows(X)]}
    order = np.argsort(owners, kind="stable")
    sizes = np.bincount(owners, minlength=len(names))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Parties(names, X, codes, classes, order, offsets, faults)


def stack_tables(
    X: Sequence[Any],
    y: Sequence[Any],
    party: ArrayLike | None,
    classes: NDArray[Any],
    n_features: int | None,
) -> Parties:
    """Return the parties of separate tables; a table that does not fit is a fault."""
    names = np.arange(len(X)) if party is None else np.asarray(party)
    if len(y) != len(X) or names.shape != (len(X),) or len(np.unique(names)) != len(names):
        raise InvalidData("X, y and party must hold one table, labels and one name per party.")
    width = n_features or Counter((np.shape(table) or (0,))[-1] for table in X).most_common(1)[0][0]
    faults: dict[int, str] = {}
    kept_rows: list[Any] = []
    kept_codes: list[NDArray[np.intp]] = []
    sizes = np.zeros(len(X), dtype=np.int64)
    for k, (table, labels) in enumerate(zip(X, y, strict=True)):
        why, rows = _checked_table(table, labels, width)
        codes = _codes(np.asarray(labels), classes) if why is None else np.empty(0, dtype=np.intp)
        if why is None and np.any(codes < 0):
            why = UNDECLARED
        if why is not None:
            faults[k] = why
            continue
        kept_rows.append(rows)
        kept_codes.append(codes)
        sizes[k] = len(codes)
    if not kept_rows:
        raise InvalidData(f"no party has usable rows: {_named_faults(names, faults)}.")
    stacked = np.concatenate(kept_rows)
    return Parties(
        names,
        stacked,
        np.concatenate(kept_codes),
        classes,
        np.arange(len(stacked)),
        np.concatenate([[0], np.cumsum(sizes)]),
        faults,
    )


def apply_policy(parties: Parties, on_faulty: OnFaulty) -> None:
    """Refuse faulty parties, or log that they are left out."""
    if not parties.faults:
        return
    named = _named_faults(parties.names, parties.faults)
    if on_faulty == "refuse":
        raise InvalidData(f"{named}. Repair the data, or set on_faulty='leave-out'.")
    logger.warning("left out %d of %d parties: %s", len(parties.faults), len(parties), named)


def _named_faults(names: NDArray[Any], faults: Mapping[int, str]) -> str:
    named = [f"party {names[k]!s}: {why}" for k, why in sorted(faults.items())[:_NAMED]]
    more = f"; and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
    return "; ".join(named) + more


def _codes(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the position of every label among the classes, -1 if it is not there."""
    try:
        codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    except TypeError:
        return np.full(len(y), -1, dtype=np.intp)
    return np.where(classes[codes] == y, codes, -1)


def _usable_rows(X: Any) -> NDArray[np.bool_]:
    if not hasattr(X, "indptr"):
        return np.asarray(np.isfinite(X).all(axis=1))
    owners = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    bad = owners[~np.isfinite(X.data)]
    return np.asarray(np.bincount(bad, minlength=X.shape[0]) == 0)


def _checked_table(table: Any, labels: Any, width: int) -> tuple[str | None, NDArray[Any]]:
    """Return what is wrong with one party's table, if anything, and its rows."""
    try:
        rows = dense(table)
    except (TypeError, ValueError):
        return NOT_FINITE, np.empty((0, width))
    if rows.ndim != 2 or len(rows) == 0 or np.shape(labels) != (len(rows),):
        return LENGTHS, rows
    if rows.shape[1] != width:
        return COLUMNS, rows
    return (None if _usable_rows(rows).all() else NOT_FINITE), rows
