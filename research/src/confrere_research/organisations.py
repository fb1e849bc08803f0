"""Rows that belong to organisations: by a column, by sizes, or as the papers' hospitals.

A split never looks at a label or a feature: it depends on the organisation's column, on public
sizes and on a seed, so parties' guarantees compose in parallel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from confrere.demo.simulated_hospitals import RUIJIN_BRANCH_SIZES, RUIJIN_MAIN_SIZE
from confrere.errors import InvalidData, InvalidParameter

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, repr=False)
class Organisations:
    """Which rows of a table belong to whom.

    Parameters
    ----------
    main : ndarray of int64
        Rows of the main organisation, the papers' source.
    branches : dict of str to ndarray of int64
        Rows of every branch by its name, in the papers' order.
    public : ndarray of int64
        Rows that nobody protects: public means and scales may be computed from them.
    main_name : str
        What the main organisation is called.
    """

    main: Indices
    branches: dict[str, Indices]
    public: Indices
    main_name: str

    def __repr__(self) -> str:
        rows = sum(len(branch) for branch in self.branches.values())
        return (
            f"Organisations({self.main_name}: {len(self.main):,} rows, {len(self.branches)} "
            f"branches: {rows:,}, public: {len(self.public):,})"
        )


def split_by_column(frame: pd.DataFrame, column: str) -> dict[str, Indices]:
    """Return the row positions of every value of ``column``, sorted by value.

    Parameters
    ----------
    frame : DataFrame
        The table.
    column : str
        Names the organisation of every row; nothing may be missing.

    Returns
    -------
    dict of str to ndarray of int64
        Positions (not index labels), increasing.
    """
    if column not in frame.columns:
        raise InvalidParameter(f"column: the table has no column {column!r}.")
    codes, names = pd.factorize(frame[column], sort=True)
    if (codes < 0).any():
        raise InvalidData(f"column {column!r} has missing values: a row without an organisation.")
    order = np.argsort(codes, kind="stable").astype(np.int64)
    ends = np.cumsum(np.bincount(codes, minlength=len(names)))
    return {str(name): rows for name, rows in zip(names, np.split(order, ends[:-1]), strict=True)}


def split_by_sizes(n_rows: int, sizes: Sequence[int], seed: int) -> list[Indices]:
    """Deal rows to organisations of given sizes by a seeded permutation.

    Parameters
    ----------
    n_rows : int
        How many rows there are.
    sizes : sequence of int
        How many each organisation gets; rows left over go to nobody.
    seed : int
        Of the permutation, which depends on nothing else.

    Returns
    -------
    list of ndarray of int64
        Disjoint row positions, one array per size.
    """
    if not sizes or min(sizes) < 1:
        raise InvalidParameter("sizes must be one or more whole numbers above zero.")
    if sum(sizes) > n_rows:
        raise InvalidParameter(f"sizes add up to {sum(sizes)}, but there are {n_rows} rows.")
    order = np.random.default_rng(seed).permutation(n_rows)
    return np.split(order, np.cumsum(sizes))[:-1]


def brfss_organisations(
    frame: pd.DataFrame,
    seed: int,
    *,
    main_name: str = "Washington",
    main_size: int = RUIJIN_MAIN_SIZE,
    branch_sizes: Sequence[int] = RUIJIN_BRANCH_SIZES,
) -> Organisations:
    """Let states play the main hospital and its branches, with the published sizes.

    Sizes are served from the largest to the smallest; each takes the smallest state left that
    has enough rows, and samples them. The states left over are the public data.

    Parameters
    ----------
    frame : DataFrame
        BRFSS 2022, with its column ``State``.
    seed : int
        Of the sampling within each state.
    main_name : str, default="Washington"
        The state that plays the main hospital.
    main_size, branch_sizes : int, sequence of int
        The published sizes, unless others are given.

    Returns
    -------
    Organisations
        Branches in the order of ``branch_sizes``.
    """
    states = split_by_column(frame, "State")
    if main_name not in states:
        raise InvalidParameter(f"main_name: no row of the table is from {main_name!r}.")
    main_rows = states.pop(main_name)
    taken: dict[int, str] = {}
    for branch in sorted(range(len(branch_sizes)), key=lambda b: -branch_sizes[b]):
        enough = [
            (len(rows), name)
            for name, rows in states.items()
            if name not in taken.values() and len(rows) >= branch_sizes[branch]
        ]
        if not enough:
            raise InvalidParameter(
                f"branch_sizes: no state is left with {branch_sizes[branch]} rows."
            )
        taken[branch] = min(enough)[1]
    # One independent stream per organisation, so that a size changes nobody else's sample.
    streams = np.random.SeedSequence(seed).spawn(1 + len(branch_sizes))
    samples = [
        _sample(rows, size, stream)
        for rows, size, stream in zip(
            [main_rows, *(states[taken[branch]] for branch in range(len(branch_sizes)))],
            [main_size, *branch_sizes],
            streams,
            strict=True,
        )
    ]
    left = [rows for name, rows in states.items() if name not in taken.values()]
    return Organisations(
        main=samples[0],
        branches={taken[branch]: rows for branch, rows in enumerate(samples[1:])},
        public=np.sort(np.concatenate(left)) if left else np.empty(0, dtype=np.int64),
        main_name=main_name,
    )


def _sample(rows: Indices, size: int, stream: np.random.SeedSequence) -> Indices:
    if size > len(rows):
        raise InvalidParameter(f"main_size is {size}, but the state has {len(rows)} rows.")
    return np.random.default_rng(stream).permutation(rows)[:size]
