"""A protocol between parties is a generator of questions; whoever drives it says how they travel.

Four drivers run the same generator: in this process, over rows that are here (:func:`in_process`);
between machines; over made-up answers, to see what may be asked; and over answers that were signed,
to see what follows from them. The last three are the federation's.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.arrays import Floats
from confrere.data.cells import Coded
from confrere.data.encoding import SchemaEncoder
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.accountants import Labels as Labels
from confrere.kernel.accountants import check_delta
from confrere.kernel.guarantee import Guarantee, Neighbours, Split
from confrere.kernel.ledger import Receipt
from confrere.kernel.measurements import Picked, RowCount, SecureSum
from confrere.kernel.noise import HiddenSize, RandomSource
from confrere.ledger.compose import Apart
from confrere.methods.plan import LabelledTable, Term
from confrere.solver.row_blocks import Engine

Rows = Floats | Coded  #: As encoded, before a frame
Reader = Engine | None  #: Who reads rows that are many
Arrays = dict[str, NDArray[Any]]
Receipts = Mapping[str, tuple[Receipt, ...]]
T = TypeVar("T")

#: From how many voters on a group is worked on as a whole.
MANY = 100

Combine = Literal["mean", "trimmed", "median"]

#: Share of the parties that a trimmed mean leaves out at either end.
_TRIMMED = 0.2


@dataclass(frozen=True, eq=False)
class PartyRows:
    X: Floats | Coded
    y: Labels
    offsets: NDArray[np.int64]  #: Where each party's rows begin, and where the last one's end

    @classmethod
    def of(cls, data: LabelledTable, n_parties: int = 1) -> PartyRows:
        codes = np.zeros(len(data.codes), dtype=np.intp) if data.party is None else data.party
        order = np.argsort(codes, kind="stable")
        counts = np.bincount(codes, minlength=n_parties)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return cls(data.X[order], data.labels[order], offsets)

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def members(self) -> Iterator[tuple[Rows, Labels]]:
        for begin, end in zip(self.offsets, self.offsets[1:], strict=False):
            yield self.X[begin:end], self.y[begin:end]


@dataclass(frozen=True)
class Sizes:
    """The parties that take part, with the weights of their votes."""

    counts: Mapping[str, int]  #: Numbers of records, at least one
    #: Replace-one where sizes are public, add-remove where they are declared.
    neighbours: Neighbours = Neighbours.REPLACE_ONE

    @classmethod
    def declared(cls, parties: Iterable[str], total: int) -> Sizes:
        """Return parties whose own sizes are not public, of so many records in all."""
        names = list(parties)
        part = HiddenSize(math.ceil(HiddenSize(total).declared / len(names))).declared
        return cls(dict.fromkeys(names, part), Neighbours.ADD_REMOVE)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def check_delta(self, delta: float) -> None:
        largest = max(self.counts, key=self.counts.__getitem__)
        try:
            check_delta(delta, self.counts[largest])
        except InvalidParameter as error:
            raise InvalidParameter(f"{error} The largest party is {largest!r}.") from None

    @property
    def hidden(self) -> bool:
        return self.neighbours is Neighbours.ADD_REMOVE

    @property
    def part(self) -> int:
        """What stands for every party's own number where that is not public."""
        return math.ceil(self.total / len(self.counts))

    def count(self, n_samples: int) -> RowCount:
        return HiddenSize(self.part) if self.hidden else n_samples

    @property
    def all_records(self) -> RowCount:
        return HiddenSize(self.total) if self.hidden else self.total


def party_codes(
    party: ArrayLike | None, n_samples: int
) -> tuple[NDArray[np.generic], NDArray[np.intp]]:
    if party is None:
        return np.array(["all"]), np.zeros(n_samples, dtype=np.intp)
    ids = np.asarray(party)
    if ids.shape != (n_samples,):
        raise InvalidData("party must name one party per row of X.")
    try:
        return np.unique(ids, return_inverse=True)
    except TypeError:
        raise InvalidData("party must hold names of one type.") from None


def over_parties(prices: Sequence[Guarantee], n_parties: int) -> Guarantee:
    """Compose what parties of disjoint records promise: the largest counts."""
    if n_parties == 1:
        return prices[0]
    return Apart(prices, Split.BY_ORGANISATION).guarantee()


def combine_weights(released: Floats, counts: Sequence[int], how: Combine) -> Floats:
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


