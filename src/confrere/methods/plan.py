"""What every algorithm is: a price, a note for the ledger, an act, and what an auditor may ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats
from confrere.data.cells import as_cells, meaning, read_places, spelt
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import Guarantee, PrivacyEvent
from confrere.kernel.streams import RandomSource
from confrere.mechanisms.measurements import Act, NoisedPoint, PerturbedTerm
from confrere.model import Facts, Model
from confrere.solver.row_blocks import Engine

#: Labels beyond which codes take one byte.
_MANY = 2**20

Learned = TypeVar("Learned", covariant=True)

#: What an exact audit asks of a release: the density of each thing that is noised.
Density = NoisedPoint | PerturbedTerm


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicFacts:
    """What a plan may depend on besides its settings. Nothing in it comes from a record."""

    n_samples: int  #: Public sizes of the table
    n_features: int
    n_classes: int = 2  #: Number of declared labels
    #: The declared labels, sorted; None where only a price is asked
    classes: NDArray[Any] | None = None
    features: Sequence[str] | None = None  #: Names of the columns; None where only a price is asked
    sizes: Mapping[str, int] | None = None  #: Number of records of every party
    auxiliary: Floats | None = None  #: Public rows without labels


@dataclass(frozen=True)
class Names:
    """What a released model calls its labels and its columns."""

    classes: tuple[Any, ...]
    features: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class LabelledTable:
    """Records of one organisation, or of many."""

    X: Any  #: ``(n, d)``: Rows as given
    codes: NDArray[np.intp]  #: ``(n,)``: Position of every label among ``classes``
    classes: NDArray[Any]  #: The declared labels, sorted
    features: Sequence[str]  #: Names of the columns
    #: ``(n,)``: Whose row it is: a position among the parties
    party: NDArray[np.intp] | None = None
    engine: Engine | None = None  #: Who reads the rows

    @property
    def names(self) -> Names:
        """What a model of these records calls labels and columns."""
        return Names(tuple(self.classes.tolist()), tuple(self.features))

    @property
    def signs(self) -> Floats:
        """Labels as -1 for the first class and +1 for the second."""
        return np.where(self.codes == 1, 1.0, -1.0)

    @property
    def short_labels(self) -> NDArray[Any]:
        """The same as :attr:`labels`, in one byte each if there are two classes."""
        if len(self.classes) > 2:
            return self.codes
        signs = self.codes.astype(np.int8)
        signs *= 2
        signs -= 1
        return signs

    @property
    def labels(self) -> Floats | NDArray[np.intp]:
        """Labels as mechanisms take them: signs of two classes, codes of more."""
        return self.codes if len(self.classes) > 2 else self.signs


@dataclass(frozen=True, eq=False)
class Term:
    """One mechanism and the bounded rows that it sees.

    What is noised apart is a term of its own; losses of privacy of one record's terms add up.
    """

    name: str  #: Which part of the plan
    mechanism: Any  #: Its ``guarantee``, rates and ridges are public
    data: Any  #: What ``mechanism.sample`` takes
    check: Any = None  #: Of a check of a prior: the rule that its mechanism follows from

    def run_many(self, source: RandomSource, count: int) -> Floats:
        """Return ``(count, k)`` independent releases; for made-up rows, from a seeded source."""
        released = source.draw(self.mechanism, self.data, count)
        return np.hstack([each.reshape(count, -1) for each in released])

    def densities(self) -> list[Density]:
        """Return the density of each thing that is noised apart, for an exact audit."""
        return list(self.mechanism.densities(self.data))


class Plan(ABC, Generic[Learned]):
    """An algorithm on public facts: everything that is decided before the data are touched."""

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Return the price; touches no data."""

    def event(self) -> PrivacyEvent:
        """Return what the ledger keeps for accountants: the price, where nothing else composes."""
        return self.guarantee().event()

    @abstractmethod
    def run(self, data: Any, source: RandomSource) -> Learned:
        """Return what was learned; draws noise, and knows no ledger: the caller has paid."""

    @abstractmethod
    def terms(self, data: Any) -> list[Term]:
        """Return the mechanisms with the rows that each of them sees, for an auditor."""

    def run_many(self, data: Any, source: RandomSource, count: int) -> Floats:
        """Return the numbers that ``count`` independent runs release, one run per row.

        For made-up data and a seeded source: two releases of the same data cost twice.
        """
        return np.hstack([term.run_many(source, count) for term in self.terms(data)])

    @property
    def batched(self) -> bool:
        """Whether :meth:`run_many` can be asked: many runs share their passes over the rows."""
        return True

    def later_mechanisms(self) -> tuple[Any, ...]:
        """Return mechanisms that learn from what others released: rows that nobody can choose."""
        return ()


