"""What would have to be counted to learn the facts that a schema does not declare.

Every fact comes from sums of small integers, one vector per record, and one record moves the sum
of all vectors by a public amount. Nothing here draws noise or charges: from a table to exact
integers, and from noised integers to facts.

Proof: docs/proofs/learned_facts.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter, SchemaError
from confrere.schema.column_sums import (
    CELLS,
    LEAST_SHARE,
    STEPS,
    AnySums,
    CellSums,
    GapSums,
    Integers,
    MomentSums,
    ShareSums,
    rounded,
)
from confrere.schema.discrete import Category, Flag, Ordered
from confrere.schema.feature import Feature, Number
from confrere.schema.public_schema import PublicSchema
from confrere.schema.tables import declared_columns


@final
@dataclass(frozen=True)
class FactCounts:
    """Everything that is counted for one schema; all of it public.

    Parameters
    ----------
    schema : PublicSchema
        What it declares already is not learned again.
    quantiles : int, default=0
        Learn so many quantiles of every number that may become a curve, from its lower to its
        upper bound; 0 for none, otherwise at least 3.
    """

    schema: PublicSchema
    quantiles: int = 0

    def __post_init__(self) -> None:
        q: object = self.quantiles
        if isinstance(q, bool) or not isinstance(q, int) or (q != 0 and not 3 <= q <= CELLS // 2):
            raise InvalidParameter(
                f"quantiles must be 0, or a whole number from 3 to {CELLS // 2}."
            )
        if not self.columns:
            raise SchemaError(
                "schema: it declares everything that could be learned; there is nothing to pay for."
            )

    @property
    def columns(self) -> tuple[AnySums, ...]:
        """What is counted, column by column; of none twice what is missing."""
        return tuple(self._counts())

    def _counts(self) -> Iterator[AnySums]:
        for feature in self.schema.features:
            gaps = feature.missing is not None
            found: list[AnySums] = []
            if isinstance(feature, Number):
                if feature.sd is None:
                    found.append(MomentSums(feature.column, gaps, feature))
                if self.quantiles and feature.curve in ("auto", True) and not feature.quantiles:
                    found.append(
                        CellSums(feature.column, gaps and not found, feature, self.quantiles)
                    )
            elif isinstance(feature, Ordered):
                if feature.sd is None and feature.shares is None:
                    found.append(MomentSums(feature.column, gaps, feature))
            elif isinstance(feature, Category | Flag):
                known = feature.shares if isinstance(feature, Category) else feature.share
                if known is None:
                    found.append(ShareSums(feature.column, gaps, feature))
            if not found and feature.has_indicator and feature.missing_share is None:
                found.append(GapSums(feature.column, True, feature))
            yield from found
        outcome = self.schema.outcome
        if outcome is not None and outcome.positive is not None and outcome.base_rate is None:
            yield ShareSums(outcome.column, False, outcome)

    @property
    def size(self) -> int:
        """How many sums there are."""
        return sum(one.size for one in self.columns)

    @property
    def sensitivity(self) -> int:
        """How far one record moves all sums together, in L1 and in lattice steps."""
        return sum(one.sensitivity for one in self.columns)

    @property
    def longest(self) -> int:
        """How far all sums move together, in L1, when a record comes or goes."""
        return sum(max(one.longest, STEPS if one.gaps else 0) for one in self.columns)

    @property
    def party_sensitivity(self) -> int:
        """How far a whole party moves all rounded means together, in L1, when it is replaced."""
        return self.sensitivity + self.size

    @property
    def names(self) -> list[str]:
        """The columns that a table must have."""
        return list(dict.fromkeys(one.column for one in self.columns))

    def sums(self, table: Any, party: NDArray[np.intp] | None = None) -> Integers:
        """Return the exact sums of a table; for its owner alone.

        Parameters
        ----------
        table : data frame
        party : (n,) array of int, optional
            Whose record it is, from 0: then there is one row of sums per party.

        Raises
        ------
        InvalidData
            Naming every column in which something is wrong, and never a value.
        """
        frame = declared_columns(table, self.names)
        parts, problems = [], []
        for one in self.columns:
            try:
                parts.append(one.sums(frame[one.column], party))
            except InvalidData as problem:
                problems.append(str(problem))
        if problems:
            raise InvalidData("\n".join(problems))
        return np.concatenate(parts, axis=-1)

    @staticmethod
    def means(sums: Integers, n_samples: Integers | int) -> Integers:
        """Return a party's sums, or one row per party, as means of its records, in whole steps."""
        count = np.asarray(n_samples, dtype=np.int64)[..., None]
        return np.asarray((2 * sums + count) // (2 * count))

    def learned(
        self, total: Floats, n_samples: float, deviation: float
    ) -> tuple[PublicSchema, dict[str, tuple[str, ...]]]:
        """Return the schema with what noised sums say, and what was learned of which column.

        Any numbers give facts that a schema takes: no record decides whether this fails.

        Parameters
        ----------
        total : array
            Noised sums, in lattice steps.
        n_samples : float
            Public number of records, or what noise has left of it; of sums of means, of parties.
        deviation : float
            Public standard deviation of the noise of an entry.
        """
        told: dict[str, dict[str, Any]] = {}
        missing: dict[str, float] = {}
        start = 0
        for one in self.columns:
            part = np.asarray(total[start : start + one.size], dtype=np.float64)
            start += one.size
            present = n_samples * (1 - missing.get(one.column, 0.0))
            if one.gaps:
                rate = float(np.clip(part[-1] / (STEPS * n_samples), 0.0, 0.98))
                missing[one.column] = rate
                present = max(n_samples * (1 - rate), 1.0)
                told.setdefault(one.column, {})["missing_share"] = rounded(
                    float(np.clip(rate, LEAST_SHARE, 1 - LEAST_SHARE)), 1.0
                )
            told.setdefault(one.column, {}).update(one.facts(part, present, deviation))
        features = tuple(
            _with(feature, told.get(feature.column, {})) for feature in self.schema.features
        )
        outcome = self.schema.outcome
        if outcome is not None and "base_rate" in told.get(outcome.column, {}):
            outcome = replace(outcome, base_rate=told[outcome.column]["base_rate"])
        made = replace(self.schema, features=features, outcome=outcome)
        return made, dict(_difference(self.schema, made))


def _with(feature: Feature, facts: dict[str, Any]) -> Feature:
    """Return the feature with learned facts; how often it is missing only where that is used."""
    kept = dict(facts)
    if not feature.has_indicator or feature.missing_share is not None:
        kept.pop("missing_share", None)
    return replace(feature, **kept) if kept else feature


def _difference(before: PublicSchema, after: PublicSchema) -> Iterator[tuple[str, tuple[str, ...]]]:
    for one, other in zip(before.features, after.features, strict=True):
        keys = tuple(k for k, value in other.to_dict().items() if one.to_dict().get(k) != value)
        if keys:
            yield one.column, keys
    if before.outcome is not None and before.outcome != after.outcome:
        yield before.outcome.column, ("base_rate",)
