"""Rows of several parties, one after the other, and a mechanism that runs for each of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.arrays import Floats
from confrere.errors import InvalidData
from confrere.kernel.guarantee import Guarantee, Neighbours, Split, in_parallel
from confrere.kernel.streams import RandomSource
from confrere.mechanisms.measurements import HiddenSize, RowCount, sample_parties
from confrere.mechanisms.output_perturbation import OutputPerturbation, run_output_parties
from confrere.methods.plan import LabelledTable
from confrere.rows.body import BodyFrame
from confrere.rows.frame import Frame
from confrere.schema.codes import Coded

#: From how many parties on, and up to how many rows on average, a group is worked on as a whole.
_MANY, _SMALL = 100, 200

#: Numbers in a block of members: two megabytes.
_BLOCK_NUMBERS = 1 << 18

Combine = Literal["mean", "trimmed", "median"]

#: Share of the parties that a trimmed mean leaves out at either end.
_TRIMMED = 0.2


@dataclass(frozen=True, eq=False)
class PartyRows:
    """Rows and labels, party by party.

    Parameters
    ----------
    X, y : arrays
        All rows, and labels -1 and +1, or codes of more than two classes.
    offsets : (n_parties + 1,) array of int
        Where each party's rows begin; the last number is the number of rows.
    """

    X: Floats | Coded
    y: NDArray[Any]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, data: LabelledTable, n_parties: int = 1) -> PartyRows:
        """Sort the rows of a table by party; within a party their order stays."""
        codes = np.zeros(len(data.codes), dtype=np.intp) if data.party is None else data.party
        order = np.argsort(codes, kind="stable")
        counts = np.bincount(codes, minlength=n_parties)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return cls(data.X[order], data.labels[order], offsets)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of rows of every party."""
        return np.diff(self.offsets)

    @property
    def distinct_sizes(self) -> list[int]:
        """The numbers of rows that occur, each once."""
        sizes: list[int] = np.unique(self.sizes).tolist()
        return sizes

    @property
    def many(self) -> bool:
        """Whether parties are many and small, so that they are worth stacking.

        Rows in the hundreds are solved sooner by a party's own matrix products.
        """
        return len(self.sizes) >= _MANY and len(self.y) <= _SMALL * len(self.sizes)

    def members(self) -> Iterator[tuple[Any, Any]]:
        """Yield the parties' rows and labels one by one."""
        for begin, end in zip(self.offsets, self.offsets[1:], strict=False):
            yield self.X[begin:end], self.y[begin:end]

    def blocks(self) -> Iterator[PartyRows]:
        """Yield a few parties at a time, few enough to stay in cache.

        A party with more rows than that is a block of its own.
        """
        first, count = 0, len(self.sizes)
        while first < count:
            begin = self.offsets[first]
            end = begin + _BLOCK_NUMBERS // self.X.shape[1]
            last = max(first + 1, int(np.searchsorted(self.offsets, end, side="right")) - 1)
            rows = slice(int(begin), int(self.offsets[last]))
            yield PartyRows(self.X[rows], self.y[rows], self.offsets[first : last + 1] - begin)
            first = last


@dataclass(frozen=True)
class Sizes:
    """The parties that take part, with the weights of their votes.

    Parameters
    ----------
    counts : mapping of str to int
        Number of records, at least one.
    neighbours : Neighbours
        Replace-one where sizes are public, add-remove where they are declared or were counted with
        noise.
    receipts : mapping of str to tuple of Receipt
        What the counts cost.
    """

    counts: Mapping[str, int]
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    receipts: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    @classmethod
    def declared(cls, parties: Iterable[str], total: int) -> Sizes:
        """Return parties whose own sizes are not public, of so many records in all."""
        names = list(parties)
        part = HiddenSize(math.ceil(HiddenSize(total).declared / len(names))).declared
        return cls(dict.fromkeys(names, part), Neighbours.ADD_REMOVE)

    @property
    def total(self) -> int:
        """Records behind what is averaged."""
        return sum(self.counts.values())

    @property
    def hidden(self) -> bool:
        """Whether parties' numbers of records are not public."""
        return self.neighbours is Neighbours.ADD_REMOVE

    @property
    def part(self) -> int:
        """What stands for every party's own number where that is not public."""
        return math.ceil(self.total / len(self.counts))

    def count(self, n_samples: int) -> RowCount:
        """Return the number of records of a party that has so many, as far as it is public."""
        return HiddenSize(self.part) if self.hidden else n_samples

    @property
    def all_records(self) -> RowCount:
        """The number of all parties' records, or what stands for it."""
        return HiddenSize(self.total) if self.hidden else self.total

    @property
    def distinct(self) -> list[RowCount]:
        """The numbers of records that parties have, as far as they are public, each once."""
        if self.hidden:
            return [HiddenSize(self.part)]
        return [*sorted(set(self.counts.values()))]


