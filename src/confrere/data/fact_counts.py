"""What would have to be counted to learn the facts that a schema does not declare.

A cell is one of its column's vertices, and every vertex adds small whole numbers, a row of a public
table, to the sums: how far one record moves them all can be read off the tables. Nothing here draws
noise or charges: from a table to exact integers, and from noised integers to facts.

Proof: docs/proofs/learned_facts.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats
from confrere.data.cells import Cells, declared_columns, each_column
from confrere.data.features import ZEROS, Category, Feature, Flag, Label, Number, Ordered
from confrere.data.schema import PublicSchema
from confrere.errors import SchemaError

Integers = NDArray[np.int64]

#: One is so many lattice steps: numbers are rounded to this part of half their declared width.
STEPS = 1024

#: How far variances and means of columns lie apart, where half the width of the bounds is one: what
#: the noise is held against. And how much must be left of what was counted.
_SPREAD, _CENTRES, _BELIEVED = 0.15, 0.5, 0.2

#: A share is never nearer to 0 or 1: a constant has no scale.
LEAST_SHARE = 0.001


@final
@dataclass(frozen=True, eq=False)
class ColumnSums:
    """What is counted of one column."""

    column: str
    vertices: Callable[[Cells], NDArray[Any]]  #: Which row of the table a cell adds
    table: Integers  #: Where missing cells are counted, in the last column
    gaps: bool  #: Whether they are
    #: From noised sums of so many records, and the noise's deviation, what they say.
    facts: Callable[[Floats, float, float], dict[str, Any]]

    @property
    def size(self) -> int:
        return int(self.table.shape[1])

    @property
    def longest(self) -> int:
        """How far the sums move, in L1, when a record comes or goes."""
        return int(np.abs(self.table).sum(axis=1).max())

    @property
    def sensitivity(self) -> int:
        """How far apart two rows of the table are, in L1: exactly where it has few columns.

        The distance is the largest difference over all choices of signs. Of many columns, of which
        a record is in one, it is at most what the two longest rows have together.
        """
        if self.size > 3:
            return int(np.sort(np.abs(self.table).sum(axis=1))[-2:].sum())
        signs = np.array([*product((1, -1), repeat=self.size)])
        return int(np.ptp(self.table @ signs.T, axis=0).max())

    def sums(self, cells: Cells, party: NDArray[np.intp] | None = None) -> Integers:
        """Return the column's sums; refuse what encoding would refuse, and quote nothing.

        Of several parties, whose codes are ``party``, one row each.
        """
        at = self.vertices(cells)
        if party is None:
            return np.bincount(at, minlength=len(self.table)) @ self.table
        totals = np.zeros((int(party.max()) + 1, self.size), dtype=np.int64)
        np.add.at(totals, party, self.table[at])
        return totals


def _moment_facts(
    feature: Number | Ordered, total: Floats, n: float, deviation: float
) -> dict[str, Any]:
    """Return mean and deviation, as far as the noise lets them be believed.

    Where it drowns them they are those of the uniform law, as where nothing is declared; where
    it leaves next to nothing, nothing is learned.
    """
    noise = deviation / (STEPS * n)
    v = float(np.clip(total[0] / (STEPS * n), -1.0, 1.0))
    error = noise * float(np.sqrt(1 + 4 * v * v))
    found = float(np.clip(total[1] / (STEPS * n) - v * v, max(error, STEPS**-2), 1.0))
    believed = _SPREAD**2 / (_SPREAD**2 + error**2)
    if believed < _BELIEVED:
        return {}
    variance = believed * found + (1 - believed) / 3
    v *= _CENTRES**2 / (_CENTRES**2 + noise**2)
    middle, half = feature.moments()
    mean = float(np.clip(rounded(middle + half * v, half), middle - half, middle + half))
    return {"mean": mean, "sd": max(rounded(half * variance**0.5, half), half / STEPS)}


def _share_facts(
    feature: Category | Flag | Label, total: Floats, n: float, deviation: float
) -> dict[str, Any]:
    """Return shares, drawn towards equal ones as far as the noise is felt."""
    counted = np.clip(total / (STEPS * n), 0.0, 1.0)
    if not isinstance(feature, Category):  # of two sides one is counted
        counted = np.array([counted[0], 1 - counted[0]])
    # Values that nobody declared may be in no column: then shares need not add up to one.
    open_ended = isinstance(feature, Category) and feature.unknown == ZEROS
    whole = float(np.clip(counted.sum(), 0.5, 1.0)) if open_ended else 1.0
    even = np.full(len(counted), 1 / len(counted))
    shares = counted / counted.sum() if counted.sum() > 0 else even
    pull = min(1.0, len(counted) * max(deviation / (STEPS * n), LEAST_SHARE))
    shares = np.clip((1 - pull) * shares + pull * even, LEAST_SHARE, 1 - LEAST_SHARE)
    told = [round(share, 6) for share in (whole * shares / shares.sum()).tolist()]
    if isinstance(feature, Category):
        return {"shares": told}
    return {"base_rate" if isinstance(feature, Label) else "share": told[0]}


def _no_facts(*_: object) -> dict[str, Any]:
    return {}


def _side(label: Label, cells: Cells) -> NDArray[Any]:
    return np.asarray(label.encode(cells) == 1, dtype=np.intp)


def _counted(feature: Feature) -> ColumnSums | None:
    known = any(getattr(feature, fact, None) is not None for fact in ("sd", "share", "shares"))
    own: Integers = np.zeros((0, 0), dtype=np.int64)
    facts: Callable[[Floats, float, float], dict[str, Any]] = _no_facts
    if known:
        if not feature.has_indicator or feature.missing_share is not None:
            return None
    elif isinstance(feature, Number | Ordered):
        # Numbers from -1 to 1 in whole steps, and their squares.
        centre, scale = feature.moments()
        places = feature.points() if isinstance(feature, Number) else feature.ranks()
        v = np.rint(STEPS * np.clip((places - centre) / scale, -1.0, 1.0)).astype(np.int64)
        own = np.stack([v, (v * v + STEPS // 2) // STEPS], axis=1)
        facts = partial(_moment_facts, feature)
    elif isinstance(feature, Flag | Category):
        own = STEPS * np.eye(feature.size - 2, dtype=np.int64)[:, isinstance(feature, Flag) :]
        facts = partial(_share_facts, feature)
    gaps = feature.missing is not None
    table = np.zeros((feature.size, own.shape[1] + gaps), dtype=np.int64)
    table[: len(own), : own.shape[1]] = own
    bucket = feature.unknown_place() if isinstance(feature, Category) else None
    if bucket is not None and own.size:
        table[-2] = table[bucket]
    table[-1, own.shape[1] :] = STEPS
    return ColumnSums(feature.column, feature.vertices, table, gaps, facts)


def rounded(value: float, scale: float) -> float:
    """Return a number with four digits of its scale, for people to read."""
    return round(value, int(np.clip(4 - np.floor(np.log10(scale)), -300, 300)))


@final
@dataclass(frozen=True)
class FactCounts:
    """Everything that is counted for one schema; all of it public."""

    schema: PublicSchema  #: What it declares already is not learned again

    def __post_init__(self) -> None:
        if not self.columns:
            raise SchemaError(
                "schema: it declares everything that could be learned; there is nothing to pay for."
            )

    @cached_property
    def columns(self) -> tuple[ColumnSums, ...]:
        found = [one for one in map(_counted, self.schema.features) if one is not None]
        label = self.schema.outcome
        if label is not None and label.positive is not None and label.base_rate is None:
            side, facts = partial(_side, label), partial(_share_facts, label)
            found.append(ColumnSums(label.column, side, np.array([[0], [STEPS]]), False, facts))
        return tuple(found)

    @property
    def size(self) -> int:
        return sum(one.size for one in self.columns)

    @property
    def sensitivity(self) -> int:
        """How far one record moves all sums together, in L1 and in lattice steps."""
        return sum(one.sensitivity for one in self.columns)

    @property
    def longest(self) -> int:
        """How far all sums move together, in L1, when a record comes or goes."""
        return sum(one.longest for one in self.columns)

    @property
    def party_sensitivity(self) -> int:
        """How far a whole party moves all rounded means together, in L1, when it is replaced."""
        return self.sensitivity + self.size

    @property
    def names(self) -> list[str]:
        """The columns that a table must have."""
        return [one.column for one in self.columns]

    def sums(
        self,
        table: Any,
        # Whose record it is, from 0: then there is one row of sums per party.
        party: NDArray[np.intp] | None = None,
    ) -> Integers:
        """Return the exact sums of a table; for its owner alone.

        Raises InvalidData: naming every column in which something is wrong, and never a value.
        """
        frame = declared_columns(table, self.names)
        parts = each_column(self.columns, lambda one: one.sums(frame[one.column], party))
        return np.concatenate(parts, axis=-1)

    @staticmethod
    def means(sums: Integers, n_samples: Integers | int) -> Integers:
        """Return a party's sums, or one row per party, as means of its records, in whole steps."""
        count = np.asarray(n_samples, dtype=np.int64)[..., None]
        return np.asarray((2 * sums + count) // (2 * count))

    def learned(
        self,
        total: Floats,  # Noised sums, in lattice steps
        # Public number of records, or what noise has left of it; of sums of means, of parties.
        n_samples: float,
        deviation: float,  # Public standard deviation of the noise of an entry
    ) -> tuple[PublicSchema, dict[str, tuple[str, ...]]]:
        """Return the schema with what noised sums say, and what was learned of which column.

        Any numbers give facts that a schema takes: no record decides whether this fails.
        """
        declared = {one.column: one for one in self.schema.features}
        told: dict[str, dict[str, Any]] = {}
        ends = np.cumsum([one.size for one in self.columns])[:-1]
        for one, part in zip(self.columns, np.split(np.asarray(total, float), ends), strict=True):
            rate = float(np.clip(part[-1] / (STEPS * n_samples), 0.0, 0.98)) if one.gaps else 0.0
            present = max(n_samples * (1 - rate), 1.0) if one.gaps else n_samples
            own = one.facts(part[: one.size - one.gaps], present, deviation)
            feature = declared.get(one.column)
            # How often it is missing, only where that is used.
            if feature is not None and feature.has_indicator and feature.missing_share is None:
                share = float(np.clip(rate, LEAST_SHARE, 1 - LEAST_SHARE))
                own["missing_share"] = rounded(share, 1.0)
            told |= {one.column: own} if own else {}
        features = tuple(replace(one, **told.get(name, {})) for name, one in declared.items())
        label = self.schema.outcome
        if label is not None and label.column in told:
            label = replace(label, **told[label.column])
        made = replace(self.schema, features=features, outcome=label)
        return made, {column: tuple(facts) for column, facts in told.items()}
