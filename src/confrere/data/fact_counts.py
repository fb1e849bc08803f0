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
from confrere.data.cells import Cells, declared_columns, refuse
from confrere.data.features import ZEROS, Category, Feature, Flag, Label, Number, Ordered
from confrere.data.schema import PublicSchema
from confrere.errors import InvalidData, InvalidParameter, SchemaError

Integers = NDArray[np.int64]

#: One is so many lattice steps: numbers are rounded to this part of half their declared width.
STEPS = 1024

#: Cells of a number's histogram, between its bounds, where quantiles are learned.
CELLS = 32

#: How far variances and means of columns lie apart, where half the width of the bounds is one: what
#: the noise is held against. And how much must be left of what was counted.
_SPREAD, _CENTRES, _BELIEVED = 0.15, 0.5, 0.2

#: A share is never nearer to 0 or 1: a constant has no scale.
LEAST_SHARE = 0.001


@dataclass(frozen=True)
class ColumnSums:
    """What is counted of one column: of this one, how many cells are missing and nothing else."""

    column: str
    gaps: bool  #: Whether missing cells are counted too, in the last entry
    feature: Any  #: What is declared of it

    @property
    def own(self) -> int:
        """Entries without the one that counts missing cells."""
        return 0

    @property
    def moved(self) -> int:
        """How far, in L1, one cell's vector can be from another's, both of them present."""
        return 0

    @property
    def longest(self) -> int:
        """The L1 norm of a present cell's vector at most."""
        return 0

    @property
    def size(self) -> int:
        """Entries in all."""
        return self.own + self.gaps

    @property
    def sensitivity(self) -> int:
        """How far one record moves the sums, in L1: a missing cell has nothing but its count."""
        return max(self.moved, self.longest + STEPS) if self.gaps else self.moved

    def vectors(self, cells: Cells) -> tuple[Integers, NDArray[np.bool_]]:
        """Return ``(own, rows)`` integers, and which cells are missing."""
        absent = self.feature.vertices(cells) == self.feature.size - 1
        return np.zeros((0, len(absent)), dtype=np.int64), absent

    def sums(self, cells: Cells, party: NDArray[np.intp] | None = None) -> Integers:
        """Return the column's sums; refuse what encoding would refuse, and quote nothing.

        Of several parties, whose codes are ``party``, one row each.
        """
        counted, absent = self.vectors(cells)
        if isinstance(self.feature, Feature) and self.feature.missing is None:
            refuse(self.column, absent, "no value; declare what a missing one means")
        counted[:, absent] = 0
        if self.gaps:
            counted = np.vstack([counted, STEPS * absent.astype(np.int64)])
        if party is None:
            return np.asarray(counted.sum(axis=1, dtype=np.int64))
        totals = np.zeros((int(party.max()) + 1, len(counted)), dtype=np.int64)
        np.add.at(totals, party, counted.T)
        return totals

    def facts(self, total: Floats, n: float, deviation: float) -> dict[str, Any]:  # noqa: ARG002
        """Return what noised sums of so many records say, beside the share of missing cells."""
        return {}