def party_codes(party: ArrayLike | None, n_samples: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the parties, sorted, and the position of every row's party among them."""
    if party is None:
        return np.array(["all"]), np.zeros(n_samples, dtype=np.intp)
    ids = np.asarray(party)
    if ids.shape != (n_samples,):
        raise InvalidData("party must name one party per row of X.")
    try:
        parties, codes = np.unique(ids, return_inverse=True)
    except TypeError:
        raise InvalidData("party must hold names of one type.") from None
    return parties, codes


def over_parties(prices: Sequence[Guarantee], n_parties: int) -> Guarantee:
    """Compose what parties of disjoint records promise: the largest counts."""
    if n_parties == 1:
        return prices[0]
    return in_parallel(prices, split=Split.BY_ORGANISATION)


def run_parties(
    mechanisms: Mapping[int, Any],  # What a party of that many records runs; all of one kind
    parties: PartyRows,  # Rows as encoded
    frame: Frame | BodyFrame,  # The public coordinates
    *,
    source: RandomSource,  # Where all noise comes from; every party has draws of its own
    centre: Floats | None = None,  # Public point to shrink towards
) -> Floats:
    """Return every party's released weights, one vector (or matrix, of several classes) each."""
    any_one = next(iter(mechanisms.values()))
    in_output = isinstance(any_one, OutputPerturbation)
    several = (any_one if in_output else any_one.loss).n_classes > 2
    if not parties.many or several:
        own = source.apart(Split.BY_ORGANISATION)
        return np.stack(
            [
                mechanisms[len(y)].run(frame.rows(X), y, source=next(own), centre=centre)
                if in_output
                else mechanisms[len(y)].sample(
                    [frame.rows(X)], y, source=next(own), centres=[centre]
                )[0][0]
                for X, y in parties.members()
            ]
        )
    blocks = ((frame.rows(one.X).written(), one.y, one.offsets) for one in parties.blocks())
    if not in_output:
        return sample_parties(mechanisms, blocks, source=source, centre=centre)
    prices = [one.guarantee() for one in mechanisms.values()]
    stream = source.book(in_parallel(prices, split=Split.BY_ORGANISATION))
    return np.concatenate(
        [run_output_parties(mechanisms, *block, source=stream, centre=centre) for block in blocks]
    )


def combine_weights(released: Floats, counts: Sequence[int], how: Combine) -> Floats:
    """Return the parties' weights, one vector or matrix each, as one."""
    if released.ndim == 3:
        # What all classes share says nothing about any of them, and would be ordered along.
        released = released - released.mean(axis=1, keepdims=True)
    if how == "mean":
        records = np.array(counts, dtype=np.float64)
        share = (records / records.sum()).reshape(-1, *[1] * (released.ndim - 1))
        return _sum(share * released)
    ordered = np.sort(released, axis=0)
    cut = (len(ordered) - 1) // 2
    if how == "trimmed":
        cut = min(cut, max(1, int(_TRIMMED * len(ordered))))
    return _sum(ordered[cut : len(ordered) - cut]) / (len(ordered) - 2 * cut)


def _sum(rows: Floats) -> Floats:
    # One after the other: a party that adds up on another machine gets the same bits.
    return np.asarray(np.add.accumulate(rows, axis=0)[-1])
