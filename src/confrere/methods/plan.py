"""What every algorithm is: a price, a note for the ledger, an act, and what an auditor may ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats
from confrere.data.frame import BodyFrame, Frame
from confrere.data.tables import watched
from confrere.kernel.accountants import Labels, Loss
from confrere.kernel.guarantee import Guarantee, Priced, PrivacyEvent
from confrere.kernel.measurements import Objective
from confrere.kernel.noise import Body, RandomSource
from confrere.methods.allowance import LOG_ODDS, Allowance, Alpha, Near, ridge_for
from confrere.methods.geometry import ExpectedArea, coordinate_variance
from confrere.model import Facts, Linear, Link, Model
from confrere.solver.row_blocks import Engine

Learned = TypeVar("Learned", covariant=True)


class Source(Protocol):
    """A released model that a fit starts from."""

    @property
    def kind(self) -> str: ...
    @property
    def model(self) -> Model: ...
    @property
    def guarantee(self) -> Guarantee: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicFacts:
    """What a plan may depend on besides its settings. Nothing in it comes from a record."""

    n_samples: int  #: Public sizes of the table
    n_features: int
    n_classes: int = 2  #: Number of declared labels; 0 of numbers
    #: The declared labels, sorted; None where only a price is asked
    classes: NDArray[np.generic] | None = None
    features: Sequence[str] | None = None  #: Names of the columns; None where only a price is asked
    sizes: Mapping[str, int] | None = None  #: Number of records of every party
    auxiliary: Floats | None = None  #: Public rows without labels


@dataclass(frozen=True)
class Names:
    classes: tuple[Any, ...]
    features: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class LabelledTable:
    """Records of one organisation, or of many."""

    X: Any  #: ``(n, d)``: Rows as given
    codes: Labels  #: ``(n,)``: Position of every label among ``classes``, or numbers
    classes: NDArray[np.generic]  #: The declared labels, sorted
    features: Sequence[str]  #: Names of the columns
    #: ``(n,)``: Whose row it is: a position among the parties
    party: NDArray[np.intp] | None = None
    engine: Engine | None = None  #: Who reads the rows

    @property
    def names(self) -> Names:
        return Names(tuple(self.classes.tolist()), tuple(self.features))

    @property
    def facts(self) -> PublicFacts:
        return PublicFacts(
            n_samples=self.X.shape[0],
            n_features=self.X.shape[1],
            n_classes=len(self.classes) and max(2, len(self.classes)),
            classes=self.classes,
            features=self.features,
        )

    @property
    def labels(self) -> NDArray[Any]:
        """Labels as losses take them: of two classes -1 and +1 in a byte, codes, numbers."""
        if not 1 <= len(self.classes) <= 2:
            return self.codes
        signs = self.codes.astype(np.int8)
        signs *= 2
        signs -= 1
        return signs


@dataclass(frozen=True, eq=False)
class Term:
    """One mechanism and the bounded rows that it sees; losses of one record's terms add up."""

    name: str  #: Which part of the plan
    mechanism: Any  #: Its ``guarantee``, rates and ridges are public
    data: Any  #: What ``mechanism.sample`` takes
    check: object = None  #: Of a check of a prior: the rule that its mechanism follows from

    def run_many(self, source: RandomSource, count: int) -> Floats:
        """Return ``(count, k)`` independent releases; for made-up rows, from a seeded source."""
        released = source.draw(self.mechanism, self.data, count)
        return np.hstack([each.reshape(count, -1) for each in released])


class Plan(ABC, Generic[Learned]):
    """An algorithm on public facts: everything that is decided before the data are touched."""

    @property
    def priced(self) -> Priced:
        """What is paid for: a measurement, or several composed; by default the plan itself."""
        return self

    def guarantee(self) -> Guarantee:
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
        """Return the numbers of ``count`` independent runs on made-up data, one run per row."""
        return np.hstack([term.run_many(source, count) for term in self.terms(data)])

    @property
    def batched(self) -> bool:
        """Whether :meth:`run_many` can be asked: many runs share their passes over the rows."""
        return True

    def later_mechanisms(self) -> tuple[Objective, ...]:
        """Return mechanisms that learn from what others released: rows that nobody can choose."""
        return ()


class ModelPlan(Plan[Model]):
    """One organisation's plan: noised numbers, all that is sent, then public arithmetic."""

    #: The source that is the model in its place, for nothing: records would add too little to it.
    instead: Source | None = None

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
        return self.assemble(self.release(data, source), data.names)


#: Of a ball, or of the body that a schema declares.
Coordinates = Frame | BodyFrame
_SCORES = Link()


@dataclass(frozen=True)
class Target:
    """What is learned, as public facts say it: classes, or an outcome that is none."""

    loss: Loss
    level: float = 0.0  #: The score of somebody of whom nothing is known
    floor: float | None = None  #: Over epsilon the least ridge, at which the Jacobian costs little
    link: Link = _SCORES  #: From scores to what is predicted
    variance: float = LOG_ODDS  #: Of people's scores around the level
    curvature: float | None = None  #: Of a record in the mean, where ridges follow from it

    def allowance(self, **price: Any) -> Allowance:
        """Return what a fit of it may spend."""
        told = ("loss", "variance", "curvature", "floor")
        return Allowance(**{name: getattr(self, name) for name in told} | price)

    def wide(self, point: Floats, parts: int = 1) -> Floats:
        """Return weights of one vector; where its last number is several, ``parts`` share it."""
        return point

    def read(self, frame: Coordinates, weights: Floats) -> tuple[Floats, Floats, Link]:
        """Return what released weights say: coefficients, intercept, and from scores on."""
        return *coefficients(frame.coefficients, weights), self.link