@dataclass(frozen=True)
class MomentSums(ColumnSums):
    """A number in ``[-1, 1]`` between its bounds, and its square."""

    feature: Number | Ordered

    # ``|v| + v^2``
    own, longest = 2, 2 * STEPS

    @property
    def moved(self) -> int:
        """``max |v-v'| + |v^2-v'^2| = 9/4``, at 1 and -1/2; rounding the square adds a step.

        Of ranks, which are few, the farthest two are looked for.
        """
        if isinstance(self.feature, Number):
            return 9 * STEPS // 4 + 1
        ranks = self._vectors(np.clip(_ranks(self.feature), -1.0, 1.0))
        return max(int(np.abs(ranks - one[:, None]).sum(axis=0).max()) for one in ranks.T)

    def vectors(self, cells: Cells) -> tuple[Integers, NDArray[np.bool_]]:
        """Return rounded numbers and their rounded squares."""
        places, absent = _places_in_bounds(self.feature, cells)
        return self._vectors(places), absent

    @staticmethod
    def _vectors(places: Floats) -> Integers:
        v = np.rint(STEPS * places).astype(np.int64)
        return np.stack([v, (v * v + STEPS // 2) // STEPS])

    def facts(self, total: Floats, n: float, deviation: float) -> dict[str, Any]:
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
        centre, scale = self.feature.moments()
        low, high = centre - scale, centre + scale
        middle, half = (low + high) / 2, (high - low) / 2
        mean = float(np.clip(rounded(middle + half * v, half), low, high))
        return {"mean": mean, "sd": max(rounded(half * variance**0.5, half), half / STEPS)}


@dataclass(frozen=True)
class CellSums(ColumnSums):
    """Which of so many cells between its bounds a number is in."""

    feature: Number
    quantiles: int

    # A record is in one cell; if it moves, that one loses it and another gains it.
    own, moved, longest = CELLS, 2 * STEPS, STEPS

    def vectors(self, cells: Cells) -> tuple[Integers, NDArray[np.bool_]]:
        """Return one at a number's cell."""
        places, absent = _places_in_bounds(self.feature, cells)
        cells = np.clip(np.floor((places + 1) / 2 * CELLS), 0, CELLS - 1).astype(np.intp)
        return _one_hot(cells, CELLS), absent

    def facts(self, total: Floats, n: float, deviation: float) -> dict[str, Any]:  # noqa: ARG002
        """Return knots at equal shares of the noised histogram; even where it says nothing."""
        # A little of every cell keeps quantiles apart.
        shares = np.maximum(total[:CELLS], 0.0) / (STEPS * n) + 1 / (16 * CELLS)
        below = np.concatenate([[0.0], np.cumsum(shares / shares.sum())])
        edges = np.linspace(0.0, 1.0, CELLS + 1)
        inner = np.interp(np.arange(1, self.quantiles - 1) / (self.quantiles - 1), below, edges)
        found = self.feature.within_bounds([0.0, *inner.tolist(), 1.0])
        return {"quantiles": found} if min(np.diff(found)) > 0 else {}


@dataclass(frozen=True)
class ShareSums(ColumnSums):
    """How many records have each declared value."""

    feature: Category | Flag | Label

    @property
    def own(self) -> int:
        """One per value; of two sides one is enough."""
        return len(self.feature.known) if isinstance(self.feature, Category) else 1

    @property
    def moved(self) -> int:
        """One value loses a record, another gains it; a side alone loses it or gains it."""
        return self.longest if self.own == 1 else 2 * STEPS

    longest = STEPS  # a record has one value

    def vectors(self, cells: Cells) -> tuple[Integers, NDArray[np.bool_]]:
        """Return one at a record's value."""
        if isinstance(self.feature, Label):
            sides = np.asarray(self.feature.encode(cells)) == 1
            return STEPS * sides[None].astype(np.int64), np.zeros(len(sides), dtype=bool)
        places, absent = _declared_places(self.feature, cells)
        if isinstance(self.feature, Flag):
            return STEPS * (places == 1)[None].astype(np.int64), absent
        return _one_hot(places, self.own), absent

    def facts(self, total: Floats, n: float, deviation: float) -> dict[str, Any]:
        """Return shares, drawn towards equal ones as far as the noise is felt."""
        count = max(2, self.own)
        error = deviation / (STEPS * n)
        counted = np.clip(total[: self.own] / (STEPS * n), 0.0, 1.0)
        if self.own == 1:
            counted = np.array([counted[0], 1 - counted[0]])
        # Values that nobody declared may be in no column: then shares need not add up to one.
        open_ended = isinstance(self.feature, Category) and self.feature.unknown == ZEROS
        whole = float(np.clip(counted.sum(), 0.5, 1.0)) if open_ended else 1.0
        even = np.full(count, 1 / count)
        shares = counted / counted.sum() if counted.sum() > 0 else even
        pull = min(1.0, count * max(error, LEAST_SHARE))
        shares = np.clip((1 - pull) * shares + pull * even, LEAST_SHARE, 1 - LEAST_SHARE)
        told = [round(share, 6) for share in (whole * shares / shares.sum()).tolist()]
        if isinstance(self.feature, Category):
            return {"shares": told}
        return {"base_rate" if isinstance(self.feature, Label) else "share": told[0]}


def _places_in_bounds(feature: Number | Ordered, cells: Cells) -> tuple[Floats, NDArray[np.bool_]]:
    """Return where cells lie between the bounds, from -1 to 1, and which are missing."""
    if isinstance(feature, Ordered):
        ranks, absent = _declared_places(feature, cells)
        centred = _ranks(feature)[ranks]
    else:
        found, absent = feature.places(cells)
        centre, scale = replace(feature, mean=None, sd=None).moments()
        centred = (found - centre) / scale
    return np.where(absent, 0.0, np.clip(centred, -1.0, 1.0)), absent


def _ranks(feature: Ordered) -> Floats:
    """Return where the levels lie between the lowest and the highest, from -1 to 1."""
    centre, scale = feature.moments()
    return np.asarray((feature.ranks() - centre) / scale)


def _declared_places(feature: Feature, cells: Cells) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return which declared value a cell is, and which are missing; refuse what is undeclared."""
    places = feature.vertices(cells)
    absent, unknown = places == feature.size - 1, places == feature.size - 2
    bucket = feature.unknown_place() if isinstance(feature, Category) else None
    # What nobody declared is in its bucket, or beyond the last, in none.
    places[unknown] = len(feature.known) if bucket is None else bucket
    places[absent] = 0
    return places, absent


def _one_hot(places: NDArray[np.intp], count: int) -> Integers:
    here = places[None, :] == np.arange(count)[:, None]
    return np.asarray(STEPS * here.astype(np.int64))


def rounded(value: float, scale: float) -> float:
    """Return a number with four digits of its scale, for people to read."""
    return round(value, int(np.clip(4 - np.floor(np.log10(scale)), -300, 300)))


@final
@dataclass(frozen=True)
class FactCounts:
    """Everything that is counted for one schema; all of it public."""

    schema: PublicSchema  #: What it declares already is not learned again
    #: Learn so many quantiles of every number that may become a curve, from its lower to its upper
    #: bound; 0 for none, otherwise at least 3.
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
    def columns(self) -> tuple[ColumnSums, ...]:
        """What is counted, column by column; of none twice what is missing."""
        return tuple(self._counts())

    def _counts(self) -> Iterator[ColumnSums]:
        for feature in self.schema.features:
            gaps = feature.missing is not None
            found: list[ColumnSums] = []
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
                found.append(ColumnSums(feature.column, True, feature))
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
        self,
        total: Floats,  # Noised sums, in lattice steps
        # Public number of records, or what noise has left of it; of sums of means, of parties.
        n_samples: float,
        deviation: float,  # Public standard deviation of the noise of an entry
    ) -> tuple[PublicSchema, dict[str, tuple[str, ...]]]:
        """Return the schema with what noised sums say, and what was learned of which column.

        Any numbers give facts that a schema takes: no record decides whether this fails.
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