class Asked(ABC):
    """What every party is asked for, the same of all."""

    @property
    @abstractmethod
    def operation(self) -> str:
        """How it is asked for, and its noise told apart where it is seeded."""


class Measured(Asked):
    """What is asked of rows; by a party's size it is a measurement."""

    @abstractmethod
    def release(self, X: Rows, y: Labels, source: RandomSource, engine: Reader = None) -> Arrays:
        """Return what one party with these rows, as encoded, and labels answers."""

    def release_all(self, parties: PartyRows, names: Sequence[str], source: RandomSource) -> Arrays:
        """Return what all parties answer, one row each; where noise is seeded, as they would."""
        own = (
            one.stream(name, 0)
            for name, one in zip(names, source.apart(Split.BY_ORGANISATION), strict=False)
        )
        return stacked([self.release(X, y, next(own)) for X, y in parties.members()])


@dataclass(frozen=True, kw_only=True, eq=False)
class AskedOfRows(Measured):
    """What is asked of rows that are hidden by a relation."""

    gives: ClassVar[tuple[str, ...]]  #: What an answer's arrays are called

    n_classes: int = 2
    neighbours: str = "replace-one"  #: The relation that an answer's guarantee speaks of
    declared: int = 0  #: Under add-remove: what stands for every party's number of records

    def count(self, n_samples: int) -> RowCount:
        hidden = self.neighbours == Neighbours.ADD_REMOVE
        return HiddenSize(self.declared) if hidden else n_samples

    @abstractmethod
    def mechanism(self, n_samples: int) -> Any:
        """Return the measurement that a party of that size runs, which knows its price."""

    @abstractmethod
    def seen(self, X: Rows, y: Labels, engine: Reader = None) -> object:
        """Return what the measurement samples from."""

    def release(self, X: Rows, y: Labels, source: RandomSource, engine: Reader = None) -> Arrays:
        drawn = source.draw(self.mechanism(len(y)), self.seen(X, y, engine))
        return {name: each[0] for name, each in zip(self.gives, drawn, strict=True)}

    def guarantee(self, sizes: Sizes) -> Guarantee:
        prices = [self.mechanism(n).guarantee() for n in sorted(set(sizes.counts.values()))]
        return over_parties(prices, len(sizes.counts))

    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        return [
            Term(name, self.mechanism(len(y)), self.seen(X, y))
            for name, (X, y) in zip(sizes.counts, parties.members(), strict=True)
        ]


class AskedSum(Measured):
    """What every party adds to a sum that nobody sees into, with its share of the noise."""

    @property
    @abstractmethod
    def mechanism(self) -> SecureSum:
        """The sum that answers belong to: its law, its lattice, its price."""

    @abstractmethod
    def vector(self, X: Rows, y: Labels, picked: Picked | None = None) -> Floats:
        """Return what a party adds, before its share of the noise.

        Where its number of records is not public, ``picked`` draws which of them it uses.
        """

    def guarantee(self, sizes: Sizes) -> Guarantee:
        return self.mechanism.guarantee()

    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        vectors = [self.vector(X, y) for X, y in parties.members()]
        return [Term("sum", self.mechanism, np.stack(vectors))]

    def release(self, X: Rows, y: Labels, source: RandomSource, engine: Reader = None) -> Arrays:
        (words,) = source.draw(self.mechanism.share, partial(self.vector, X, y))
        return {"masked": words.view(np.int64)}

    def release_all(self, parties: PartyRows, names: Sequence[str], source: RandomSource) -> Arrays:
        vectors = [partial(self.vector, X, y) for X, y in parties.members()]
        ((total,),) = source.draw(self.mechanism, zip(names, vectors, strict=True))
        return {"sum": total}


#: How many parties may pool what they know; "auto" is a minority of those of a sum.
Colluding = int | Literal["auto"]


def fewest_of(n_parties: int, quorum: float) -> int:
    return max(1, math.ceil(quorum * n_parties - 1e-9))


def quorum_of_sums(n_parties: int) -> float:
    """Return the share of the parties that a sum needs: all but one, of two or three everybody."""
    return 1.0 if n_parties <= 3 else (n_parties - 1) / n_parties