@dataclass(frozen=True, eq=False)
class LinearPlan(ModelPlan):
    frame: Coordinates  #: The public coordinates
    mechanism: Objective  #: Noise, ridge and price
    public_samples: int  #: The number of records that everyone may know
    target: Target  #: What is predicted
    sources: tuple[Source, ...] = ()  #: Released models that ``centre`` was made from
    #: What its area is expected to be, by public facts; of two classes
    expected: ExpectedArea | None = None
    kept: float | None = None  #: Share of the signal that records are expected to show
    known: float = 0.0  #: Share of the signal that a source keeps by itself
    instead: Source | None = None

    @property
    def priced(self) -> Objective:
        return self.mechanism

    def facts(self) -> Facts:
        rate, (block,) = self.mechanism.rate, self.mechanism.blocks
        own: dict[str, Any] = {}
        if isinstance(block.norm, Body) and not self.mechanism.delta:
            own = body_law(block.norm, block.ridge, rate)
        return Facts(
            n_samples=self.public_samples,
            rho=None if self.mechanism.delta else rate,
            sigma=1 / rate if self.mechanism.delta else None,
            kept=self.kept,
            ridge=block.ridge,
            **own,
        )

    def release(self, data: LabelledTable, source: RandomSource) -> dict[str, Floats]:
        labels, unchanged = data.labels, watched(data.X)
        rows = self.frame.rows(data.X, data.engine)
        ((weights,),) = source.draw(self.mechanism, ([rows], labels))
        if unchanged is not None:
            unchanged()
        return {"weights": weights}

    def assemble(self, released: Mapping[str, Floats], names: Names) -> Linear:
        return linear_model(self.frame, released["weights"], self.facts(), names, self.target)

    def bounds(self) -> dict[str, tuple[tuple[int, ...], float]]:
        act = self.mechanism.act
        return {"weights": (act.shape, act.longest)}

    def terms(self, data: LabelledTable) -> list[Term]:
        return [Term("model", self.mechanism, ([self.frame.rows(data.X)], data.labels))]

    @property
    def batched(self) -> bool:
        return self.mechanism.loss.n_classes == 2


def body_law(body: Body, ridge: float, rate: float) -> dict[str, tuple[float, ...]]:
    """Return ridge and noise of the columns of every factor, before the roots.

    Of columns with a kernel the ridge is that of the first, which tells the others'.
    """
    group = np.array(body.groups)
    sizes = np.bincount(group, weights=body.sizes)
    rates = rate * np.array(body.shares)
    each = zip(body.sizes, body.groups, strict=True)
    noises = (coordinate_variance(int(sizes[g]), m) / rates[g] ** 2 for m, g in each)
    ridges = (ridge / float(np.square(root[:, 0]).sum()) for root in body.roots)
    return {"ridges": tuple(ridges), "noises": tuple(map(float, noises))}


#: The share of the signal from which on a fit is taken to be where its loss is least.
ENOUGH = 0.55


def linear_model(
    frame: Coordinates, weights: Floats, facts: Facts, names: Names, target: Target
) -> Linear:
    loss, (coef, intercept, link) = target.loss, target.read(frame, weights)
    own = loss.n_classes == 2 and (facts.kept is None or facts.kept >= ENOUGH)
    name = "capped" if loss.slope < 1 else "logistic" if loss.n_classes == 2 else "softmax"
    name = name if loss.n_classes else loss.known_as()
    facts = replace(facts, loss=name, **frame.learned_with())
    link = Link(loss.slope if own else 1.0) if loss.n_classes else link
    return Linear(coef=coef, intercept=intercept, facts=facts, link=link, **vars(names))


def coefficients(
    of: Callable[[Floats], tuple[Floats, float]], weights: Floats
) -> tuple[Floats, Floats]:
    """Return coefficients and intercepts, one row per score, without what all classes share."""
    if np.ndim(weights) == 2:
        weights = weights - weights.mean(axis=0)
    coef, intercept = zip(*map(of, np.atleast_2d(weights)), strict=True)
    return np.array(coef), np.array(intercept)


def plan_linear(
    allowed: Allowance,
    frame: Coordinates,
    *,
    alpha: Alpha = "auto",
    ridge_floor: float = 2.0,
    prior: Floats | None = None,
    near: Near | None = None,
) -> LinearPlan:
    """Return the plan of a private linear model, near a point in the frame's coordinates."""
    norm = frame.bound
    if alpha == "auto" and isinstance(frame, BodyFrame):
        ridge = frame.ridge  # its own
    else:
        ridge = ridge_for(allowed, norm.size, alpha, near=near, floor=ridge_floor)
    made = allowed.objective(norm, ridge, prior)
    return LinearPlan(frame, made, allowed.records, Target(allowed.loss))