class ModelPlan(Plan[Model]):
    """A plan that one organisation carries out by itself: noised numbers, then public arithmetic.

    The numbers are all that crosses a boundary; whoever has the plan makes the model of them.
    """

    @abstractmethod
    def release(self, data: LabelledTable, source: RandomSource) -> dict[str, Floats]:
        """Return the noised numbers, by name; the caller has paid."""

    @abstractmethod
    def assemble(self, released: Mapping[str, Floats], names: Names) -> Model:
        """Return the model of released numbers: post-processing."""

    @abstractmethod
    def minimisers(self) -> dict[str, Act]:
        """Return the act behind each of the numbers: what shape and length they may have."""

    def bounds(self) -> dict[str, tuple[tuple[int, ...], float]]:
        """Return the shape of each of the numbers, and a length that it does not exceed."""
        return {name: (act.shape, act.longest) for name, act in self.minimisers().items()}

    @abstractmethod
    def facts(self) -> Facts:
        """Return the public facts that a release of the model carries."""

    def run(self, data: LabelledTable, source: RandomSource) -> Model:
        """Return the released model of rows as given."""
        return self.assemble(self.release(data, source), data.names)


def declared_classes(classes: Any, y: Any, *, simulated: bool) -> NDArray[Any]:
    """Return the sorted public label set.

    It is ``classes`` if given, else what the *type* of ``y`` declares (the categories of a pandas
    categorical, the two booleans), else 0 and 1. Only a simulation may read it off the data.
    """
    if classes is not None:
        declared = np.unique(np.asarray(classes))
        meant = {meaning(label) for label in declared.tolist()}
        if declared.ndim != 1 or len(meant) != np.size(classes) or None in meant:
            raise InvalidParameter(
                "classes must be a flat list of labels that mean different things: texts of one "
                "number are one label, and texts such as NA are none."
            )
        if len(declared) < 2:
            raise InvalidParameter("classes must name at least two labels.")
        return declared
    categories = getattr(getattr(y, "dtype", None), "categories", None)
    if categories is not None and len(categories) > 1:
        return np.unique(np.asarray(categories))
    values = np.asarray(y)
    if values.dtype.kind in "biuf" and bool(((values == 0) | (values == 1)).all()):
        # A list has the type of the strangest thing in it, which no record may choose.
        return np.array([0, 1], dtype=values.dtype if hasattr(y, "dtype") else np.int64)
    if not simulated:
        raise InvalidParameter(
            "classes must be declared unless the labels are 0 and 1: a label set learned from y "
            "would reveal who is in it. Pass classes=[...]."
        )
    return np.unique(values)


def encode_labels(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the position of every label in ``classes``, or refuse what was not declared.

    Where one of them may hold texts, a label is what it means: one cannot change the others' type.
    """
    if len(y) > _MANY and len(classes) < 128:
        return _encoded_in_parts(y, classes)
    if y.dtype.kind in "biuf" and classes.dtype.kind in "biuf":
        codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        known = classes[codes] == y
    else:
        places = {spelt(meaning(label) or 0.0): k for k, label in enumerate(classes.tolist())}
        codes = read_places("y", as_cells(y), places)
        known = codes >= 0
    if not known.all():
        raise InvalidData("y has labels outside classes; declare them or drop the rows.")
    return np.asarray(codes, dtype=np.intp)


def _encoded_in_parts(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Return codes of very many labels in one byte each, without copies of them all."""
    codes = np.empty(len(y), dtype=np.int8)
    for start in range(0, len(y), _MANY):
        codes[start : start + _MANY] = encode_labels(y[start : start + _MANY], classes)
    return codes
