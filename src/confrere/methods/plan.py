"""What every algorithm is: a price, a note for the ledger, an act, and what an auditor may ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.body import BodyFrame
from confrere.data.frame import Frame
from confrere.data.spill import watched
from confrere.errors import InvalidParameter
from confrere.kernel.accountants import Loss
from confrere.kernel.guarantee import Guarantee, Priced, PrivacyEvent
from confrere.kernel.norms import Ball
from confrere.kernel.streams import RandomSource
from confrere.mechanisms.measurements import NoisedPoint, Objective, PerturbedTerm
from confrere.methods.allowance import Allowance, Alpha, ExpectedArea, Near, ridge_for
from confrere.model import Facts, Linear, Link, Model
from confrere.solver.row_blocks import Engine

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
    def labels(self) -> NDArray[Any]:
        """Labels as measurements take them: of two classes -1 and +1 in a byte, codes of more."""
        if len(self.classes) > 2:
            return self.codes
        signs = self.codes.astype(np.int8)
        signs *= 2
        signs -= 1
        return signs


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

    @property
    def priced(self) -> Priced:
        """What is paid for: a measurement, or several composed; by default the plan itself."""
        return self

    def guarantee(self) -> Guarantee:
        """Return the price; touches no data."""
        return self.priced.guarantee()

    def event(self) -> PrivacyEvent:
        """Return what the ledger keeps for accountants: the price, where nothing else composes."""
        return self.guarantee().event() if self.priced is self else self.priced.event()

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
    def bounds(self) -> dict[str, tuple[tuple[int, ...], float]]:
        """Return the shape of each of the numbers, and a length that it does not exceed."""

    @abstractmethod
    def facts(self) -> Facts:
        """Return the public facts that a release of the model carries."""

    def run(self, data: LabelledTable, source: RandomSource) -> Model:
        """Return the released model of rows as given."""
        return self.assemble(self.release(data, source), data.names)


#: Of a ball, or of the body that a schema declares.
Coordinates = Frame | BodyFrame


def linear_frame(
    n_features: int,
    *,
    data_norm: float,
    fit_intercept: bool = True,
    intercept_scale: float,
    feature_scale: ArrayLike | None = None,
    norm: Ball = "l2",
) -> Frame:
    """Return the public coordinates that an estimator's common parameters declare."""
    if fit_intercept and not 0 < intercept_scale < 1:
        raise InvalidParameter("intercept_scale must lie strictly between 0 and 1.")
    scale = None if feature_scale is None else np.asarray(feature_scale, dtype=np.float64)
    return Frame(
        int(n_features),
        data_norm=float(data_norm),
        constant=float(intercept_scale) if fit_intercept else 0.0,
        feature_scale=scale,
        norm=norm,
    )


@dataclass(frozen=True, eq=False)
class LinearPlan(ModelPlan):
    """One perturbed objective in declared coordinates."""

    frame: Coordinates  #: The public coordinates
    mechanism: Objective  #: Noise, ridge and price
    public_samples: int  #: The number of records that everyone may know
    sources: tuple[Any, ...] = ()  #: Released models that ``centre`` was made from
    #: What its area is expected to be, by public facts; of two classes
    expected: ExpectedArea | None = None
    kept: float | None = None  #: Share of the signal that records are expected to show

    @property
    @override
    def priced(self) -> Objective:
        return self.mechanism

    @override
    def facts(self) -> Facts:
        rate = self.mechanism.rate
        return Facts(
            n_samples=self.public_samples,
            rho=None if self.mechanism.delta else rate,
            sigma=1 / rate if self.mechanism.delta else None,
            kept=self.kept,
            ridge=self.mechanism.blocks[0].ridge,
            **self.frame.learned_with(),
        )

    @override
    def release(self, data: LabelledTable, source: RandomSource) -> dict[str, Floats]:
        unchanged, rows = watched(data.X), self.frame.lazy(data.X, data.engine)
        ((weights,),) = source.draw(self.mechanism, ([rows], data.labels))
        if unchanged is not None:
            unchanged()
        return {"weights": weights}

    @override
    def assemble(self, released: Mapping[str, Floats], names: Names) -> Linear:
        loss = self.mechanism.loss
        return linear_model(self.frame, released["weights"], self.facts(), names, loss)

    @override
    def bounds(self) -> dict[str, tuple[tuple[int, ...], float]]:
        act = self.mechanism.act
        return {"weights": (act.shape, act.longest)}

    @override
    def terms(self, data: LabelledTable) -> list[Term]:
        return [Term("model", self.mechanism, ([self.frame.lazy(data.X)], data.labels))]

    @property
    @override
    def batched(self) -> bool:
        return self.mechanism.loss.n_classes == 2


#: The share of the signal from which on a fit is taken to be where its loss is least.
ENOUGH = 0.55


def linear_model(
    frame: Coordinates, weights: Floats, facts: Facts, names: Names, loss: Loss
) -> Linear:
    """Return released weights, one row per score, as a model of rows as given, with its link."""
    own = loss.n_classes == 2 and (facts.kept is None or facts.kept >= ENOUGH)
    coef, intercept = coefficients(frame, weights)
    link = Link(loss.slope if own else 1.0)
    return Linear(coef=coef, intercept=intercept, facts=facts, link=link, **vars(names))


def coefficients(frame: Coordinates, weights: Floats) -> tuple[Floats, Floats]:
    """Return ``(K, n_features)`` coefficients and ``(K,)`` intercepts for rows as given.

    What all of several classes share says nothing about any of them, and is taken off.
    """
    if np.ndim(weights) == 2:
        weights = weights - weights.mean(axis=0)
    coef, intercept = zip(*map(frame.coefficients, np.atleast_2d(weights)), strict=True)
    return np.array(coef), np.array(intercept)


def plan_linear(
    allowed: Allowance,
    frame: Coordinates,
    *,
    alpha: Alpha = "auto",
    ridge_floor: float = 2.0,
    prior: Floats | None = None,
    near: Near | None = None,
    sources: tuple[Any, ...] = (),
    expected: ExpectedArea | None = None,
    kept: float | None = None,
) -> LinearPlan:
    """Return the plan of a private linear model.

    With a delta noise is Gaussian; without, it has the norm of the frame. ``prior`` is a point in
    the frame's coordinates, and ``near`` what is known of it.
    """
    norm, records = frame.bound, allowed.records
    if alpha == "auto" and isinstance(frame, BodyFrame):
        ridge = frame.ridge  # its own
    else:
        ridge = ridge_for(allowed, norm.size, alpha, near=near, floor=ridge_floor)
    fit = allowed.objective(norm, ridge, prior)
    return LinearPlan(frame, fit, records, sources, expected, kept)
