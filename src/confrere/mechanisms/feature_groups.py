"""Objective perturbation on groups of features of the same records (PLR-FS; PST-F's low level).

Proof: docs/proofs/feature_groups.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import (
    ASSUMPTIONS,
    Guarantee,
    Neighbours,
    check_epsilon,
    check_positive,
    public_facts,
)
from confrere.kernel.streams import RandomSource
from confrere.maths.calibration import RidgeTerm, calibrate, calibrate_class_groups, calibrate_joint
from confrere.maths.gaussian import check_delta, group_mu
from confrere.maths.partition import Clipping
from confrere.mechanisms.laws import BodyNoise, ClassNoise, GaussianNoise, L2Noise, NoiseLaw
from confrere.mechanisms.noisy_minimiser import (
    SOLVER_SHARE,
    Labels,
    NoisyMinimiser,
)
from confrere.mechanisms.terms import Density, PerturbedObjectiveTerm, PerturbedSoftmaxTerm
from confrere.rows.body import Body
from confrere.rows.frame import row_norms

THEOREM = "docs/proofs/feature_groups.md"


@dataclass(frozen=True, kw_only=True)
class FeatureGroupPerturbation:
    """One perturbed objective per group of features, all on the same records.

    Rows are in coordinates in which a group's bound is one: with ``clipping="separate"`` every
    group's rows lie in the unit ball, with ``"joint"`` the whole row does. Group ``k`` draws noise
    at rate ``rho q_k``.

    Parameters
    ----------
    epsilon : float
        The whole price, solver's share included.
    n_samples : int
        Public number of records.
    sizes : sequence of int
        Number of columns of every group.
    ridges : sequence of float
        ``L_k`` of every group's summed objective.
    weights : sequence of float
        ``q_k > 0``; they sum to one under separate clipping, their squares under joint clipping.
    clipping : {"separate", "joint"}
        How rows are bounded.
    cap : float, default=1.0
        Largest slope of the loss.
    prior_norm : float, default=0.0
        Public bound on the norm of any point shrunk towards.
    n_classes : int, default=2
        More than two have the softmax loss, and noise of its own for every class.
    delta : float, default=0.0
        With one the noise of all groups is Gaussian.
    bodies : tuple of Body, default=()
        Where noise is shaped like the rows: every group's own, in whose coordinates its rows are.
    """

    epsilon: float
    n_samples: int
    sizes: tuple[int, ...]
    ridges: tuple[float, ...]
    weights: tuple[float, ...]
    clipping: Clipping = "separate"
    cap: float = 1.0
    prior_norm: float = 0.0
    n_classes: int = 2
    delta: float = 0.0
    bodies: tuple[Body, ...] = ()
    rho: float = field(init=False)

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.n_samples < 1:
            raise InvalidData("X needs at least one row.")
        if not len(self.sizes) == len(self.ridges) == len(self.weights) >= 1:
            raise InvalidParameter("sizes, ridges and weights must have one entry per group.")
        for ridge, weight in zip(self.ridges, self.weights, strict=True):
            check_positive(ridge, "ridge")
            check_positive(weight, "weight")
        budget = self.epsilon * (1 - SOLVER_SHARE)
        if self.n_classes > 2 and self.cap < 1:
            raise InvalidParameter("loss='capped' is for two classes only.")
        if self.bodies:
            self._check_bodies()
        joint = self.clipping == "joint"
        if self.delta:
            check_delta(self.delta, self.n_samples)
            mu = group_mu(budget, self.delta, self.ridges, n_classes=self.n_classes, joint=joint)
            rho = mu / (2 * (self.cap if self.n_classes == 2 else math.sqrt(2)))
        elif self.n_classes > 2:
            rho = calibrate_class_groups(
                budget, self.ridges, self.weights, self.n_classes, joint=joint
            )
        elif joint:
            rho = calibrate_joint(budget, self.ridges, self.weights, self.cap)
        else:
            rho = self._separate_rho(budget)
        object.__setattr__(self, "rho", rho)

    def _check_bodies(self) -> None:
        if self.n_classes > 2 or self.delta:
            raise InvalidParameter(
                "noise='schema' is for two classes, without a delta; use noise='ball'."
            )
        if self.clipping == "joint":
            raise InvalidParameter(
                "clipping must be 'separate': a row may be at corners of all bodies."
            )
        if tuple(body.size for body in self.bodies) != tuple(self.sizes):
            raise InvalidParameter("there must be one body per group, of as many columns.")

    def _separate_rho(self, budget: float) -> float:
        terms = [
            RidgeTerm(ridge=ridge, weight=weight, cap=self.cap)
            for ridge, weight in zip(self.ridges, self.weights, strict=True)
        ]
        return calibrate(budget, terms)

    @property
    def rates(self) -> tuple[float, ...]:
        """Rate of every group's noise norm; of Gaussian noise, one over its deviation.

        Gaussian noise under joint clipping is the same for all groups: a row that is long in one
        of them is short in the others.
        """
        if not self.delta:
            return tuple(self.rho * weight for weight in self.weights)
        if self.clipping == "joint":
            return (self.rho,) * len(self.weights)
        return tuple(self.rho * math.sqrt(weight) for weight in self.weights)

    @property
    def shares(self) -> tuple[float, ...]:
        """Epsilon of every group's own release, for rows in the unit ball."""
        if self.delta:
            power = 2 if self.clipping == "joint" else 1
            return tuple(self.epsilon * weight**power for weight in self.weights)
        slope = self.cap if self.n_classes == 2 else 2.0
        return tuple(2 * slope * rate for rate in self.rates)

    @property
    def laws(self) -> tuple[NoiseLaw, ...]:
        """The law of every group's noise."""
        if self.delta:
            return tuple(GaussianNoise(1 / rate) for rate in self.rates)
        if self.bodies:
            return tuple(map(BodyNoise, self.rates, self.bodies))
        if self.n_classes > 2:
            return tuple(ClassNoise(rate, self.n_classes) for rate in self.rates)
        return tuple(L2Noise(rate) for rate in self.rates)

    def noise_facts(self) -> dict[str, Any]:
        """Return all that an accountant needs to compose Gaussian groups with other releases."""
        return {
            "sigmas": [1 / rate for rate in self.rates],
            "ridges": list(self.ridges),
            "cap": self.cap,
            "n_classes": self.n_classes,
            "joint": self.clipping == "joint",
            "output_epsilon": self.epsilon * SOLVER_SHARE,
        }

    def guarantee(self) -> Guarantee:
        """Return the price of all groups together, without touching data."""
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=Neighbours.REPLACE_ONE,
            theorem=THEOREM,
            public=public_facts(Neighbours.REPLACE_ONE, "feature groups", "importances"),
            assumptions=ASSUMPTIONS,
        )

    @property
    def minimisers(self) -> tuple[NoisyMinimiser, ...]:
        """Every group's act; they share what the output steps spend."""
        return tuple(
            NoisyMinimiser(
                law=law,
                n_samples=self.n_samples,
                n_features=size,
                ridge=ridge,
                output_epsilon=self.epsilon * SOLVER_SHARE / len(self.sizes),
                n_classes=self.n_classes,
                cap=self.cap,
                prior_norm=self.prior_norm,
            )
            for size, ridge, law in zip(self.sizes, self.ridges, self.laws, strict=True)
        )

    def run(
        self,
        rows: Sequence[NDArray[np.float64]],
        y: Labels,
        *,
        source: RandomSource,
        centres: Sequence[NDArray[np.float64] | None] | None = None,
    ) -> list[NDArray[np.float64]]:
        """Return every group's released weights.

        Parameters
        ----------
        rows : one (n, d_k) array per group
            Clipped rows.
        y : (n,) array
            Labels -1 and +1, or codes of more than two classes.
        source : RandomSource
            Where the noise comes from.
        centres : one array per group, optional
            Public points to shrink towards.
        """
        released = self.run_many(rows, y, source=source, count=1, centres=centres)
        return [each[0] for each in released]

    def run_many(
        self,
        rows: Sequence[NDArray[np.float64]],
        y: Labels,
        *,
        source: RandomSource,
        count: int,
        centres: Sequence[NDArray[np.float64] | None] | None = None,
    ) -> list[NDArray[np.float64]]:
        """Return ``(count, size)`` independent releases of every group."""
        source = source.book(self.guarantee(), count)
        self._certify(rows)
        points = centres if centres is not None else [None] * len(rows)
        return [
            one.run_many(X, y, source=source, count=count, centre=centre)
            for one, X, centre in zip(self.minimisers, rows, points, strict=True)
        ]

    def terms(
        self,
        rows: Sequence[NDArray[np.float64]],
        y: Labels,
        centres: Sequence[NDArray[np.float64] | None] | None = None,
    ) -> list[Density]:
        """Return the densities of the groups' releases, for an exact audit."""
        points = centres if centres is not None else [None] * len(rows)
        if self.n_classes > 2:
            return [
                PerturbedSoftmaxTerm(X, np.asarray(y, dtype=np.intp), one, centre)
                for one, X, centre in zip(self.minimisers, rows, points, strict=True)
            ]
        return [
            PerturbedObjectiveTerm(X, np.asarray(y, dtype=np.float64), one, centre)
            for one, X, centre in zip(self.minimisers, rows, points, strict=True)
        ]

    def _certify(self, rows: Sequence[NDArray[np.float64]]) -> None:
        if tuple(X.shape for X in rows) != tuple((self.n_samples, size) for size in self.sizes):
            raise InvalidData("rows do not have the declared shapes.")
        squares = np.array([row_norms(X) ** 2 for X in rows])
        longest = squares.sum(axis=0) if self.clipping == "joint" else squares
        if not longest.max() <= 1:
            raise InvalidData("a row is longer than its group's bound; clip the rows first.")
