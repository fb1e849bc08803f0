"""Several organisations, one model: what their protocols share, among parties whose rows are here.

Coordinates are made once sizes are known, a prior is a point in them, and what may be spent is one
allowance: of a ball or a schema, of two classes or more, whatever the protocol asks of parties.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from confrere.arrays import Floats
from confrere.kernel.guarantee import Guarantee, check_epsilon, check_positive
from confrere.kernel.losses import Loss, loss_of
from confrere.kernel.streams import RandomSource
from confrere.maths.geometry import LOG_ODDS
from confrere.mechanisms.prior_check import UNCHECKED, Belief
from confrere.methods.design import Allowance, Alpha, Near
from confrere.methods.linear import Coordinates, SchemaGeometry, linear_model
from confrere.methods.party_rows import PartyRows, Sizes
from confrere.methods.plan import LabelledTable, Plan, Term
from confrere.methods.priors import Prior
from confrere.model import Facts, Linear, PriorFacts

Method = Literal["average", "ofpa", "ofaa", "laplace", "sums"]


@dataclass(frozen=True, eq=False)
class Combined:
    """What was made of the parties' releases."""

    frame: Coordinates  #: That ``weights`` are in
    weights: Floats  #: The model: ``(d,)``, of several classes ``(K, d)``
    prior: PriorFacts | None = None  #: What a check of a prior has shown


@dataclass(frozen=True, kw_only=True, eq=False)
class Collaboration(ABC):
    """What parties release, and what is made of it.

    Parameters
    ----------
    frame : Frame, BodyFrame or SchemaGeometry
        The public coordinates; a schema's are made by :meth:`at`.
    feature_scale : array, optional
        Public factors of the columns; a prior has its own.
    epsilon : float
        What each party spends in all.
    delta : float, default=0.0
        With one the noise is Gaussian.
    n_classes : int, default=2
        More than two have the softmax loss.
    alpha : float or "auto", default="auto"
        Ridge per record, or the public rule.
    cap : float, default=0.5
        Largest slope of the loss of two classes; 1 is the logistic loss.
    prior : Prior or array, optional
        Public coefficients to shrink towards, for rows as encoded; an array is a point in the
        coordinates, which :meth:`at` makes of them.
    belief : Belief
        How far they are believed.
    near : Near, optional
        What is known of the point, where it says more than a base rate.
    rounds : int, default=1
        How often parties release.
    """

    frame: Coordinates | SchemaGeometry
    epsilon: float
    delta: float = 0.0
    n_classes: int = 2
    alpha: Alpha = "auto"
    cap: float = 0.5
    feature_scale: ArrayLike | None = None
    prior: Prior | Floats | None = None
    belief: Belief = UNCHECKED
    near: Near | None = None
    rounds: int = 1

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.alpha != "auto":
            check_positive(self.alpha, "alpha")

    @property
    def loss(self) -> Loss:
        """Of the model."""
        return loss_of(self.n_classes, self.cap)

    @property
    def space(self) -> Coordinates:
        """The coordinates, once they are made."""
        assert not isinstance(self.frame, SchemaGeometry), "made by `at`"
        return self.frame

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the weights."""
        size = self.space.size
        return (size,) if self.n_classes == 2 else (self.n_classes, size)

    @property
    def centre(self) -> Floats | None:
        """The point that is shrunk towards, in the coordinates."""
        assert not isinstance(self.prior, Prior), "made by `at`"
        return self.prior

    def allowed(self, sizes: Sizes) -> Allowance:
        """Return what one release may spend, of all parties' records together."""
        return Allowance(
            epsilon=self.epsilon, delta=self.delta, loss=self.loss, count=sizes.all_records
        )

    def at(self, sizes: Sizes) -> Self:
        """Return the same in coordinates that are made for parties of these public sizes."""
        frame, prior, near = self.frame, self.prior, self.near
        scale = self.feature_scale
        if isinstance(prior, Prior) and np.any(prior.coef):
            near, scale = prior.near(self.belief), prior.scale_at(self.belief)
        if isinstance(frame, SchemaGeometry):
            frame = frame.frame(self.allowed(sizes), LOG_ODDS if near is None else near.variance)
        frame = frame.weighted(scale)[0]
        point = prior.point(frame, self.belief) if isinstance(prior, Prior) else prior
        return replace(self, frame=frame, prior=point, near=near, feature_scale=None)

    @abstractmethod
    def guarantee(self, sizes: Sizes) -> Guarantee:
        """Return what is promised, for parties of these public sizes."""

    @abstractmethod
    def run(self, parties: PartyRows, sizes: Sizes, source: RandomSource) -> Combined:
        """Return the weights."""

    @abstractmethod
    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        """Return the mechanisms and what they see."""

    def run_many(
        self, parties: PartyRows, sizes: Sizes, source: RandomSource, count: int
    ) -> Floats:
        """Return what parties release, one run per row."""
        return np.hstack([term.run_many(source, count) for term in self.terms(parties, sizes)])


@dataclass(frozen=True, eq=False)
class CollaborativePlan(Plan[Linear]):
    """A protocol among parties of known sizes, all of whose rows are here."""

    method: Method  #: How the catalogue calls it
    protocol: Collaboration
    sizes: Sizes

    @override
    def guarantee(self) -> Guarantee:
        return self.protocol.guarantee(self.sizes)

    @override
    def run(self, data: LabelledTable, source: RandomSource) -> Linear:
        made = self.protocol.run(self._parties(data), self.sizes, source)
        facts = Facts(
            method=self.method,
            parties=len(self.sizes.counts),
            rounds=self.protocol.rounds,
            n_samples=self.sizes.total,
            prior=made.prior,
            **made.frame.learned_with(),
        )
        return linear_model(made.frame, made.weights, facts, data.names)

    @override
    def terms(self, data: LabelledTable) -> list[Term]:
        return self.protocol.terms(self._parties(data), self.sizes)

    @override
    def run_many(self, data: LabelledTable, source: RandomSource, count: int) -> Floats:
        return self.protocol.run_many(self._parties(data), self.sizes, source, count)

    def _parties(self, data: LabelledTable) -> PartyRows:
        return PartyRows.of(data, len(self.sizes.counts))

    @property
    @override
    def batched(self) -> bool:
        return self.protocol.rounds == 1  # rounds follow one another