def colluders_of(said: Colluding, n_parties: int, quorum: float) -> int:
    """Return how many may collude: where nobody says it a minority, and at least one."""
    fewest = fewest_of(n_parties, quorum)
    return fewest - min(fewest // 2 + 1, fewest - 1) if said == "auto" else said


@dataclass(frozen=True, kw_only=True, eq=False)
class Tries:
    """What a sum that nobody sees into has to stand: who pools what they know, and who vanishes."""

    #: How many parties may pool what they know; by default a minority of those of a sum.
    collusion_threshold: Colluding = "auto"
    max_retries: int = 0  #: How often a lost sum may be tried again, paid for at once
    #: Share of the parties that a sum needs; the noise is made by those who would be there.
    quorum: float = 1.0

    def __post_init__(self) -> None:
        if self.max_retries < 0:
            raise InvalidParameter("max_retries must be at least 0.")
        if not 0 < self.quorum <= 1:
            raise InvalidParameter("quorum must be a number above 0 and at most 1.")

    def pooling(self, n_parties: int) -> int:
        return colluders_of(self.collusion_threshold, n_parties, self.quorum)

    def tried(self, n_parties: int, rounds: int = 1, **facts: Any) -> SecureSum:
        """Return a sum of so many parties, so often and in as many tries as are paid for."""
        least = {"fewest": fewest_of(n_parties, self.quorum), "colluding": self.pooling(n_parties)}
        facts = {"n_parties": n_parties, "releases": rounds + self.max_retries, **least, **facts}
        return SecureSum(**facts)


def relation(sizes: Sizes) -> dict[str, Any]:
    return {"neighbours": str(sizes.neighbours), "declared": sizes.part if sizes.hidden else 0}


def stacked(answers: Sequence[Mapping[str, NDArray[np.generic]]]) -> dict[str, Any]:
    every = {name: [one[name] for one in answers] for name in answers[0]}
    alike = {name for name, each in every.items() if len({one.shape for one in each}) == 1}
    return {name: np.stack(each) if name in alike else each for name, each in every.items()}


@dataclass(frozen=True, eq=False)
class Ask:
    asked: Asked
    to: Mapping[str, int]  #: Whom, with their public numbers of records, 0 where they are not known
    step: int = 0  #: Which time in the run
    later: int = 0  #: Of a sum: how many more of the run follow
    quorum: float = 1.0  #: Share of them that must answer
    #: By what the rows are encoded that it is about, if that is not known from the beginning.
    encoder: SchemaEncoder | None = None


@dataclass(frozen=True, eq=False)
class Told:
    names: tuple[str, ...]  #: Who did; of a sum, who is in it
    arrays: Arrays  #: One row for each; of a sum, the sum
    receipts: Receipts = field(default_factory=dict)  #: What each has paid, where it keeps books
    made_up: bool = False  #: By nobody: whatever may be asked later is to be asked


#: Yields questions, is sent what was answered, and returns what is made of it.
Protocol = Generator[Ask, Told, T]


def drive(protocol: Protocol[T], answer: Callable[[Ask], Told]) -> T:
    try:
        ask = next(protocol)
        while True:
            ask = protocol.send(answer(ask))
    except StopIteration as end:
        found: T = end.value
        return found


def in_process(protocol: Protocol[T], parties: PartyRows, sizes: Sizes, source: RandomSource) -> T:
    """Run a protocol over rows that are all here, at the price that its source was paid for."""
    names = tuple(sizes.counts)

    def answer(ask: Ask) -> Told:
        assert isinstance(ask.asked, Measured)
        stream = source.stream(ask.asked.operation, ask.step)
        return Told(names, ask.asked.release_all(parties, names, stream))

    return drive(protocol, answer)


@dataclass(frozen=True, eq=False)
class Size(Measured):
    """The number of records: where one is replaced by another, it is public."""

    operation: ClassVar[str] = "size"
    most: int = 10**10  #: More than anybody has, or than delta promises anything to

    def release(self, X: Rows, y: Labels, source: RandomSource, engine: Reader = None) -> Arrays:
        return {"size": np.array(len(y))}


def known_sizes(told: Sizes | Sequence[str], delta: float = 0.0) -> Protocol[Sizes]:
    """Return sizes that are known, or ask everyone of these names for its own."""
    if isinstance(told, Sizes):
        return told
    size = Size(most=min(Size.most, math.ceil(1 / delta) - 1)) if delta else Size()
    answers = yield Ask(size, dict.fromkeys(told, 0))
    counts = dict(zip(answers.names, answers.arrays["size"].tolist(), strict=True))
    if answers.made_up and delta:  # so small that delta promises something to all together
        most = max(1, int(0.5 / (delta * len(counts))))
        counts = {name: min(n, most) for name, n in counts.items()}
    return Sizes(counts)
